"""train.py as a user runs it, on a tiny model."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch
from conftest import TEXT

import train
from mvgpt import load_checkpoint

ROOT = Path(__file__).parents[1]
SIZES = ("--vocab-size 300 --window 16 --channels 32 --layers 1 --heads 2 --batch 2 --threads 1 "
         "--device cpu --dropout 0.1 --tale-epochs 2")  # fmt: skip


def command(folder, *more):
    text = folder / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    return [sys.executable, ROOT / "train.py", "--text", text, "--tales", text,
            "--out", folder / "out", *SIZES.split(), *more]  # fmt: skip


def run(args, status=0):
    done = subprocess.run(args, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_folder_that_loads(tmp_path):
    run(command(tmp_path, "--epochs", "3"))
    model, tokenizer = load_checkpoint(tmp_path / "out")
    assert (model.config.n_embd, tokenizer.vocab_size) == (32, 300)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "| pre-training | 3 x" in card
    assert "| fine-tuning | 2 x" in card
    assert card.count("> Once upon a time") == 3
    assert not list((tmp_path / "out").glob("training*"))
    again = run(command(tmp_path, "--epochs", "3"), status=2)
    assert "holds a trained model already" in again.stderr


@pytest.mark.slow
def test_killed_and_resumed_it_gives_the_same_weights(tmp_path):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    run(command(tmp_path / "whole", "--epochs", "30"))

    folder = tmp_path / "killed"
    interrupt(command(folder, "--epochs", "30"), folder / "out" / train.STATE)
    done = run(command(folder, "--epochs", "30"))
    assert "pre-training: going on from step 500" in done.stdout

    files = [tmp_path / name / "out" / "model.safetensors" for name in ("whole", "killed")]
    whole, killed = map(safetensors.torch.load_file, files)
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    cards = [file.with_name("README.md").read_text(encoding="utf-8") for file in files]
    assert cards[0] == cards[1]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--epochs", "0"], "0 is not a number above 0"),
        (["--epochs", "nan"], "nan is not a number above 0"),
        (["--threads", "-1"], "-1 is not in 1 to 1024"),
        (["--seed", "-1"], "-1 is not in 0 to"),
        (["--epochs", "1", "--heads", "5"], "n_head 5"),
        (["--epochs", "1", "--window", "5000"], "too few"),
        (["--epochs", "1", "--vocab-size", "200"], "256 bytes"),
        (["--epochs", "1", "--tales", "none.txt"], "none.txt"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, more, named):
    done = run(command(tmp_path, *more), status=2)
    assert named in done.stderr
    assert done.stderr.strip().splitlines()[-1].count("error: ") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("option", "value", "named"), [("--channels", "64", "n_embd 32"),
                                                        ("--lr", "0.5", "learning_rate 0.001"),
                                                        ("--epochs", "29", "steps")])  # fmt: skip
def test_other_options_than_it_was_begun_with_are_refused(tmp_path, option, value, named):
    interrupt(command(tmp_path, "--epochs", "30"), tmp_path / "out" / train.STATE)
    done = run(command(tmp_path, "--epochs", "30", option, value), status=2)
    assert f"was begun with {named}" in done.stderr


def interrupt(args, state):
    """Kill the run as soon as it has saved its state once."""
    process = subprocess.Popen(args)
    while not state.exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_help_is_quick():
    start = time.monotonic()
    done = run([sys.executable, ROOT / "train.py", "--help"])
    assert time.monotonic() - start < 15  # 3 s on a quiet machine
    assert "(0.001)" in done.stdout
    assert json.dumps(str(ROOT))[1:-1] not in done.stdout
