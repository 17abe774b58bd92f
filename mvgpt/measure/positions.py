"""The time of each token that is written, against its position."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, median

from mvgpt.measure.timing import as_json, spread


def seen(prompt: int, tokens: int, window: int) -> list[int | None]:
    """How many tokens each step of writing sees, itself included, after a prompt that fits.

    None for a step that reads more than one: the prefill, and half a window read again where the
    window was full (mvgpt/generate.py).
    """
    steps, position = [None], prompt
    while len(steps) < tokens:
        full = position == window
        position = max(1, window // 2) if full else position + 1
        steps.append(None if full else position)
    return steps


def by_position(steps: Sequence[int | None], runs: Sequence[Sequence[float]]) -> dict:
    """`positions`, the mean of a decoded token, and the slope of the results; of runs of the
    seconds until each token.
    """
    rows, slopes, means = defaultdict(list), [], []
    for laps in runs:
        times = [1000 * (end - start) for start, end in pairwise([0.0, *laps])]
        points = [(p, ms) for p, ms in zip(steps, times, strict=True) if p is not None]
        for position, milliseconds in points:
            rows[position].append(milliseconds)
        slopes.append(slope(points))
        if points:
            means.append(mean(ms for _, ms in points))
    known = None not in slopes
    return {
        "positions": [{"position": position, "milliseconds": as_json(spread(rows[position]))}
                      for position in sorted(rows)],
        "milliseconds_per_decoded_token": as_json(spread(means)) if means else None,
        "slope_microseconds_per_position": as_json(spread(slopes, 1000)) if known else None,
    }  # fmt: skip


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Of a line through points (x, y); None where all have the same x.

    Each point of the left half is joined with its fellow in the right one, and the median of
    these slopes taken: a few points that are far off, such as interrupted steps, do not tilt it.
    """
    points, half = sorted(points), (len(points) + 1) // 2
    pairs = [(a, b) for a, b in zip(points, points[half:], strict=False) if a[0] < b[0]]
    return median((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs) if pairs else None
