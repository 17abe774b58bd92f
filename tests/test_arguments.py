"""What is absurd is one sentence, before PyTorch or the memory says it in many."""

import sys
from argparse import ArgumentTypeError

import pytest

import bench
import decisions
import explore
import profiler
import train
from mvgpt import arguments, stream


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [(arguments.positive, 1, 10**6), (arguments.threads, 1, 1024), (arguments.seed, 0, 2**32 - 1)],
)
def test_whole_numbers_have_two_ends(kind, least, most):
    assert (kind(str(least)), kind(str(most))) == (least, most)
    for beyond in (least - 1, most + 1, 10**23):
        with pytest.raises(ArgumentTypeError, match=f"{beyond} is not in {least} to {most}"):
            kind(str(beyond))


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e400", "1e-400", "1e300"])
def test_what_is_not_above_zero_or_not_meant(text):
    with pytest.raises(ArgumentTypeError, match=f"{text} is not a number above 0"):
        arguments.above_zero(text)


def test_a_name_can_be_written_to_a_file():
    assert arguments.short_name("épyc 2") == "épyc 2"
    for text in ("a\nb", "\udcff", "x" * 61):
        with pytest.raises(ArgumentTypeError, match="printable"):
            arguments.short_name(text)


SCRIPTS = [(script, []) for script in (bench, decisions, explore, profiler)]
SCRIPTS.append((train, ["--text", "book.txt"]))


@pytest.mark.parametrize(
    ("script", "needed"), SCRIPTS, ids=lambda part: getattr(part, "__name__", "")
)
@pytest.mark.parametrize("option", ["--threads=9999999999", "--seed=99999999999999999999",
                                    "--threads=two"])  # fmt: skip
def test_every_script_refuses_them(script, needed, option, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script", *needed, option])
    with pytest.raises(SystemExit) as stop:
        script.parse()
    assert stop.value.code == 2
    *usage, last = capsys.readouterr().err.splitlines()
    name, value = option.split("=")
    assert f"error: argument {name}: " in last
    assert value in last


def test_writing_takes_any_number_of_tokens(model):
    assert next(stream(model, [1], 10**23, temperature=0)) == next(
        stream(model, [1], 1, temperature=0)
    )
