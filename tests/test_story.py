"""python -m mvgpt, as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mvgpt import save_checkpoint

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(model, tokenizer, tmp_path):
    save_checkpoint(tmp_path, model, tokenizer)
    return tmp_path


def write(folder, *args, status=0, **environment):
    command = [sys.executable, "-m", "mvgpt", "--device", "cpu", "--checkpoint", folder, *args]
    done = subprocess.run(command, capture_output=True, cwd=ROOT,
                          env=os.environ | environment)  # fmt: skip
    assert done.returncode == status, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done


def test_a_story_begins_with_the_prompt(folder):
    texts = [write(folder, "The 😀 sea", "--tokens", "20", "--seed", "1").stdout for _ in range(2)]
    assert texts[0] == texts[1]
    assert texts[0].decode().startswith("The 😀 sea")
    assert len(texts[0]) > 20


def test_a_prompt_beyond_the_window_is_said(folder):
    done = write(folder, "word " * 50, "--tokens", "2")
    assert b"the model reads the last 32" in done.stderr


def test_a_console_that_cannot_print_a_character(folder):
    done = write(folder, "😀!", "--tokens", "1", PYTHONIOENCODING="ascii")
    assert done.stdout.startswith(b"?!")


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ([""], "prompt is empty"),
        (["a", "--tokens", "0"], "0 tokens"),
        (["a", "--temperature", "-1"], "temperature is -1"),
        (["a", "--top-k", "0"], "top-k is 0"),
        (["a", "--temperature", "1e400"], "temperature is inf"),
        (["a", "--device", "abacus"], "abacus"),
        (["a", "--checkpoint", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_sentence(folder, args, named):
    done = write(folder, *args, status=2)
    assert named in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_weights_that_are_no_numbers_are_named(model, tokenizer, tmp_path):
    torch.nn.init.constant_(model.ln_f.weight, float("nan"))
    save_checkpoint(tmp_path, model, tokenizer)
    done = write(tmp_path, "a", status=2)
    assert b"ln_f.weight holds values that are not finite" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_the_story_that_ships(stories):
    """As the card shows it; another processor may round, and so draw, otherwise in the end."""
    text = write(stories, "Once upon a time", "--tokens", "60", "--seed", "0").stdout.decode()
    card = (stories / "README.md").read_text(encoding="utf-8")
    assert "\n".join(f"> {line}".rstrip() for line in text.rstrip("\n").split("\n")) in card
