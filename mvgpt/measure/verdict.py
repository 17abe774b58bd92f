"""What a run is bound by, and what speaks against such a verdict: functions of numbers alone.

A run is held against what its roofs allow (Williams et al. 2009, "Roofline") and what handing over
its operations takes. Times are in milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mvgpt.measure.timing import Ratio, Spread, as_json

COMPUTE, BANDWIDTH, HAND_OVER, WAITING = "compute", "bandwidth", "hand-over", "waiting"
INSIDE = "inside operations"
AND = " and "  # between bounds that are nearly as large
EXPLAINED = 0.5  # of the time: with less, more of it is a riddle than is accounted for
ALIKE = 2 / 3  # of the largest part: what is as large bounds the run with it
TOO_MUCH = 1.2  # of the time: roofs that explain more were measured while something else ran
NOISY = 0.2  # an interval as wide as that share of its median is too wide to conclude from

BELOW, BETWEEN, ABOVE = "below", "between", "above"
LIMITS = {
    "batch": (1.25, 1.6),  # twice the batch: 2 times as long where FLOPs take all the time, else 1
    "bfloat16": (0.75, 0.75),  # half the bytes: 0.5 times where they take all the time, else 1
}
# How each bound must fare. Products in bfloat16 may have a higher peak, so that less time says
# nothing against compute; and what is lost inside of operations may shrink and grow with both.
EITHER, ANY = (BELOW, ABOVE), (BELOW, BETWEEN, ABOVE)
EXPECTED = {
    COMPUTE: {"batch": (ABOVE,), "bfloat16": ANY},
    BANDWIDTH: {"batch": (BELOW,), "bfloat16": (BELOW,)},
    HAND_OVER: {"batch": (BELOW,), "bfloat16": (ABOVE,)},
    WAITING: {"batch": (BELOW,), "bfloat16": (ABOVE,)},
    INSIDE: {"batch": EITHER, "bfloat16": ANY},
}


@dataclass(frozen=True)
class Kind:
    """All calls of one kind of operation: how long they take, and what their roofs allow.

    `milliseconds` is None on a device without kernels' times. `compute` is what those are allowed
    that are bound by their FLOPs, `bandwidth` the others.
    """

    name: str
    calls: float
    milliseconds: float | None
    compute: float
    bandwidth: float

    @property
    def excess(self) -> float:
        return self.milliseconds - self.compute - self.bandwidth


def judge(
    measured: Spread,
    kinds: Sequence[Kind],
    hand_over: float,
    waiting: float = 0.0,
    asynchronous: bool = False,
) -> dict:
    """The verdict on a run of so many milliseconds: its `bound`, and the share it `explained`.

    On the CPU operations are handed over and done in turn, and their times add up. Another device
    works while the next ones are handed over: the larger time counts. Where less than EXPLAINED
    of the run is accounted for, it is lost inside of its operations. Parts that are nearly as
    large as the largest are named with it: which of them is larger may be chance.
    """
    parts = {
        COMPUTE: sum(kind.compute for kind in kinds),
        BANDWIDTH: sum(kind.bandwidth for kind in kinds),
        HAND_OVER: hand_over,
        WAITING: waiting,
    }
    sides = [(COMPUTE, BANDWIDTH), (HAND_OVER,), (WAITING,)] if asynchronous else [tuple(parts)]
    most, side = max((sum(parts[name] for name in side), side) for side in sides)
    timed = [kind for kind in kinds if kind.milliseconds is not None]
    return {
        "bound": AND.join(largest(parts, side)) if most >= EXPLAINED * measured.median else INSIDE,
        "explained": as_json(share(most, measured)),
        "milliseconds": {"measured": measured.median} | parts,
        "excess": excess(max(timed, key=lambda kind: kind.excess)) if timed else None,
    }


def largest(parts: dict[str, float], side: Sequence[str]) -> list[str]:
    """The names of the largest parts of a side, in the order of the parts."""
    most = max(parts[name] for name in side)
    return [name for name in side if parts[name] >= ALIKE * most]


def share(part: float, whole: Spread) -> Ratio:
    """A part of a time that is itself not known exactly; of 8 samples at least."""
    return Ratio(part / whole.median, part / whole.high, part / whole.low)


def excess(kind: Kind) -> dict:
    """The kind of operation that carries the largest excess over its roofs, for the results."""
    return {
        "name": kind.name,
        "calls": kind.calls,
        "milliseconds": kind.milliseconds,
        "attainable_milliseconds": kind.compute + kind.bandwidth,
        "bound": COMPUTE if kind.compute > kind.bandwidth else BANDWIDTH,
    }


def reading(ratio: dict, limits: tuple[float, float]) -> str:
    """Where the time after a change, over the time before, lies with its whole interval."""
    low, high = limits
    return BELOW if ratio["high"] < low else ABOVE if ratio["low"] > high else BETWEEN


def doubts(bound: str, explained: dict, ratios: dict[str, dict | None]) -> list[str]:
    """What speaks against the verdict: "explained", and the changes whose ratios do not fit it.

    A change that could not be tried, None, is no doubt.
    """
    found = ["explained"] if vague(explained) else []
    for change, ratio in ratios.items():
        limits, fitting = expected(bound, change)
        if ratio and reading(ratio, limits) not in fitting:
            found.append(change)
    return found


def expected(bound: str, change: str) -> tuple[tuple[float, float], tuple[str, ...]]:
    """The limits of a ratio, and where it may lie. Where two parts bound a run, either may show;
    but fewer bytes must at least help a run that they bound.
    """
    bounds = bound.split(AND)
    if len(bounds) == 1:
        return LIMITS[change], EXPECTED[bound][change]
    if change == "bfloat16" and BANDWIDTH in bounds:
        return (1.0, 1.0), (BELOW,)
    return LIMITS[change], (
        BETWEEN,
        *(where for each in bounds for where in EXPECTED[each][change]),
    )


def vague(explained: dict) -> bool:
    """Whether the share is impossible, too noisy, or on either side of EXPLAINED."""
    value, low, high = (explained[key] for key in ("value", "low", "high"))
    return value > TOO_MUCH or high - low > NOISY * value or low < EXPLAINED <= high
