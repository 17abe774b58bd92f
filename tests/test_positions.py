"""The time of a token against its position, with the writing itself as the oracle."""

import random
from unittest.mock import patch

import pytest

from mvgpt import GPT, generate
from mvgpt.measure.positions import by_position, seen, slope


@pytest.mark.parametrize(("prompt", "tokens"), [(1, 1), (4, 20), (30, 5), (32, 40), (5, 90)])
def test_what_each_step_sees_is_what_the_model_is_asked_for(model, prompt, tokens):
    read, forward = [], GPT.forward

    def spying(self, ids, cache=None):
        read.append((ids.size(1), cache.position + ids.size(1)))
        return forward(self, ids, cache)

    with patch.object(GPT, "forward", spying):
        generate(model, list(range(prompt)), tokens)
    assert seen(prompt, tokens, 32) == [sees if T == 1 and sees > 1 else None for T, sees in read]


def laps(steps, milliseconds):
    """The seconds until each token, where a step takes so long for its position."""
    total, found = 0.0, []
    for position in steps:
        total += milliseconds(position) / 1000
        found.append(total)
    return found


def test_the_slope_is_per_cached_position_and_heeds_decoded_tokens_alone():
    steps, chance = seen(4, 60, 32), random.Random(0)

    def milliseconds(position):
        if position is None:
            return 500.0  # prefill, or half a window read again
        return 5 + 0.003 * position * chance.lognormvariate(0, 0.01) + (chance.random() < 0.1) * 20

    found = by_position(steps, [laps(steps, milliseconds) for _ in range(10)])
    assert found["slope_microseconds_per_position"]["median"] == pytest.approx(3, rel=0.02)
    assert found["slope_microseconds_per_position"]["n"] == 10
    rows = {row["position"]: row["milliseconds"] for row in found["positions"]}
    assert list(rows) == list(range(5, 33))
    assert rows[5]["n"] == 10
    assert rows[32]["n"] == 20  # it fills the window twice
    assert all(row["median"] < 100 for row in rows.values())


def test_without_two_positions_there_is_no_slope():
    for tokens in (1, 2):
        steps = seen(4, tokens, 32)
        found = by_position(steps, [laps(steps, lambda position: 5.0)] * 10)
        assert found["slope_microseconds_per_position"] is None
        assert len(found["positions"]) == tokens - 1


def test_a_line_through_points():
    assert slope([(x, 7 - 2 * x) for x in (5, 1, 3)]) == pytest.approx(-2)
    assert slope([(1, 1.0), (1, 2.0)]) is slope([(1, 1.0)]) is slope([]) is None
    outlying = [(x, 2.0 * x + 1000 * (x == 17)) for x in range(20)]
    assert slope(outlying) == pytest.approx(2)
