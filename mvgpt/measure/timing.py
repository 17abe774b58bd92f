"""The clock: cases timed in rounds, and what may be concluded from them.

Machines drift by more than the effects that are looked for, so cases that are compared run in
turn, in rounds, and are compared within a round. Intervals are the exact ones of order statistics
(David and Nagaraja, "Order Statistics", 7.1): they assume nothing of how the noise is distributed.
"""

import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from time import perf_counter
from typing import Any

import torch

from mvgpt.device import sync

LEVEL = 0.99  # of every interval
MIN_ROUNDS = 10  # of a comparison
TARGET = 0.015  # half width of a ratio's interval, as a share of the ratio, that is narrow enough
FASTER, SLOWER = "faster", "slower"
NO_DIFFERENCE, INVALID = "no difference shown", "invalid"


@dataclass(frozen=True)
class Spread:
    """A median, the interval that holds the true one (null below 8 samples), and their number."""

    median: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Ratio:
    """The median of ratios taken round by round, and the interval that holds the true one."""

    value: float
    low: float | None
    high: float | None


Round = dict[str, float]  # the seconds of each case
Clock = Callable[[], float]  # seconds; a test has its own


def time_call(
    call: Callable[[], object], device: torch.device, clock: Clock = perf_counter
) -> float:
    """Seconds that one call takes, the device idle before it and done after it."""
    sync(device)
    start = clock()
    call()
    sync(device)
    return clock() - start


def time_hand_over(
    call: Callable[[], object], device: torch.device, clock: Clock = perf_counter
) -> tuple[float, float]:
    """Seconds until a call returned, all handed over, and until the device had done it."""
    sync(device)
    start = clock()
    call()
    handed_over = clock() - start
    sync(device)
    return handed_over, clock() - start


def time_result(
    call: Callable, args: tuple, kwargs: dict, clock: Clock = perf_counter
) -> tuple[Any, float]:
    """What a call returns, and its seconds: for the many small parts of a run on the CPU."""
    start = clock()
    result = call(*args, **kwargs)
    return result, clock() - start


def time_steps(
    steps: Iterator, device: torch.device, clock: Clock = perf_counter
) -> tuple[list, list[float]]:
    """What an iterator yields, and the seconds from the start until each, the device done."""
    items, seconds = [], []
    sync(device)
    start = clock()
    for item in steps:
        sync(device)
        seconds.append(clock() - start)
        items.append(item)
    return items, seconds


def orders(names: Sequence[str], seed: int) -> Iterator[list[str]]:
    """The order of each round: every name once, shuffled afresh."""
    order = random.Random(seed)
    while True:
        yield order.sample(names, len(names))


def run_rounds(
    cases: dict[str, Callable[[], float]],
    *,
    seed: int = 0,
    rounds: int = MIN_ROUNDS,
    base: str | None = None,
    budget: float = 0.0,
    enough: Callable[[Sequence[Round]], bool] | None = None,
    clock: Clock = perf_counter,
) -> Iterator[Round]:
    """Yield rounds, in each of which every case times itself, after one that does not count.

    A case returns its seconds, as `partial(time_call, ...)` does. There are `rounds` rounds. With
    a `base` (MIN_ROUNDS at least) more are added until the ratio of each case to it is known to
    TARGET, or `budget` seconds are spent; with `enough` until the rounds are enough for it. The
    widths of the intervals alone may decide, never the verdicts: stopping at a welcome one would
    bias it.
    """
    if base:
        rounds, enough = max(rounds, MIN_ROUNDS), partial(settled, base=base)
    for case in cases.values():
        case()
    start, timed = clock(), []
    for order in orders(list(cases), seed):
        seconds = {name: cases[name]() for name in order}
        timed.append(seconds)
        yield seconds
        if len(timed) < rounds:
            continue
        if not enough or clock() - start >= budget or enough(timed):
            return


def settled(rounds: Sequence[Round], base: str) -> bool:
    """Whether the ratios of all cases to the base are known to TARGET."""
    return all(half_width(compare(rounds, name, base)) <= TARGET for name in rounds[0])


def interval(
    samples: Sequence[float], level: float = LEVEL
) -> tuple[float, float] | tuple[None, None]:
    """The closest order statistics that hold the median at a level; None where there are too few
    samples for it: below 8 at LEVEL.
    """
    k = rank(len(samples), level)
    if k == 0:
        return None, None
    ordered = sorted(samples)
    return ordered[k - 1], ordered[-k]


@cache  # it is asked for after each round, for each case
def rank(n: int, level: float = LEVEL) -> int:
    """The largest k for which the k-th smallest and largest of n samples hold the median.

    It lies between them with probability 1 - 2 P(X < k), X binomial with n draws at one half.
    """
    k, outside, ways = 0, 0, 1  # in whole numbers, of 2**n
    while (outside + ways) / 2**n <= (1 - level) / 2:
        outside, ways, k = outside + ways, ways * (n - k) // (k + 1), k + 1
    return k


def spread(samples: Sequence[float], scale: float = 1.0, level: float = LEVEL) -> Spread:
    """The Spread of samples, each times `scale` (1000: seconds to milliseconds)."""
    scaled = [sample * scale for sample in samples]
    return Spread(statistics.median(scaled), *interval(scaled, level), len(scaled))


def compare(rounds: Sequence[Round], name: str, base: str) -> Ratio:
    """The time of a case over that of the base, round by round."""
    ratios = [seconds[name] / seconds[base] for seconds in rounds]
    return Ratio(statistics.median(ratios), *interval(ratios))


def half_width(found: Ratio | Spread) -> float:
    """Half the interval's width as a share of the value; infinite where there is no interval."""
    value = found.value if isinstance(found, Ratio) else found.median
    return math.inf if found.low is None else (found.high - found.low) / 2 / value


def verdict(ratio: Ratio, again: Ratio | None = None) -> str:
    """What a ratio to the base shows, given that of the base listed a second time (A/A).

    A difference is shown where the interval excludes 1, and the effect is larger than the farther
    end of the A/A interval. Without `again` (it is judged itself) the first half alone counts.
    """
    if ratio.low is None or ratio.low <= 1 <= ratio.high:
        return NO_DIFFERENCE
    if again is not None and abs(math.log(ratio.value)) <= noise(again):
        return NO_DIFFERENCE
    return FASTER if ratio.value < 1 else SLOWER


def noise(again: Ratio) -> float:
    """How far the A/A interval reaches from 1, as a logarithm: 0.5 and 2 are as far."""
    return math.inf if again.low is None else max(-math.log(again.low), math.log(again.high))


def as_json(value: Spread | Ratio) -> dict:
    """The fields, as every results file holds them."""
    return asdict(value)
