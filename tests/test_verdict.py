"""Verdicts on written numbers, and their words."""

import pytest

from mvgpt.measure.timing import Spread
from mvgpt.measure.verdict import (
    BANDWIDTH,
    COMPUTE,
    HAND_OVER,
    INSIDE,
    LIMITS,
    WAITING,
    Kind,
    doubts,
    judge,
    reading,
)
from mvgpt.measure.wording import describe_verdict


def took(median, half=0.02):
    """A time, known to within that share of it."""
    return Spread(median, median * (1 - half), median * (1 + half), 20)


def kinds(compute=0.0, bandwidth=0.0, milliseconds=0.0):
    """Linears of which the roofs allow that, among operations that only have to be handed over."""
    return [Kind("aten::view", 50, 0.1, 0.0, 0.0),
            Kind("aten::linear", 37, milliseconds, compute, bandwidth)]  # fmt: skip


@pytest.mark.parametrize(
    ("compute", "bandwidth", "hand_over", "bound", "explained"),
    [
        (43.0, 3.0, 0.8, COMPUTE, 0.936),
        (3.0, 43.0, 0.8, BANDWIDTH, 0.936),
        (1.0, 2.0, 30.0, HAND_OVER, 0.66),
        (20.0, 2.0, 3.0, COMPUTE, 0.5),
        (20.0, 2.0, 2.0, INSIDE, 0.48),
        (1.0, 20.0, 18.0, f"{BANDWIDTH} and {HAND_OVER}", 0.78),  # which is larger may be chance
        (1.0, 18.0, 20.0, f"{BANDWIDTH} and {HAND_OVER}", 0.78),
        (1.0, 20.0, 13.0, BANDWIDTH, 0.68),
    ],
)
def test_on_the_cpu_the_parts_add_up(compute, bandwidth, hand_over, bound, explained):
    found = judge(took(50.0), kinds(compute, bandwidth, 49.0), hand_over)
    assert found["bound"] == bound
    assert found["explained"]["value"] == pytest.approx(explained)
    assert found["milliseconds"] == {"measured": 50.0, COMPUTE: compute, BANDWIDTH: bandwidth,
                                     HAND_OVER: hand_over, WAITING: 0.0}  # fmt: skip


@pytest.mark.parametrize(
    ("compute", "bandwidth", "hand_over", "waiting", "bound", "explained"),
    [
        (20.0, 10.0, 25.0, 0.0, COMPUTE, 0.6),  # together the roofs take more than handing over
        (10.0, 20.0, 25.0, 0.0, BANDWIDTH, 0.6),
        (20.0, 10.0, 35.0, 0.0, HAND_OVER, 0.7),
        (5.0, 5.0, 10.0, 30.0, WAITING, 0.6),
        (12.0, 12.0, 24.0, 1.0, INSIDE, 0.48),  # on a CPU these would add up to 98 %
    ],
)
def test_on_another_device_the_larger_counts(
    compute, bandwidth, hand_over, waiting, bound, explained
):
    found = judge(
        took(50.0), kinds(compute, bandwidth, 49.0), hand_over, waiting, asynchronous=True
    )
    assert found["bound"] == bound
    assert found["explained"]["value"] == pytest.approx(explained)


def test_the_largest_excess_is_named():
    found = judge(took(7.3), kinds(0.01, 0.94, 5.7), 0.9)
    assert found["bound"] == INSIDE
    assert found["excess"] == {"name": "aten::linear", "calls": 37, "milliseconds": 5.7,
                               "attainable_milliseconds": pytest.approx(0.95),
                               "bound": BANDWIDTH}  # fmt: skip
    assert judge(took(7.3), [Kind("aten::linear", 37, None, 0.1, 0.9)], 0.9)["excess"] is None


def around(value, half=0.01):
    return {"value": value, "low": value - half, "high": value + half}


@pytest.mark.parametrize(
    ("change", "ratio", "where"),
    [
        ("batch", around(1.2), "below"),
        ("batch", around(1.245), "between"),  # its interval holds the limit
        ("batch", around(1.42), "between"),
        ("batch", around(1.62), "above"),
        ("bfloat16", around(0.73), "below"),
        ("bfloat16", around(0.75), "between"),
        ("bfloat16", around(0.77), "above"),
    ],
)
def test_a_ratio_is_read_with_its_interval(change, ratio, where):
    assert reading(ratio, LIMITS[change]) == where


