"""A verdict on what was profiled: held against the roofs, and tested by changes to the run."""

from pathlib import Path

from mvgpt import GPT
from mvgpt.measure.arms import reason
from mvgpt.measure.gpu import device_use
from mvgpt.measure.graph import Step, step_inputs
from mvgpt.measure.positions import seen
from mvgpt.measure.prices import Roofs
from mvgpt.measure.roofs import find_roofs
from mvgpt.measure.timing import (
    MIN_ROUNDS,
    Spread,
    as_json,
    compare,
    run_rounds,
    spread,
    time_hand_over,
)
from mvgpt.measure.trace import WAITING as OWN_WAIT
from mvgpt.measure.verdict import BANDWIDTH, COMPUTE, Kind, doubts, judge
from mvgpt.measure.workload import Workload
from mvgpt.progress import progress

BASE = "as it is"
CHANGES = {"batch": Workload.twice, "bfloat16": Workload.lighter}
FREE = {COMPUTE: 0.0, BANDWIDTH: 0.0}


def usable_roofs(results: dict, out: Path, model: GPT) -> dict:
    """The `roofs` of the results, or the reason why there are none."""
    try:
        return find_roofs(results, out, model)
    except RuntimeError as error:  # no memory, or what this device cannot do
        return {"reason": reason(error)}


def middle_step(model: GPT, prompt: int, tokens: int, seed: int) -> Workload | None:
    """The step of the token in the middle of the written text; None where none is decoded."""
    positions = sorted(filter(None, seen(prompt, tokens, model.config.n_positions)))
    if not positions:
        return None
    return Workload(Step(model), *step_inputs(model, positions[len(positions) // 2], seed))


def judge_run(
    workload: Workload | None,
    found: dict,
    trace: dict,
    label: str,
    *,
    roofs: dict,
    seed: int,
    budget: float,
) -> dict:
    """The `verdict` of the results on a pass or a token; `found` is what was profiled of it.

    `label` is that of the span in the trace. `roofs` are those of the results. `budget` is the
    seconds of rounds of the verdict's test; 10 are run in any case.
    """
    if workload is None:
        return {"bound": None, "reason": "no token was decoded"}
    device = device_side(workload, found, trace, label)
    if "reason" in roofs:
        return {"bound": None, "reason": roofs["reason"]} | device
    try:
        verdict = held_against(workload, found, Roofs(roofs), device)
    except RuntimeError as error:  # torch.export, or a run of its graph
        return {"bound": None, "reason": reason(error)} | device
    ratios, reasons = changed(workload, seed, budget)
    against = doubts(verdict["bound"], verdict["explained"], ratios)
    return verdict | {"test": ratios | {"doubts": against, "reasons": reasons}} | device


def device_side(workload: Workload, found: dict, trace: dict, label: str) -> dict:
    """What there is to say of a device that works apart from the CPU; of the CPU nothing."""
    result = {}
    if workload.device.type != "cpu":
        result["hand_over_ratio"] = as_json(spread(hand_over_ratios(workload)))
    if "kernels" in found:
        result["device"] = device_use(trace["traceEvents"], label)
    return result


def hand_over_ratios(workload: Workload) -> list[float]:
    """The time until the last operation was handed over, over that until the device was done."""
    runs = [time_hand_over(workload.run, workload.device) for _ in range(MIN_ROUNDS + 1)]
    return [handed_over / done for handed_over, done in runs[1:]]  # without a warm-up


def held_against(workload: Workload, found: dict, roofs: Roofs, device: dict) -> dict:
    """The plain time against what the roofs allow, what handing over takes, and what waits."""
    measured, calls, runs, rows = of_one(found)
    kinds = find_kinds(workload, rows, measured.median, runs, roofs)
    waits = device["device"]["idle_after_waits"] if "device" in device else 0
    waiting = waits * measured.median
    return judge(measured, kinds, calls * roofs.hand_over, waiting, workload.device.type != "cpu")


def of_one(found: dict) -> tuple[Spread, float, int, list[dict]]:
    """The milliseconds of a pass or of a decoded token, how many operations it is, how many of
    it were profiled, and the operations of all these.
    """
    if "calls_per_token" not in found:
        return Spread(**found["milliseconds"]), found["calls"], 1, found["operations"]
    measured = Spread(**found["milliseconds_per_decoded_token"])
    return measured, found["calls_per_token"], found["tokens"] - 1, found["decode_operations"]


def find_kinds(
    workload: Workload, operations: list[dict], measured: float, runs: int, roofs: Roofs
) -> list[Kind]:
    """The kinds of operations: what each takes in one run, and what its roofs allow.

    On the CPU it takes its share of the profiled run, of the plain time; on CUDA what its kernels
    take; on MPS there is no telling.
    """

    def milliseconds(row: dict) -> float | None:
        if "device_milliseconds" in row:
            return row["device_milliseconds"] / runs
        return row["share"] * measured if workload.device.type == "cpu" else None

    allowed = workload.allowed(roofs)
    rows = [row for row in operations if row["name"] != OWN_WAIT]
    kinds = [Kind(row["name"], row["calls"] / runs, milliseconds(row),
                  *allowed.pop(row["name"], FREE).values()) for row in rows]  # fmt: skip
    return kinds + [Kind(name, 0, None, *kind.values()) for name, kind in allowed.items()]


def changed(workload: Workload, seed: int, budget: float) -> tuple[dict, dict[str, str]]:
    """The times with each of the CHANGES over those as it is, in turns.

    Null, with the reason beside, for one that the device cannot run, or has no memory for.
    """
    cases, reasons = {BASE: workload.time}, {}
    for change, make in CHANGES.items():
        try:
            other = make(workload)
            other.run()
            cases[change] = other.time
        except (RuntimeError, TypeError) as error:
            reasons[change] = reason(error)
    rounds = run_rounds(cases, seed=seed, base=BASE, budget=budget)
    rounds = list(progress(rounds, "tests of the verdict, rounds"))
    return {change: as_json(compare(rounds, change, BASE)) if change in cases else None
            for change in CHANGES}, reasons  # fmt: skip
