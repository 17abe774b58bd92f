"""tools/steps.py on a small history of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def history(tmp_path):
    """Steps 01.1, 02.1, 01.2 (out of order), one without a test, and one made anew."""

    def git(*args):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(["git", *identity, *args], cwd=tmp_path, check=True,
                              capture_output=True, text=True).stdout  # fmt: skip

    (tmp_path / "tools").mkdir()
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tools" / "steps.py", tmp_path / "tools")
    git("init")
    for place, (number, name) in enumerate([("01.1", "tests/a"), ("02.1", "tests/b"),
                                            ("01.2", "tests/c"), ("02.1", "tests/d"),
                                            ("10.1", "only.py")]):  # fmt: skip
        (tmp_path / name).write_text("", encoding="utf-8")
        git("add", ".")
        git("commit", "-m", f"ep{number}: commit {place}\n\nStep: {number}")

    def steps(*args):
        return subprocess.run([sys.executable, tmp_path / "tools" / "steps.py", *args],
                              capture_output=True, text=True)  # fmt: skip

    return git, steps


def test_list_sorts_by_number(history):
    _, steps = history
    lines = steps("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["01.1", "01.2", "02.1", "10.1"]
    assert lines[2].endswith("commit 3")


def test_tags(history):
    git, steps = history
    git("tag", "ep09.9")
    git("tag", "epilogue")
    git("tag", "ep03-mine")
    assert "7 tags on 4 steps" in steps("tag").stdout
    tags = "ep01 ep01.1 ep01.2 ep02 ep02.1 ep03-mine ep10 ep10.1 epilogue".split()
    assert git("tag", "--list").split() == tags
    assert git("log", "-1", "--format=%s", "ep01").strip() == "ep01.2: commit 2"
    assert steps("tag").returncode == 0


def test_check_runs_each_step_in_its_own_tree(history):
    git, steps = history
    done = steps(
        "check", "--", sys.executable, "-c", "import os; print(sorted(os.listdir('tests')))"
    )
    assert done.returncode == 1
    assert "failed: 10.1" in done.stderr
    assert "touches neither" in done.stdout
    assert "01.1   ok     ep01.1: commit 0: ['a']" in done.stdout
    assert git("worktree", "list").count("\n") == 1


def test_check_fails_where_the_command_does(history):
    _, steps = history
    done = steps("check", "--from", "02.1", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert done.returncode == 1
    assert done.stdout.count("FAILED") == 2
