"""Decisions compared: first what comes out of each, then its time, in turns with "as written"."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import torch

from mvgpt import GPT
from mvgpt.measure.arms import Arm, check, refer, time_arm
from mvgpt.measure.decisions import AGAIN, BASE, DECISIONS, Decision
from mvgpt.measure.predictions import predict
from mvgpt.measure.prices import Roofs
from mvgpt.measure.reading import SHARES, Reading
from mvgpt.measure.timing import (
    INVALID,
    Clock,
    Ratio,
    Round,
    as_json,
    compare,
    perf_counter,
    run_rounds,
    spread,
    verdict,
)
from mvgpt.progress import progress

FOUND = ("calls_per_token", "max_logit_difference", "error_ratio", "argmax_agreement",
         "greedy_tokens", "first_difference", "compile_seconds", "recompiles", "skipped",
         "reasons")  # fmt: skip


def compare_decisions(
    model: GPT,
    ids: torch.Tensor,
    decisions: Sequence[Decision] = DECISIONS,
    *,
    seed: int,
    budget: float,
    roofs: Roofs | None = None,
    clock: Clock = perf_counter,
) -> dict:
    """`cached`, `tolerance` and `decisions`, the rows, of the results; on the text ids (1, T).

    `budget` is the seconds of rounds; 10 rounds of each are run in any case. With `roofs` each
    decision's change is predicted before them.
    """
    reading = Reading(model, ids)
    reference = refer(reading)
    arms = [Arm(decision) for decision in decisions]
    with new_compiler_cache():
        for arm in progress(arms, "decisions checked"):
            check(arm, reading, reference, clock)
        predict(arms, reading, roofs)
        rounds = {
            unit: time_arms(arms, unit, reading, seed, share * budget, clock)
            for unit, share in SHARES.items()
        }
    rows = [row(arm, rounds) for arm in arms]
    return {"cached": reading.cached, "tolerance": reference.tolerance, "decisions": rows}


@contextmanager
def new_compiler_cache() -> Iterator[None]:
    """torch.compile finds nothing that an earlier run has compiled, and leaves nothing behind."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        patch.dict("os.environ", TORCHINDUCTOR_CACHE_DIR=folder, TRITON_CACHE_DIR=folder),
    ):
        yield


class Failed(Exception):
    """An arm failed while it was timed, and is skipped."""


def time_arms(
    arms: Sequence[Arm],
    unit: str,
    reading: Reading,
    seed: int,
    budget: float,
    clock: Clock = perf_counter,
) -> list[Round]:
    """Rounds of the arms that have that unit; when one fails they start anew without it."""
    while True:
        cases = {
            arm.decision.name: partial(seconds_of, arm, unit, reading, clock)
            for arm in arms
            if not arm.skipped and (unit == "pass" or not arm.decision.compiles)
        }
        rounds = run_rounds(cases, seed=seed, base=BASE, budget=budget, clock=clock)
        try:
            return list(progress(rounds, f"decisions, rounds of a {unit}"))
        except Failed:
            continue


def seconds_of(arm: Arm, unit: str, reading: Reading, clock: Clock) -> float:
    seconds = time_arm(arm, unit, reading, clock)
    if seconds is None:
        raise Failed
    return seconds


def row(arm: Arm, rounds: dict[str, list[Round]]) -> dict:
    """An arm's row of the results: a skipped one has neither pass nor token."""
    times = {unit: timings(arm, rounds[unit]) for unit in SHARES}
    found = {key: getattr(arm, key) for key in FOUND}
    return {"name": arm.decision.name, **times, "predicted": predicted(arm, rounds), **found}


def predicted(arm: Arm, rounds: dict[str, list[Round]]) -> dict | None:
    """The predicted changes, and what they make of the time as written that was measured."""
    if arm.predicted is None:
        return None
    units = {}
    for unit, change in arm.predicted.items():
        base = spread([seconds[BASE] for seconds in rounds[unit]], 1000).median
        units[unit] = {**change, "ratio": 1 + change["milliseconds"] / base}
    return units


def timings(arm: Arm, rounds: Sequence[Round]) -> dict | None:
    """The time of an arm, its ratio to "as written" round by round, and what may be concluded."""
    name = arm.decision.name
    if arm.skipped or name not in rounds[0]:
        return None
    ratio = compare(rounds, name, BASE)
    return {
        "milliseconds": as_json(spread([seconds[name] for seconds in rounds], 1000)),
        "ratio": as_json(ratio),
        "verdict": judge(arm, ratio, rounds),
    }


def judge(arm: Arm, ratio: Ratio, rounds: Sequence[Round]) -> str | None:
    """The verdict; the A/A arm is judged by its own interval alone, "as written" not at all."""
    if arm.decision.name == BASE:
        return None
    if not arm.valid:
        return INVALID
    if arm.decision.name == AGAIN:
        return verdict(ratio)
    again = compare(rounds, AGAIN, BASE) if AGAIN in rounds[0] else Ratio(1, None, None)
    return verdict(ratio, again)
