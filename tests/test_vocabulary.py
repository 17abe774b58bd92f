"""Vocabularies: their times, what was to be expected, and what a character costs."""

import pytest
import torch
from planted import FakeClock

from mvgpt.measure import vocabulary
from mvgpt.measure.vocabulary import Vocabularies, compare_vocabularies

CPU = torch.device("cpu")


def characters(per_token):
    return {"text": "a text", "characters": 1000, "per_token": per_token, "reason": None}


def test_vocabularies(config):
    per_token = {"50": 2.0, "100": None, "300": 4.0}
    found = compare_vocabularies(config, characters(per_token), CPU, 0, 0.1, FakeClock())
    rows = found["vocabulary"]
    assert [row["vocab_size"] for row in rows] == [50, 100, 300]
    assert [row["head_weights"] for row in rows] == [50 * 64, 100 * 64, 300 * 64]
    for row in rows:
        for unit in ("pass", "token"):
            assert row[unit]["median"] == pytest.approx(1, rel=0.01)  # ms, on the fake clock
            assert row[unit]["low"] <= row[unit]["median"] <= row[unit]["high"]
            assert row["ratio"][unit]["value"] == pytest.approx(1, rel=0.01)
    assert rows[2]["ratio"]["pass"] == {"value": 1, "low": 1, "high": 1}
    assert rows[2]["predicted"] == {"pass": 1, "token": 1}
    assert rows[0]["predicted"]["token"] < rows[1]["predicted"]["token"] < 1
    assert found["characters"]["quickest"] == {"pass": 300, "token": 300}
    assert found["characters"]["text"] == "a text"


def test_times_by_the_character_are_spreads_too(config):
    per_token = {"100": None, "300": 4.0}
    found = compare_vocabularies(config, characters(per_token), CPU, 0, 0.1, FakeClock())
    unknown, row = found["vocabulary"]
    assert unknown["characters_per_token"] is unknown["milliseconds_per_character"] is None
    assert row["characters_per_token"] == 4
    for unit, tokens in (("pass", 32), ("token", 1)):
        each = row["milliseconds_per_character"][unit]
        assert each["n"] == row[unit]["n"]
        for key in ("median", "low", "high"):
            assert each[key] == pytest.approx(row[unit][key] / tokens / 4)


def in_rounds(**seconds):
    """20 rounds in which each size takes its seconds, but for what the machine drifts."""
    return [{name.lstrip("_"): one * (1 + 0.3 * (number % 4)) for name, one in seconds.items()}
            for number in range(20)]  # fmt: skip


@pytest.mark.parametrize(
    ("smaller", "quickest"),
    [(0.80, 100), (0.942, None), (0.95, None), (0.958, None), (1.10, 300)],
)
def test_the_quickest_by_the_character(config, smaller, quickest):
    """A token of 100 covers 0.95 of one of 300, and the same size twice is 1 % off."""
    rounds = in_rounds(_100=smaller, _300=1.0)
    for number, one in enumerate(rounds):
        one["300, again"] = one["300"] * (1 + 0.02 * (number % 2 - 0.5))
    per_token = {"100": 3.8, "300": 4.0, "500": None}
    found = Vocabularies(config, per_token, {"pass": rounds})
    assert found.quickest("pass") == quickest
    ratio = found.per_character("pass", "100", "300")
    assert ratio.value == pytest.approx(smaller / 0.95)
    assert ratio.low == pytest.approx(ratio.high)


def test_of_fewer_than_two_none_is_the_quickest(config):
    rounds = in_rounds(_100=0.5, _300=1.0)
    for one in rounds:
        one["300, again"] = one["300"]
    for per_token in ({"100": 3.8, "300": None}, {"100": None, "300": None}):
        assert Vocabularies(config, per_token, {"pass": rounds}).quickest("pass") is None


def test_each_is_warm_when_it_is_timed(config, monkeypatch):
    """The others have driven its weights away; of several in a row the last one counts."""
    timed = {"pass": [], "token": []}

    def time(reading, unit, clock):
        timed[unit].append(id(reading))
        return clock()

    monkeypatch.setattr(vocabulary.Reading, "time", time)
    compare_vocabularies(config, characters({"100": 1, "300": 1}), CPU, 0, 0.01, FakeClock())
    for unit, in_a_row in (("pass", 2), ("token", 5)):
        assert len(set(timed[unit])) == 3  # the model's own size is there twice
        for start in range(0, len(timed[unit]), in_a_row):
            assert len(set(timed[unit][start : start + in_a_row])) == 1
