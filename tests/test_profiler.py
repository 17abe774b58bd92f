"""profiler.py, as a user runs it and on written results."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import TEXT, but_for_load
from test_roofs import written

import profiler
from mvgpt import GPT, GPTConfig, Tokenizer, save_checkpoint
from mvgpt.measure import options

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The tiny model's folder, with roofs as bench.py would have measured them there."""
    folder = tmp_path_factory.mktemp("profiler")
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=300, n_positions=32, n_embd=64, n_layer=2, n_head=4))
    save_checkpoint(folder / "tiny", model, Tokenizer.train([TEXT], 300))
    args = SimpleNamespace(checkpoint=folder / "tiny", seed=0, machine=None)
    found = options.header("bench", args, model, torch.device("cpu")) | {"roofs": written()}
    found["conditions"]["threads"] = 1
    (folder / "r").mkdir()
    (folder / "r" / "bench-roofs-cpu.json").write_text(json.dumps(found), encoding="utf-8")
    return folder


def run(folder, *args, status=0):
    command = [sys.executable, "-W", "error::FutureWarning", ROOT / "profiler.py", folder / "tiny",
               "--threads", "1", "--device", "cpu", "--budget", "0.1", "--out", folder / "r",
               *args]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder,
                          env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})  # fmt: skip
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="session")
def done(folder):
    prompt = 'C:\\tmp\\new "x"\t😀'
    return run(folder, "--prompt", prompt, "--tokens", "12")


@pytest.fixture(scope="session")
def results(folder, done):
    return read(folder / "r" / "profiler-cpu.json")


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_pass(results):
    found = results["pass"]
    assert found["tokens"] == 32
    assert found["calls"] == 59  # 163 in the model of 6 blocks
    calls = {operation["name"]: operation["calls"] for operation in found["operations"]}
    assert calls["aten::linear"] == 13
    assert found["milliseconds"]["n"] == 20
    assert found["milliseconds"]["low"] <= found["milliseconds"]["median"]


def test_writing(results):
    found = results["writing"]
    assert found["tokens"] == 12
    assert found["prompt_tokens"] > 4
    assert found["calls_per_token"] == pytest.approx(59 + 4 + 12, abs=3)  # two cats a block
    assert found["profiled_milliseconds_per_token"] > 0


@pytest.mark.parametrize("phase", ["pass", "writing"])
def test_shares_add_up_to_1(results, phase):
    shares = [operation["share"] for operation in results[phase]["operations"]]
    assert sum(shares) + results[phase]["outside"] == pytest.approx(1, abs=1e-9)


def test_no_path_and_no_device_columns(results, folder):
    text = json.dumps(results)
    assert str(folder) not in text
    assert "device_milliseconds" not in text
    assert "kernels" not in text


def test_the_table_adds_up_and_is_what_is_printed(results, done):
    text = profiler.render(results)
    assert done.stdout.startswith(text + "\n")
    assert max(map(len, text.splitlines())) <= 100
    first = text.split("ms a pass without the profiler")[0]
    shares = [float(line.split(" %")[0].split()[-1]) for line in first.splitlines() if " %" in line]
    assert sum(shares) == pytest.approx(100, abs=0.6)
    assert but_for_load(done.stderr) == ""


def test_traces_have_the_phases_and_every_token(results, folder):
    path = folder / "r" / results["traces"]["writing"]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = [e["name"] for e in events if e.get("cat") == "user_annotation"]
    tokens = [f"token {number}" for number in range(1, 13)]
    assert sorted(names) == sorted(["writing", "prefill", "decode", *tokens])


def written_results(device, kernels):
    """As profiler.py would write them on a GPU, with what kernels add or without."""
    operation = {"name": "aten::item", "calls": 3, "profiled_milliseconds": 2.0, "share": 0.5,
                 "waits": True}  # fmt: skip
    found = {"calls": 3, "operations": [operation], "outside": 0.5, "tokens": 3,
             "profiler_multiplies_by": {"value": 1.1, "low": 1.0, "high": 1.2}}  # fmt: skip
    if kernels:
        operation["device_milliseconds"] = 0.25
        found |= {"kernels": 300, "device_milliseconds": 1.5, "waits": 3}
    spread = {"median": 4.0, "low": 3.9, "high": 4.1, "n": 8}
    conditions = {"machine": "m", "device": device, "threads": 1, "usable_cores": 2,
                  "dtype": "float32", "torch": "2", "load_average": None}  # fmt: skip
    writing = {"milliseconds_per_token": spread, "prompt_tokens": 4, "calls_per_token": None}
    return {"conditions": conditions, "pass": found | {"milliseconds": spread},
            "writing": found | writing}  # fmt: skip


