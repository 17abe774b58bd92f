"""The statistics on a fake clock, through the functions that the scripts call."""

import math
import random
from functools import partial
from itertools import pairwise

import pytest
import torch

from mvgpt.measure.timing import (
    FASTER,
    NO_DIFFERENCE,
    SLOWER,
    Ratio,
    Spread,
    compare,
    interval,
    run_rounds,
    spread,
    time_call,
    time_steps,
    verdict,
)

CPU = torch.device("cpu")
BASE, AGAIN, OTHER = "as written", "as written, again", "other"


class FakeMachine:
    """A clock that calls move on: noisy, drifting, slower for what comes second in a round."""

    def __init__(self, seed, effect=1.0, noise=0.01, drift=0.0, second=0.0, calls=30):
        self.random, self.effect = random.Random(seed), effect
        self.noise, self.drift, self.second, self.expected = noise, drift, second, calls
        self.now, self.calls = 0.0, 0

    def clock(self):
        return self.now

    def call(self, effect=1.0):
        penalty = self.second * (self.calls % 3 == 1)
        drift = self.drift * self.calls / self.expected
        self.now += (
            0.05 * effect * (1 + drift + penalty) * self.random.lognormvariate(0, self.noise)
        )
        self.calls += 1

    def cases(self):
        effects = {BASE: 1.0, AGAIN: 1.0, OTHER: self.effect}
        return {name: partial(time_call, partial(self.call, effect), CPU, self.clock)
                for name, effect in effects.items()}  # fmt: skip


def judge(rounds):
    return verdict(compare(rounds, OTHER, BASE), compare(rounds, AGAIN, BASE))


def interleaved(seed, budget=6.0, **options):
    machine = FakeMachine(seed, **options)
    cases = machine.cases()
    return judge(list(run_rounds(cases, seed=seed, base=BASE, budget=budget, clock=machine.clock)))


def one_after_another(seed, **options):
    cases = FakeMachine(seed, **options).cases()
    blocks = {name: [case() for _ in range(10)] for name, case in cases.items()}
    return judge(
        [dict(zip(blocks, row, strict=True)) for row in zip(*blocks.values(), strict=True)]
    )


def share(verdicts, *wanted):
    return sum(verdict in wanted for verdict in verdicts) / len(verdicts)


@pytest.mark.parametrize("faults", [{}, {"drift": 0.1}, {"second": 0.04},
                                    {"drift": 0.1, "second": 0.04}])  # fmt: skip
def test_no_true_difference_gives_no_verdict(faults):
    verdicts = [interleaved(seed, **faults) for seed in range(400)]
    assert share(verdicts, FASTER, SLOWER) <= 0.01


@pytest.mark.parametrize(("effect", "found"), [(0.97, FASTER), (1.03, SLOWER)])
def test_three_percent_is_found_at_one_percent_noise(effect, found):
    verdicts = [interleaved(seed, effect=effect) for seed in range(400)]
    assert share(verdicts, found) >= 0.9
    assert share(verdicts, FASTER, SLOWER) == share(verdicts, found)


def test_one_after_another_would_fail_under_the_drift():
    verdicts = [one_after_another(seed, drift=0.1) for seed in range(400)]
    assert share(verdicts, FASTER, SLOWER) > 0.3
    assert share([interleaved(seed, drift=0.1) for seed in range(100)], FASTER, SLOWER) <= 0.01


def coverage(n):
    """How often the interval of n normal samples holds 0, their true median."""
    draw = random.Random(n)
    held = 0
    for _ in range(4000):
        low, high = interval([draw.gauss(0, 1) for _ in range(n)])
        held += low <= 0 <= high
    return held / 4000


@pytest.mark.parametrize("n", [8, 10, 12, 25])
def test_the_interval_covers_99_percent(n):
    assert coverage(n) >= 0.985


