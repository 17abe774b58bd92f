import os
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from planted import (
    BY_NAME,
    COMPILE,
    OWN_GELU,
    Cold,
    FakeClock,
    failing,
    planted,
    taking,
    without_mask,
)

import mvgpt.model
from mvgpt.data import random_ids
from mvgpt.measure.comparison import compare_decisions, new_compiler_cache
from mvgpt.measure.decisions import AGAIN, BASE, DECISIONS, Decision, as_written
from mvgpt.measure.timing import FASTER, INVALID, NO_DIFFERENCE, SLOWER


def rows_of(model, extra, clock, budget=0.1):
    found = compare_decisions(model, random_ids(300, 32, 0), [*DECISIONS[:2], *extra],
                              seed=0, budget=budget, clock=clock)  # fmt: skip
    return {row["name"]: row for row in found["decisions"]}


def verdicts(row):
    return [row[unit]["verdict"] for unit in ("pass", "token")]


@pytest.fixture
def clock():
    return FakeClock()


def test_what_is_planted_is_found(model, clock):
    gelu, attend = "mvgpt.model.gelu", "mvgpt.model.F.scaled_dot_product_attention"
    rows = rows_of(model, [
        planted("sleeps", gelu, taking(clock, 0.0001, OWN_GELU)),
        planted("is quick", gelu, taking(clock, -0.0001, OWN_GELU)),
        planted("is quick and wrong", attend, taking(clock, -0.0001, without_mask)),
        Decision("patches nothing", as_written),
        planted("swaps a function for itself", gelu, OWN_GELU),
        Decision("leaves the caches cold", lambda model: [Cold(clock)]),
    ], clock)  # fmt: skip
    assert verdicts(rows[BASE]) == [None, None]
    assert rows[BASE]["pass"]["ratio"] == {"value": 1, "low": 1, "high": 1}
    assert verdicts(rows[AGAIN]) == [NO_DIFFERENCE] * 2
    assert verdicts(rows["sleeps"]) == [SLOWER] * 2
    assert rows["sleeps"]["pass"]["ratio"]["value"] == pytest.approx(1.2, abs=0.01)  # 2 blocks
    assert verdicts(rows["is quick"]) == [FASTER] * 2
    assert verdicts(rows["is quick and wrong"]) == [INVALID] * 2
    assert rows["is quick and wrong"]["pass"]["ratio"]["high"] < 1
    assert rows["is quick and wrong"]["max_logit_difference"] > 0.01
    assert rows["is quick and wrong"]["error_ratio"] > 10
    assert rows["is quick"]["error_ratio"] == rows[BASE]["error_ratio"] == 1
    assert rows["is quick"]["first_difference"] is None
    assert verdicts(rows["patches nothing"]) == [NO_DIFFERENCE] * 2
    assert verdicts(rows["swaps a function for itself"]) == [NO_DIFFERENCE] * 2
    assert verdicts(rows["leaves the caches cold"]) == [NO_DIFFERENCE] * 2


@pytest.mark.parametrize(
    "after", [0, 30, 230, 270], ids=["at once", "while it writes", "in a pass", "in a token"]
)
def test_one_that_raises_is_skipped_and_the_others_go_on(model, clock, after):
    ids = random_ids(300, 32, 0)
    before = model(ids)
    gelu = failing(after, "no such file: '/home/me/secret file' (see /tmp/x/y.py)")
    rows = rows_of(model, [
        planted("raises", "mvgpt.model.gelu", gelu),
        planted("sleeps", "mvgpt.model.gelu", taking(clock, 0.0001, OWN_GELU)),
    ], clock)  # fmt: skip
    row = rows["raises"]
    assert row["skipped"] == "RuntimeError: no such file: (a path) (see (a path))"
    assert row["pass"] is row["token"] is None
    assert (row["max_logit_difference"] is None) == (after < 200)
    assert rows["sleeps"]["pass"]["milliseconds"]["n"] >= 10
    assert verdicts(rows["sleeps"]) == [SLOWER] * 2
    assert mvgpt.model.gelu is OWN_GELU
    assert torch.equal(model(ids), before)


def test_as_written_must_not_fail(model):
    with patch("mvgpt.model.gelu", failing()), pytest.raises(RuntimeError, match="planted"):
        rows_of(model, [], FakeClock())


def test_without_the_same_twice_nothing_is_concluded(model, clock):
    sleeps = planted("sleeps", "mvgpt.model.gelu", taking(clock, 0.001, OWN_GELU))
    found = compare_decisions(model, random_ids(300, 32, 0), [DECISIONS[0], sleeps],
                              seed=0, budget=0.1, clock=clock)  # fmt: skip
    assert verdicts(found["decisions"][1]) == [NO_DIFFERENCE] * 2


def test_budget_bounds_the_rounds(model):
    clock = FakeClock(noise=2)
    rows_of(model, [], clock, budget=3)
    assert 3 < clock.now < 4


def test_compiled_pass(model, clock, quick_compiler):
    row = rows_of(model, [BY_NAME[COMPILE]], clock)[COMPILE]
    assert row["compile_seconds"] == pytest.approx(0.001, rel=0.01)  # on the fake clock
    assert row["recompiles"] == 0
    assert row["pass"]["verdict"] == NO_DIFFERENCE
    assert row["token"] is row["calls_per_token"] is row["greedy_tokens"] is row["skipped"] is None
    assert {"token", "calls_per_token", "greedy_tokens"} <= set(row["reasons"])
    assert "forward" not in vars(model)


def test_nothing_compiled_before_is_found(monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/what/was/there")
    with new_compiler_cache():
        folder = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        assert not list(folder.iterdir())
    assert not folder.exists()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/what/was/there"
