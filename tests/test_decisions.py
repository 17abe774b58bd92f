import argparse
import copy
import json
import os
import subprocess
import sys

import pytest
import torch
from conftest import but_for_load
from planted import BY_HAND, COMPILE, GELU
from test_roofs import written

import decisions
from mvgpt import GPT, GPTConfig, load_checkpoint, save_checkpoint
from mvgpt.files import write_json
from mvgpt.measure import options
from mvgpt.measure.conditions import ROOT
from mvgpt.measure.decisions import AGAIN, BASE
from mvgpt.measure.timing import FASTER, INVALID, NO_DIFFERENCE


@pytest.fixture(scope="module")
def run_without_compiler(tmp_path_factory, tokenizer):
    """The script where no program can be found: what it printed, and the folder it wrote."""
    folder = tmp_path_factory.mktemp("décisions and more")
    config = GPTConfig(vocab_size=300, n_positions=32, n_embd=64, n_layer=2, n_head=4)
    save_checkpoint(folder / "tiny", GPT(config), tokenizer)
    write_roofs(folder)
    command = [sys.executable, ROOT / "decisions.py", folder / "tiny", "--device", "cpu",
               "--threads", str(torch.get_num_threads()), "--machine", "here",
               "--budget", "0.1", "--plot", "--out", folder / "out"]  # fmt: skip
    environment = {**os.environ, "PATH": str(folder), "PYTHONIOENCODING": "utf-8",
                   "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}  # fmt: skip
    environment.pop("CXX", None)
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    return done, folder / "out"


def write_roofs(folder):
    """As `bench.py roofs` would, which takes its time, for a run under these conditions."""
    (folder / "out").mkdir()
    model, _ = load_checkpoint(folder / "tiny")
    args = argparse.Namespace(seed=0, machine="here", checkpoint=folder / "tiny")
    head = options.header("bench", args, model, torch.device("cpu"))
    write_json(folder / "out" / "bench-roofs-cpu.json", head | {"roofs": written()})


def test_without_a_compiler_the_row_is_skipped_and_the_others_go_on(run_without_compiler):
    done, folder = run_without_compiler
    assert done.returncode == 0, done.stderr
    results = json.loads((folder / "decisions-cpu.json").read_text(encoding="utf-8"))
    *others, row = results["decisions"]
    assert [r["name"] for r in results["decisions"]] == [BASE, AGAIN, GELU, BY_HAND, COMPILE]
    assert "C++ compiler" in row["skipped"]
    assert row["pass"] is row["token"] is row["compile_seconds"] is None
    assert all(r["pass"]["milliseconds"]["n"] >= 10 and r["skipped"] is None for r in others)
    assert [r["vocab_size"] for r in results["vocabulary"]] == [300, 5_000, 10_000, 20_000]
    assert results["roofs"]["from"] == "bench-roofs-cpu.json"
    assert f"{COMPILE} is skipped: " in done.stdout


def test_output_of_the_script(run_without_compiler):
    done, folder = run_without_compiler
    assert not but_for_load(done.stderr)
    assert max(map(len, done.stdout.splitlines()[:-3])) <= 100  # but for the paths it wrote to
    text = (folder / "decisions-cpu.json").read_text(encoding="utf-8")
    assert decisions.render(json.loads(text)) in done.stdout
    assert str(folder.parent) not in text
    names = {"decisions-cpu.json", "decisions-cpu.png", "decisions-cpu-predictions.png",
             "bench-roofs-cpu.json"}  # fmt: skip
    assert {path.name for path in folder.iterdir()} == names


def test_all_keys_of_a_row_are_there_and_what_is_null_has_its_reason(run_without_compiler):
    _, folder = run_without_compiler
    results = json.loads((folder / "decisions-cpu.json").read_text(encoding="utf-8"))
    *rows, skipped = results["decisions"]
    keys = {"name", "pass", "token", "predicted", "calls_per_token", "max_logit_difference",
            "error_ratio", "argmax_agreement", "greedy_tokens", "first_difference",
            "compile_seconds", "recompiles", "skipped", "reasons"}  # fmt: skip
    for row in rows:
        assert row.keys() == keys
        assert (row["greedy_tokens"], row["first_difference"]) == (100, None)
        assert row["predicted"]["token"].keys() == {"milliseconds", "ratio", "operations",
                                                    "bytes", "flops"}  # fmt: skip
        assert row["reasons"] == {}
    assert skipped["predicted"] is skipped["greedy_tokens"] is None
    assert rows[2]["predicted"]["pass"]["operations"] == -8
    reason = results["characters"]["reason"]
    assert "300 tokens, 43 of them merges" in reason or "no text" in reason
    assert [row["characters_per_token"] for row in results["vocabulary"]][1:] == [None] * 3


@pytest.fixture
def results():
    """Results as they are written, one decision of each kind among them."""

    def times(value, verdict):
        spread = {"median": 50 * value, "low": 49 * value, "high": 51 * value, "n": 20}
        ratio = {"value": value, "low": value - 0.1, "high": value + 0.1}
        return {"milliseconds": spread, "ratio": ratio, "verdict": verdict}

    def row(name, one_pass, token, **found):
        keys = ("calls_per_token", "max_logit_difference", "error_ratio", "argmax_agreement",
                "greedy_tokens", "first_difference", "compile_seconds", "recompiles", "skipped",
                "predicted")  # fmt: skip
        return {"name": name, "pass": one_pass, "token": token, **dict.fromkeys(keys),
                "reasons": {}, **found}  # fmt: skip

    found = {"calls_per_token": 175, "max_logit_difference": 1e-6, "argmax_agreement": 1.0,
             "error_ratio": 1.0, "greedy_tokens": 100}  # fmt: skip
    expected = {"milliseconds": -1.0, "ratio": 0.98, "operations": -24, "bytes": -9, "flops": 0}
    spread = {"median": 50.0, "low": 49.0, "high": 51.0, "n": 20}
    ratio = {"value": 0.9, "low": 0.89, "high": 0.91}
    return {
        "model": {"vocab_size": 10_000},
        "conditions": {"machine": "here", "device": "cpu", "threads": 2, "usable_cores": 2,
                       "dtype": "float32", "torch": "2.13.0", "load_average": None},
        "text": "random ids", "tokens": 256, "cached": 128, "tolerance": 1e-5,
        "decisions": [
            row(BASE, times(1.0, None), times(1.0, None), **found),
            row(GELU, times(0.9, NO_DIFFERENCE), times(0.9, FASTER), **found,
                predicted={"pass": expected, "token": {**expected, "ratio": 0.123}}),
            row(BY_HAND, times(0.7, INVALID), times(0.7, INVALID),
                **{**found, "max_logit_difference": None, "first_difference": 7}),
            row(COMPILE, times(0.8, FASTER), None, compile_seconds=30.0, recompiles=0,
                **{**found, "calls_per_token": None, "greedy_tokens": None},
                reasons={"token": "it would compile", "greedy_tokens": "it would compile",
                         "predicted": "nobody knows"}),
        ],
        "vocabulary": [{"vocab_size": 5000, "pass": spread, "token": spread, "head_weights": 9,
                        "ratio": {"pass": ratio, "token": ratio}, "characters_per_token": 3.5,
                        "predicted": {"pass": 0.877, "token": 0.867},
                        "milliseconds_per_character": {"pass": spread, "token": spread}}],
        "characters": {"text": "a text", "characters": 1000, "reason": "it has too few",
                       "per_token": {"5000": 3.5, "20000": None},
                       "quickest": {"pass": 5000, "token": None}},
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
    assert text.count(f"{INVALID}\n") == 2  # in both tables
    assert f"{BY_HAND} is invalid: it computes something else" in text
    assert "not a number" in text


def test_what_is_predicted_stands_beside_what_is_measured(results):
    text = decisions.render(results)
    gelu = [line.split() for line in text.splitlines() if line.startswith(GELU)]
    assert [line[-3:] for line in gelu[1:]] == [["0.98", "none", "shown"],
                                                ["1.00)", "0.12", "faster"]]  # fmt: skip
    assert "differ from 7" in text
    assert f"{COMPILE} has no token, greedy tokens: it would compile\n" in text
    assert f"{COMPILE} has no prediction: nobody knows\n" in text


def test_vocabularies_are_weighed_by_the_character(results):
    text = decisions.render(results)
    assert "characters: the 1,000 of a text; none for 20,000, since it has too few" in text
    assert "by the character of text 5,000 is the quickest in a pass" in text
    assert "by the character of text none is shown to be the quickest in a token" in text
    assert " 0.88 " in text


def test_tables_are_not_wider_than_the_page(results):
    """Four places each: what a quiet GPU measures."""
    for row in results["decisions"]:
        for unit in ("pass", "token"):
            if row[unit]:
                row[unit] |= {
                    "milliseconds": {"median": 1.9231, "low": 1.9211, "high": 1.9251, "n": 90},
                    "ratio": {"value": 0.9231, "low": 0.9211, "high": 0.9251},
                }
    lines = decisions.render(results).splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith(f"{GELU}  1.9231 (1.9211 to 1.9251)") for line in lines)


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