def test_interval_is_that_of_order_statistics():
    """n = 20: P(X <= 3) = 0.00129 and P(X <= 4) = 0.0059, X binomial: the 4th and the 17th."""
    assert interval(random.Random(0).sample(range(20), 20)) == (3, 16)
    assert interval(range(8)) == (0, 7)  # 2 / 2^8 = 0.8 % outside
    assert interval(range(7)) == (None, None)  # 1.6 %
    assert interval([]) == (None, None)


def test_spread():
    assert spread([3, 1, 2], 1000) == Spread(2000, None, None, 3)
    assert spread(range(1, 9)) == Spread(4.5, 1, 8, 8)


def test_a_ratio_is_taken_round_by_round():
    rounds = [{"a": factor, "b": 2.0 * factor} for factor in (1, 5, 30, 2, 9, 4, 3, 8)]
    assert compare(rounds, "b", "a") == Ratio(2.0, 2.0, 2.0)


def test_verdicts():
    tight = Ratio(1.0, 0.99, 1.01)
    assert verdict(Ratio(0.95, 0.94, 0.96), tight) == FASTER
    assert verdict(Ratio(1.05, 1.04, 1.06), tight) == SLOWER
    assert verdict(Ratio(1.05, 0.99, 1.06), tight) == NO_DIFFERENCE
    assert verdict(Ratio(1.05, 1.04, 1.06), Ratio(1.0, 0.94, 1.01)) == NO_DIFFERENCE
    assert verdict(Ratio(1.05, 1.04, 1.06), Ratio(1.0, None, None)) == NO_DIFFERENCE
    assert verdict(Ratio(1.05, None, None), tight) == NO_DIFFERENCE
    assert verdict(Ratio(1.05, 1.04, 1.06)) == SLOWER  # the A/A arm itself


def test_rounds_hold_every_case_once_in_an_order_drawn_afresh():
    order = []

    def case(name):
        order.append(name)
        return 1.0

    cases = {name: partial(case, name) for name in "abc"}
    rounds = list(run_rounds(cases, seed=1, rounds=12))
    assert len(rounds) == 12
    assert order[:3] == ["a", "b", "c"]  # the warm-up, which does not count
    in_order = [tuple(order[i : i + 3]) for i in range(3, 39, 3)]
    assert all(sorted(three) == ["a", "b", "c"] for three in in_order)
    assert len(set(in_order)) > 2
    order.clear()
    list(run_rounds(cases, seed=1, rounds=12))
    assert [tuple(order[i : i + 3]) for i in range(3, 39, 3)] == in_order


@pytest.mark.parametrize(("noise", "budget", "expected"), [(0.0, 99, 10), (0.3, 0, 10)])
def test_rounds_end_when_the_ratios_are_known_or_the_budget_is_spent(noise, budget, expected):
    machine = FakeMachine(0, noise=noise)
    rounds = run_rounds(machine.cases(), base=BASE, budget=budget, clock=machine.clock)
    assert len(list(rounds)) == expected


def test_noise_gets_more_rounds():
    machine = FakeMachine(0, noise=0.05)
    rounds = list(run_rounds(machine.cases(), base=BASE, budget=60, clock=machine.clock))
    assert len(rounds) > 20
    ratio = compare(rounds, OTHER, BASE)
    assert (ratio.high - ratio.low) / 2 <= 0.015


def test_a_timed_call_waits_for_the_device_before_and_after(monkeypatch):
    log = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append("wait"))
    time_call(lambda: log.append("call"), torch.device("cuda"))
    assert log == ["wait", "call", "wait"]
    monkeypatch.setattr(torch.mps, "synchronize", lambda: log.append("mps"))
    time_call(lambda: log.append("call"), CPU)
    assert log[3:] == ["call"]


def test_steps_are_clocked_one_by_one():
    machine = FakeMachine(0, noise=0.0)

    def steps():
        for number in range(3):
            machine.call()
            yield number

    items, seconds = time_steps(steps(), CPU, machine.clock)
    assert items == [0, 1, 2]
    assert [b - a for a, b in pairwise([0, *seconds])] == pytest.approx([0.05] * 3)
    assert math.isclose(seconds[-1], machine.now)
