"""Two passes that show both cases side by side: much work at a time, and little."""

from collections.abc import Callable

import torch

from mvgpt import GPT
from mvgpt.measure import report
from mvgpt.measure.graph import pass_inputs
from mvgpt.measure.profiling import profile_pass
from mvgpt.measure.timing import MIN_ROUNDS
from mvgpt.measure.verdict import BANDWIDTH, COMPUTE, HAND_OVER
from mvgpt.measure.wording import describe_verdict
from mvgpt.measure.workload import Workload

TOKENS, FEW = 256, 25
PARTS = (COMPUTE, BANDWIDTH, HAND_OVER)
CHANGES = {"batch": "twice the batch", "bfloat16": "bfloat16 weights"}


def large_batch(device: torch.device) -> int:
    """Enough sequences to keep the device at work, few enough not to take long."""
    return 16 if device.type == "cpu" else 64


def profile_pair(
    model: GPT, seed: int, judge: Callable[..., dict]
) -> tuple[list[dict], dict[str, dict]]:
    """The `pair` of the results, and the traces by name; a smaller window holds fewer tokens."""
    window, device = model.config.n_positions, model.wte.weight.device
    rows, traces = [], {}
    for batch, tokens in ((large_batch(device), min(TOKENS, window)), (1, min(FEW, window))):
        name = f"{batch}x{tokens}"
        workload = Workload(model, *pass_inputs(model, tokens, seed, batch))
        found, trace = profile_pass(workload, name, seed, MIN_ROUNDS)
        verdict = judge(workload, found, trace, name)
        rows.append({"batch": batch, "tokens": tokens} | found | {"verdict": verdict})
        traces[f"pair-{name}"] = trace
    return rows, traces


def render(results: dict) -> str:
    """What is printed: a function of the results file alone."""
    pair = results["pair"]
    names = [f"{row['batch']} x {row['tokens']} tokens" for row in pair]
    columns = [cells(row) for row in pair]
    rows = [[label, *(column.get(label, "-") for column in columns)]
            for label in columns[0] | columns[1]]  # fmt: skip
    lines = [report.describe(results["conditions"]),
             *report.roofs_note(results.get("roofs")), "",
             report.text_table("Two passes, side by side", ["", *names], rows)]  # fmt: skip
    for name, row in zip(names, pair, strict=True):
        lines += ["", f"{name}:", *describe_verdict(row["verdict"], "pass")]
    return "\n".join(lines)


def cells(row: dict) -> dict[str, str]:
    """A column of the table."""
    verdict, found = row["verdict"], {"operations": str(row["calls"])}
    found["ms a pass"] = report.show_spread(row["milliseconds"])
    if verdict["bound"]:
        parts, test = verdict["milliseconds"], verdict["test"]
        found["bound by"] = verdict["bound"] + ", unsure" * bool(test["doubts"])
        found |= {f"{part}, ms": report.significant(parts[part], 3) for part in PARTS}
        found["explained"] = report.percent(verdict["explained"]["value"])
        found |= {CHANGES[change]: report.show_ratio(test[change])
                  for change in CHANGES if test[change]}  # fmt: skip
    if "hand_over_ratio" in verdict:
        found["handed over after"] = report.show_spread(verdict["hand_over_ratio"])
    if "device" in verdict:
        found["the GPU was busy"] = report.percent(verdict["device"]["busy"])
        found["by its trace"] = verdict["device"]["verdict"]
    return found
