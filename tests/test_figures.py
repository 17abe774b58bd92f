"""tools/figures.py: what the pages say is what results/reference/ holds."""

import subprocess
import sys
from pathlib import Path

import pytest
from test_profiler import written_results

import profiler
from mvgpt.errors import InputError
from mvgpt.files import write_json
from tools import figures

ROOT = Path(__file__).parents[1]


@pytest.fixture
def page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figure: profiler -->\nold\n<!-- end -->\nafter\n", "utf-8")
    return page


def test_a_page_shows_what_the_script_prints(page, tmp_path):
    results = written_results("cuda", kernels=True)
    (tmp_path / "m").mkdir()
    write_json(tmp_path / "m" / "profiler-cuda.json", results)
    assert figures.refresh(page, tmp_path, check=True)
    assert "old" in page.read_text("utf-8")
    assert figures.refresh(page, tmp_path, check=False)
    text = page.read_text("utf-8")
    assert f"```\n{profiler.render(results)}\n```\n<!-- end -->" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert not figures.refresh(page, tmp_path, check=True)


def test_what_is_not_measured_is_said(page, tmp_path):
    figures.refresh(page, tmp_path, check=False)
    assert "Not measured yet." in page.read_text("utf-8")


def test_charts_are_drawn_once_and_found_stale(tmp_path):
    images, results = tmp_path / "images", tmp_path / "results"
    (results / "m").mkdir(parents=True)
    assert figures.redraw(results, images, check=False) == []
    document = written_results("cuda", kernels=True)
    write_json(results / "m" / "profiler-cuda.json", document)
    names = ["m-profiler-cuda-pass.png", "m-profiler-cuda-token.png"]
    assert [path.name for path in figures.redraw(results, images, check=True)] == names
    assert not images.exists()
    figures.redraw(results, images, check=False)
    assert sorted(path.name for path in images.iterdir()) == names
    assert figures.redraw(results, images, check=True) == []
    document["pass"]["milliseconds"] = {"median": 9.0, "low": 8.9, "high": 9.1, "n": 8}
    write_json(results / "m" / "profiler-cuda.json", document)
    assert [path.name for path in figures.redraw(results, images, check=True)] == names[:1]


def test_an_unknown_figure_is_named(tmp_path):
    with pytest.raises(InputError, match="weather"):
        figures.figure("weather", tmp_path)


def test_the_pages_are_up_to_date():
    command = [sys.executable, ROOT / "tools" / "figures.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