def test_on_a_gpu_waiting_is_called_waiting():
    text = profiler.render(written_results("cuda", kernels=True))
    assert "aten::item (waiting)" in text
    assert "kernels, ms" in text
    assert "100 kernels a token ran 0.500 ms in all" in text
    assert "device 1.0 times a token" in text
    assert max(map(len, text.splitlines())) <= 100


def test_on_mps_it_says_that_there_are_no_kernels():
    text = profiler.render(written_results("mps", kernels=False))
    assert text.count("records no kernels on MPS") == 2
    assert "kernels, ms" not in text


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--device", "cuda"], "finds no cuda device"),
        (["--prompt", ""], "prompt is empty"),
        (["--pair", "--plot"], "--plot draws a pass and writing"),
        (["--tokens", "0"], "0 is not in 1 to"),
        (["--out", "tiny/config.json"], "cannot write to the folder"),
    ],
)
def test_bad_input_is_named(folder, args, named):
    assert named in run(folder, *args, status=2).stderr


def test_a_single_token_has_no_decode(folder):
    done = run(folder, "--tokens", "1")
    results = read(folder / "r" / "profiler-cpu.json")
    writing = results["writing"]
    assert writing["calls_per_token"] is writing["slope_microseconds_per_position"] is None
    assert writing["positions"] == []
    assert "no decoded token" in done.stdout
    assert "no verdict on a token: no token was decoded" in done.stdout


def test_verdicts(results, done):
    assert results["roofs"]["from"] == "bench-roofs-cpu.json"
    for phase, unit in (("pass", "pass"), ("writing", "token")):
        verdict = results[phase]["verdict"]
        assert sum(verdict["milliseconds"].values()) > verdict["milliseconds"]["measured"] > 0
        assert verdict["test"]["batch"]["low"] <= verdict["test"]["batch"]["value"]
        assert f"\na {unit} is " in done.stdout
    assert done.stdout.count("\ntested: twice the batch takes ") == 2
    writing = results["writing"]
    measured = writing["verdict"]["milliseconds"]
    assert measured["measured"] == writing["milliseconds_per_decoded_token"]["median"]
    per_operation = results["roofs"]["hand_over"]["microseconds"]["median"] / 1000
    assert measured["hand-over"] == pytest.approx(writing["calls_per_token"] * per_operation)


def test_the_time_of_each_token_against_its_position(results, done):
    writing = results["writing"]
    first = writing["prompt_tokens"] + 1
    assert [row["position"] for row in writing["positions"]] == list(range(first, first + 11))
    assert all(row["milliseconds"]["n"] == 10 for row in writing["positions"])
    assert writing["slope_microseconds_per_position"]["n"] == 10
    assert "each cached position adds " in done.stdout


def test_a_pair_side_by_side(folder):
    done = run(folder, "--pair")
    results = read(folder / "r" / "profiler-pair-cpu.json")
    assert [(row["batch"], row["tokens"]) for row in results["pair"]] == [(16, 32), (1, 25)]
    assert done.stdout.startswith(profiler.render(results) + "\n")
    assert max(map(len, profiler.render(results).splitlines())) <= 100
    assert "16 x 32 tokens  1 x 25 tokens" in re.sub("  +", "  ", done.stdout)
    assert list(results["traces"].values()) == ["trace-pair-16x32-cpu.json.gz",
                                                "trace-pair-1x25-cpu.json.gz"]  # fmt: skip
    for name in results["traces"].values():
        with gzip.open(folder / "r" / name, "rt", encoding="utf-8") as file:
            assert json.load(file)["traceEvents"]


def test_a_pair_on_a_gpu_and_without_a_verdict(results):
    """Rows that one column lacks are dashes in it."""
    without = results["pass"] | {"batch": 64, "verdict": {"bound": None, "reason": "planted"}}
    use = {
        "verdict": "GPU-bound",
        "busy": 0.925,
        "idle_after_waits": 0.01,
        "synchronisations": 1,
        "launch_delay_microseconds": {"median": 7.0, "low": None, "high": None, "n": 1},
    }
    ratio = {"median": 0.2, "low": 0.19, "high": 0.21, "n": 10}
    judged = results["pass"] | {"batch": 1}
    judged["verdict"] = judged["verdict"] | {"device": use, "hand_over_ratio": ratio}
    text = profiler.render(results | {"pair": [without, judged]})
    assert "no verdict on a pass: planted" in text
    busy = next(line for line in text.splitlines() if line.startswith("the GPU was busy"))
    assert busy.split()[-3:] == ["-", "92.5", "%"]
    assert "handed over after 0.200 (0.190 to 0.210)" in text