@pytest.mark.parametrize(
    ("bound", "batch", "bfloat16", "against"),
    [
        (COMPUTE, 1.95, 0.5, []),
        (COMPUTE, 1.95, 1.5, []),
        (COMPUTE, 1.1, 0.9, ["batch"]),
        (BANDWIDTH, 1.1, 0.6, []),
        (BANDWIDTH, 1.1, 1.4, ["bfloat16"]),
        (BANDWIDTH, 1.9, 1.4, ["batch", "bfloat16"]),
        (HAND_OVER, 1.0, 1.0, []),
        (HAND_OVER, 1.0, 0.6, ["bfloat16"]),
        (WAITING, 1.4, 1.0, ["batch"]),
        (f"{BANDWIDTH} and {HAND_OVER}", 1.1, 0.8, []),
        (f"{BANDWIDTH} and {HAND_OVER}", 1.1, 1.5, ["bfloat16"]),  # fewer bytes must help
        (f"{BANDWIDTH} and {HAND_OVER}", 1.9, 0.8, ["batch"]),
        (f"{COMPUTE} and {BANDWIDTH}", 1.4, 0.9, []),
        (INSIDE, 1.1, 0.7, []),
        (INSIDE, 1.9, 0.75, []),
        (INSIDE, 1.42, 0.7, ["batch"]),
    ],
)
def test_a_contradiction_or_a_ratio_between_is_a_doubt(bound, batch, bfloat16, against):
    ratios = {"batch": around(batch), "bfloat16": around(bfloat16)}
    assert doubts(bound, around(0.9), ratios) == against
    without = ratios | {"bfloat16": None}
    assert doubts(bound, around(0.9), without) == [name for name in against if name == "batch"]


@pytest.mark.parametrize(
    ("time", "doubtful"),
    [
        (took(10), False),  # 80 %
        (took(10, 0.15), True),  # noisy
        (took(6.5), True),  # 123 %
        (took(16.1), True),  # 49.7 %, which may be 50.7 %
        (took(20), False),  # 40 %
    ],
)
def test_a_share_that_proves_nothing_is_a_doubt(time, doubtful):
    found = judge(time, kinds(7.0, 0.0, 9.0), 1.0)
    assert found["explained"]["value"] == pytest.approx(8 / time.median)
    assert found["explained"]["high"] == pytest.approx(8 / time.low)
    ratios = {"batch": around(1.9), "bfloat16": None}
    assert doubts(found["bound"], found["explained"], ratios) == ["explained"] * doubtful


def lines(bound, **more):
    found = judge(took(7.3), kinds(0.01, 0.94, 5.7), 0.9) | {"bound": bound}
    test = {"batch": around(1.42), "bfloat16": None, "doubts": ["batch"]}
    return " ".join(describe_verdict(found | {"test": test} | more, "token"))


def test_a_verdict_in_words():
    assert describe_verdict(None, "pass") == []
    assert describe_verdict({"bound": None, "reason": "no"}, "pass") == ["no verdict on a pass: no"]
    text = lines(INSIDE)
    assert "37 linears take 5.70 ms where their bytes take 0.950; of 7.30 ms" in text
    assert "handing its operations over 0.900: 25.3 (24.8 to 25.9) %" in text
    assert "twice the batch takes 1.420 (1.410 to 1.430) times as long" in text
    assert (
        "weights (cannot be had): unsure, since 1.42 is not clearly below 1.25 or above 1.6" in text
    )
    assert "linears" not in lines(COMPUTE)
    assert "waiting" not in text


def test_doubts_in_words():
    test = {"batch": around(1.1), "bfloat16": around(0.6), "doubts": ["explained", "batch"]}
    text = lines(COMPUTE, test=test, explained=around(1.31))
    assert "unsure, since 131.0 (130.0 to 132.0) % is more than all and 1.10 is below 1.25" in text
    assert "50 (30 to 70) % may be half or less and" in lines(
        COMPUTE, test=test, explained=around(0.5, 0.2)
    )
    text = lines(HAND_OVER, test=test | {"doubts": ["bfloat16"]})
    assert "unsure, since 0.600 is below 0.75" in text
    assert "which fits" in lines(INSIDE, test=test | {"doubts": []})


def test_the_hand_over_ratio_in_words():
    ratio = {"median": 0.97, "low": 0.96, "high": 0.98, "n": 10}
    text = lines(HAND_OVER, hand_over_ratio=ratio)
    assert "handed over after 0.970 (0.960 to 0.980) of the time until the device was done" in text
