"""bench.py: with and without the cache."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from conftest import but_for_load

import mvgpt.bench.cache as cache
from mvgpt import save_checkpoint, stream

ROOT = Path(__file__).parents[1]


@pytest.fixture
def writing(model):
    return cache.Writing(model, [1, 2], 12, vocab=300, seed=0)


def test_every_case_writes_the_same_text_in_every_round(writing):
    rows = cache.compare_lengths(writing, [1, 5, 12], budget=0)
    assert [row["length"] for row in rows] == [1, 5, 12]
    assert writing.same() == 12
    runs = {name: len(laps) for name, laps in writing.laps.items()}
    assert set(runs.values()) == {11}  # the warm-up and ten rounds
    assert rows[0]["cached"]["milliseconds_per_token"] is None
    for row in rows[1:]:
        assert row["cached"]["milliseconds_per_token"]["n"] == 10
        assert row["cached"]["prefill_milliseconds"]["median"] > 0


def fake_laps(writing, cached, uncached):
    """As if each token had taken so many seconds, in twelve runs, the first the warm-up."""
    for name, seconds in (("cached", cached), ("cached, again", cached), ("uncached", uncached)):
        writing.ids[name] = list(range(12))
        writing.laps[name] = [[(1 + number) * seconds for number in range(12)] for run in range(12)]


def test_ratio_is_cached_over_uncached(writing):
    fake_laps(writing, 0.01, 0.04)
    row = cache.row(writing, 5, valid=True)
    assert row["ratio"] == {"value": 0.25, "low": 0.25, "high": 0.25}
    assert row["verdict"] == "faster"
    assert row["cached"]["milliseconds_per_token"]["median"] == pytest.approx(10)
    assert row["uncached"]["prefill_milliseconds"]["median"] == pytest.approx(40)


def test_no_gain_is_said(writing):
    fake_laps(writing, 0.01, 0.01)
    results = {"conditions": conditions(), "writing": [cache.row(writing, 5, valid=True)]}
    assert "no gain shown at length 5" in cache.render(results)


def conditions():
    return {"machine": "m", "device": "cpu", "threads": 1, "usable_cores": 2, "dtype": "float32",
            "torch": "2", "load_average": 0.1}  # fmt: skip


def test_other_ids_without_the_cache_are_invalid(writing, monkeypatch):
    """A planted fault: without the cache the fifth token is another one."""

    def faulty(model, prompt, tokens, *, use_cache, **options):
        for place, token in enumerate(stream(model, prompt, tokens, **options)):
            yield token if use_cache or place != 4 else (token + 1) % 300

    monkeypatch.setattr(cache, "stream", faulty)
    rows = cache.compare_lengths(writing, [4, 5, 12], budget=0)
    assert [row["verdict"] == "invalid" for row in rows] == [False, True, True]
    assert rows[1]["cached"] is rows[1]["ratio"] is None
    text = cache.render({"conditions": conditions(), "writing": rows})
    assert "differ within 5 tokens" in text


def run(folder, *args, status=0):
    command = [sys.executable, ROOT / "bench.py", folder / "tiny", "--out", folder / "new é" / "r",
               "--threads", "1", "--device", "cpu", "--machine", "here", *args]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder,
                          env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})  # fmt: skip
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def folder(model, tokenizer, tmp_path):
    save_checkpoint(tmp_path / "tiny", model, tokenizer)
    return tmp_path


def test_as_a_user_runs_it(folder):
    done = run(folder, "--lengths", "3", "40", "--budget", "0.01")
    path = folder / "new é" / "r" / "bench-cpu.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    assert results["script"] == "bench"
    assert results["conditions"]["machine"] == "here"
    assert results["model"]["name"] == "tiny"
    assert results["model"]["parameters"] == 2 * (12 * 64**2 + 13 * 64) + (300 + 32) * 64 + 128
    assert [row["length"] for row in results["writing"]] == [3, 40]
    assert done.stdout.startswith(cache.render(results))
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 100
    assert str(folder) not in path.read_text(encoding="utf-8")
    assert but_for_load(done.stderr) == ""


def test_ctrl_c_is_one_line_and_leaves_no_file(folder):
    command = [sys.executable, ROOT / "bench.py", folder / "tiny", "--out", folder / "r",
               "--device", "cpu", "--threads", "1", "--lengths", "2000"]  # fmt: skip
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a background job ignores it
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=heed)  # fmt: skip
    while not (folder / "r").exists():
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert (stdout, but_for_load(stderr)) == ("", "stopped\n")
    assert not list((folder / "r").iterdir())


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--lengths", "0"], "0 is not in 1 to"),
        (["--lengths", "five"], "five"),
        (["--threads", "-1"], "-1 is not in 1 to"),
        (["--prompt", ""], "prompt is empty"),
        (["--device", "cuda"], "finds no cuda device"),
        (["--budget", "soon"], "soon"),
    ],
)
def test_bad_input_is_named(folder, args, named):
    assert named in run(folder, *args, status=2).stderr


def test_a_prompt_beyond_the_window_is_said(folder):
    args = ("--prompt", "word " * 50, "--lengths", "1", "--budget", "0.01")
    assert "the model reads the last 32" in run(folder, *args).stderr


def test_more_threads_than_cores_is_said(folder):
    args = ("--threads", "64", "--lengths", "1", "--budget", "0.01")
    assert "64 threads on" in run(folder, *args).stderr
