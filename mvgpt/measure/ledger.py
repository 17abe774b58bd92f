"""The ledger of a run: do its parts add up to the whole?

    plain = nodes + between + residual

Each is measured, and none is computed from another: the plain run; its nodes, with a clock in
each; and what handing over adds to them, on the model's twin, which does almost nothing else. What
is left is the residual. It should be nothing.
"""

from collections.abc import Sequence

from mvgpt.measure.timing import Round, Spread, as_json, half_width, run_rounds, spread
from mvgpt.measure.workload import Timed
from mvgpt.progress import progress

ROUNDS, BUDGET = 40, 20.0  # at least so many, and more for so many seconds, until it is steady
NEAR = 0.03  # of the plain run: a residual as small closes the ledger
STEADY = 0.015  # of the plain run: half its interval, where nothing else disturbs the machine


def measure_ledger(timed: Timed, twin: Timed, seed: int, rounds: int = ROUNDS) -> dict:
    """The `ledger` of the results, in milliseconds; the nodes' own times are in `timed.runs`.

    The twin runs once a round, its code as cold as the model's own between large operations.
    """
    cases = {"plain": timed.time, "nodes": timed.time_nodes,
             "twin": twin.time, "its nodes": twin.time_nodes}  # fmt: skip
    timing = run_rounds(cases, seed=seed, rounds=rounds, budget=BUDGET, enough=steady)
    done = list(progress(timing, "ledger, rounds"))
    timed.runs = timed.runs[1:]  # without the warm-up's
    return ledger(done)


def steady(rounds: Sequence[Round]) -> bool:
    """Whether the plain time is known well enough to judge a residual by it."""
    return half_width(spread([one["plain"] for one in rounds])) <= STEADY


def ledger(rounds: Sequence[Round]) -> dict:
    """The Spreads of the four lines, and whether they add up."""
    between = [one["twin"] - one["its nodes"] for one in rounds]
    lines = {
        "plain": [one["plain"] for one in rounds],
        "nodes": [one["nodes"] for one in rounds],
        "between": between,
        "residual": [r["plain"] - r["nodes"] - b for r, b in zip(rounds, between, strict=True)],
    }
    found = {name: as_json(spread(samples, 1000)) for name, samples in lines.items()}
    return {**found, "closes": closes(found["plain"], found["residual"])}


def closes(plain: dict, residual: dict) -> bool | None:
    """Whether a residual is as good as nothing, beside a plain time; None: too noisy to say."""
    half = half_width(Spread(**plain))
    if half > STEADY:  # then it closes only if noise and all is next to nothing
        most = max(abs(residual["low"]), abs(residual["high"]))
        return True if most <= NEAR * plain["median"] else None
    return abs(residual["median"]) <= max(NEAR, 3 * half) * plain["median"]
