import copy
import json
import os
import subprocess
import sys

import pytest
import torch
from conftest import but_for_load
from planted import (
    BY_HAND,
    COMPILE,
    GELU,
)

import decisions
from mvgpt import GPT, GPTConfig, save_checkpoint
from mvgpt.measure.conditions import ROOT
from mvgpt.measure.decisions import AGAIN, BASE
from mvgpt.measure.timing import FASTER, INVALID, NO_DIFFERENCE


@pytest.fixture(scope="module")
def run_without_compiler(tmp_path_factory, tokenizer):
    """The script where no program can be found: what it printed, and the folder it wrote."""
    folder = tmp_path_factory.mktemp("décisions and more")
    config = GPTConfig(vocab_size=300, n_positions=32, n_embd=64, n_layer=2, n_head=4)
    save_checkpoint(folder / "tiny", GPT(config), tokenizer)
    command = [sys.executable, ROOT / "decisions.py", folder / "tiny", "--device", "cpu",
               "--budget", "0.1", "--plot", "--out", folder / "out"]  # fmt: skip
    environment = {**os.environ, "PATH": str(folder), "PYTHONIOENCODING": "utf-8",
                   "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}  # fmt: skip
    environment.pop("CXX", None)
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    return done, folder / "out"


def test_without_a_compiler_the_row_is_skipped_and_the_others_go_on(run_without_compiler):
    done, folder = run_without_compiler
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "decisions-cpu.json").read_text(encoding="utf-8"))
    *others, row = results["decisions"]
    assert [r["name"] for r in results["decisions"]] == [BASE, AGAIN, GELU, BY_HAND, COMPILE]
    assert "C++ compiler" in row["skipped"]
    assert row["pass"] is row["token"] is row["compile_seconds"] is None
    assert all(r["pass"]["milliseconds"]["n"] >= 10 and r["skipped"] is None for r in others)
    assert [r["vocab_size"] for r in results["vocabulary"]] == [5_000, 10_000, 20_000]
    assert f"{COMPILE} is skipped: " in done.stdout


def test_output_of_the_script(run_without_compiler):
    done, folder = run_without_compiler
    assert not but_for_load(done.stderr)
    assert max(map(len, done.stdout.splitlines()[:-2])) <= 100  # but for the paths it wrote to
    text = (folder / "decisions-cpu.json").read_text(encoding="utf-8")
    assert decisions.render(json.loads(text)) in done.stdout
    assert str(folder.parent) not in text
    assert {path.name for path in folder.iterdir()} == {"decisions-cpu.json", "decisions-cpu.png"}


@pytest.fixture
def results():
    """Results as they are written, one decision of each kind among them."""

    def times(value, verdict):
        spread = {"median": 50 * value, "low": 49 * value, "high": 51 * value, "n": 20}
        ratio = {"value": value, "low": value - 0.1, "high": value + 0.1}
        return {"milliseconds": spread, "ratio": ratio, "verdict": verdict}

    def row(name, one_pass, token, **found):
        keys = ("calls_per_token", "max_logit_difference", "argmax_agreement", "compile_seconds",
                "recompiles", "skipped")  # fmt: skip
        return {"name": name, "pass": one_pass, "token": token, **dict.fromkeys(keys), **found}

    found = {"calls_per_token": 175, "max_logit_difference": 1e-6, "argmax_agreement": 1.0}
    spread = {"median": 50.0, "low": 49.0, "high": 51.0, "n": 20}
    return {
        "conditions": {"machine": "here", "device": "cpu", "threads": 2, "usable_cores": 2,
                       "dtype": "float32", "torch": "2.13.0", "load_average": None},
        "text": "random ids", "tokens": 256, "cached": 128, "tolerance": 1e-5,
        "decisions": [
            row(BASE, times(1.0, None), times(1.0, None), **found),
            row(GELU, times(0.9, NO_DIFFERENCE), times(0.9, FASTER), **found),
            row(BY_HAND, times(0.7, INVALID), times(0.7, INVALID),
                **{**found, "max_logit_difference": None}),
            row(COMPILE, times(0.8, FASTER), None, **{**found, "calls_per_token": None},
                compile_seconds=30.0, recompiles=0),
        ],
        "vocabulary": [{"vocab_size": 5000, "pass": spread, "token": spread, "head_weights": 9}],
    }  # fmt: skip


def test_break_even_is_stated_in_passes(results):
    """30 s, won back at 0.2 of 50 ms a pass; 0.3 and 0.1 at the interval's ends."""
    text = " ".join(decisions.render(results).split())
    assert "compiling took 30 s (n = 1), won back after 3,000 passes (2,000 to 6,000)" in text
    assert "compiled again 0 times" in text
    results["decisions"][3]["pass"]["verdict"] = NO_DIFFERENCE
    text = " ".join(decisions.render(results).split())
    assert "which no number of passes is shown to win back" in text


def test_what_is_invalid_is_called_so(results):
    text = decisions.render(results)
    assert text.count(INVALID) == 3  # in both tables, and below them
    assert "not a number" in text


def test_render_changes_nothing(results):
    before = copy.deepcopy(results)
    decisions.render(results)
    assert results == before


def test_text_is_the_story_where_there_is_one(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(decisions, "STORY", tmp_path / "story.txt")
    name, ids = decisions.read_text(tokenizer, 40, 1)
    assert name == "random ids"
    assert torch.equal(ids, decisions.read_text(tokenizer, 40, 1)[1])
    assert not torch.equal(ids, decisions.read_text(tokenizer, 40, 2)[1])
    (tmp_path / "story.txt").write_text("The mole dug.", encoding="utf-8")
    name, ids = decisions.read_text(tokenizer, 40, 1)
    assert name == "checkpoints/stories/story.txt"
    assert ids.shape == (1, 40)
    assert tokenizer.decode(ids[0].tolist()).startswith("The mole dug.The mole dug.")


@pytest.mark.parametrize("budget", ["0", "-1", "nan", "inf", "soon"])
def test_budget_must_be_a_time(budget, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["decisions.py", f"--budget={budget}"])
    with pytest.raises(SystemExit) as stop:
        decisions.parse()
    assert stop.value.code == 2
    assert budget in capsys.readouterr().err
