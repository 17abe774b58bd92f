"""The ledger: it closes where the nodes add up to the plain run, and says so where they do not."""

import time
from statistics import median
from unittest.mock import patch

import pytest
import slowed
import torch

from mvgpt import GPT, GPTConfig
from mvgpt.data import random_ids
from mvgpt.measure import nodes
from mvgpt.measure.ledger import closes, ledger, measure_ledger
from mvgpt.measure.workload import Timed


def spread(median, half=0.1):
    return {"median": median, "low": median - half, "high": median + half, "n": 40}


@pytest.mark.parametrize(
    ("half", "residual", "answer"),
    [
        (0.1, 0.0, True),
        (0.1, 2.9, True),
        (0.1, -2.9, True),
        (0.1, 3.1, False),
        (1.5, 4.4, True),  # within three times the plain half interval
        (1.5, -4.6, False),
        (1.6, 4.6, None),  # too noisy to say
        (9.0, 25.0, None),
        (9.0, 1.0, True),
        (9.0, 2.95, None),  # its interval goes beyond 3 %
    ],
)
def test_when_it_closes(half, residual, answer):
    assert closes(spread(100.0, half), spread(residual)) is answer


def test_no_line_is_computed_from_another():
    rounds = [{"plain": 0.100 + n * 1e-4, "nodes": 0.090, "twin": 0.003, "its nodes": 0.004}
              for n in range(21)]  # fmt: skip
    found = ledger(rounds)
    medians = {name: found[name]["median"] for name in ("plain", "nodes", "between", "residual")}
    assert medians == pytest.approx({"plain": 101, "nodes": 90, "between": -1, "residual": 12})
    assert found["closes"] is False
    assert found["residual"]["low"] < 12 < found["residual"]["high"]
    assert {found[name]["n"] for name in medians} == {21}


def test_it_is_measured(model):
    subject = nodes.one_pass(model, None, seed=0)
    found = measure_ledger(subject.timed, subject.twin(), seed=0, rounds=20)
    assert found["plain"]["n"] == len(subject.timed.runs) >= 20
    assert found.keys() == {"plain", "nodes", "between", "residual", "closes"}


@pytest.mark.parametrize("position", [1, 2, 32])
def test_a_step_and_its_twin_have_the_same_operations(model, position):
    subject = nodes.one_step(model, position, seed=0)
    for each in (subject.timed, subject.twin()):
        each.time_nodes()
        assert len(each.runs[0]) == (63 if position > 1 else 59)  # cat, twice a block
        assert list(each.runs[0]) == list(subject.timed.runs[0])


class Nested(torch.nn.Module):
    def forward(self, x):
        return slowed.slow_erf(x, slowed.SECONDS) + 1


def test_an_operation_inside_another_is_not_counted_twice():
    """erf runs in slow_erf, as addmm runs in linear: the node has the time, and once."""
    timed = Timed(Nested().eval(), torch.ones(3))
    start = time.perf_counter()
    total = timed.time_nodes()
    whole = time.perf_counter() - start
    assert len(timed.runs[0]) == 2
    assert slowed.SECONDS <= total <= whole


@pytest.mark.measures
@pytest.mark.slow
def test_five_milliseconds_more_move_one_node_and_the_ledger_closes():
    model = GPT(GPTConfig()).eval()
    ids = random_ids(10_000, 256, seed=0)
    plain = nodes.one_pass(model, None, seed=0)
    before = measure_ledger(plain.timed, plain.twin(), seed=0)
    with patch("mvgpt.model.gelu", slowed.SlowGelu(6, slow=2)):
        slow = Timed(model, ids)
        after = measure_ledger(slow, plain.twin(), seed=0)
    medians = [{name: median(run[name] for run in timed.runs) for name in timed.runs[0]}
               for timed in (plain.timed, slow)]  # fmt: skip
    (name,) = medians[1].keys() - medians[0].keys()
    moved = 1000 * (medians[1].pop(name) - medians[0].pop("erf_2"))
    assert 4.5 <= moved <= 5.5
    assert before["closes"]
    assert after["closes"]
    assert after["plain"]["median"] - before["plain"]["median"] == pytest.approx(moved, abs=2)


@pytest.mark.measures
@pytest.mark.slow
def test_without_the_head_it_does_not_close(monkeypatch):
    whole = Timed.time_nodes
    monkeypatch.setattr(Timed, "time_nodes", lambda self: whole(self) - self.runs[-1]["linear_36"])
    subject = nodes.one_pass(GPT(GPTConfig()).eval(), None, seed=0)
    assert measure_ledger(subject.timed, subject.twin(), seed=0)["closes"] is False
