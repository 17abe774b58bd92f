"""Where does the time of a GPT go, and what bounds it? One pass, and writing, profiled.

    python profiler.py                          # the model that ships, on the best device here
    python profiler.py --device cpu --threads 1
    python profiler.py --pair                   # two passes instead: much work, and little
    python profiler.py path/to/gpt2             # any GPT-2 folder

A pass reads a full window of random tokens; writing adds 100 tokens to "Once upon a time" with
the KV cache. The slowest operations of each are printed with their share of the profiled run, and
the time of both without the profiler, from plain runs that alternate with profiled ones. A verdict
says what bounds each, and is tested: with twice the batch, and with weights in bfloat16. Writes
results/profiler-<device>.json and two traces for https://ui.perfetto.dev; with --plot, two charts.
"""

import argparse
import textwrap
from collections.abc import Callable
from functools import partial

import torch

from mvgpt import GPT, Tokenizer
from mvgpt.arguments import above_zero, positive
from mvgpt.errors import run
from mvgpt.measure import options, pair, report
from mvgpt.measure.graph import pass_inputs
from mvgpt.measure.judging import judge_run, middle_step, usable_roofs
from mvgpt.measure.plots import UNITS, plot_profile
from mvgpt.measure.profiling import profile_pass, profile_writing
from mvgpt.measure.trace import write_trace
from mvgpt.measure.wording import describe_verdict
from mvgpt.measure.workload import Workload

TRACED_TOKENS = 200  # of a longer text the trace shows the first ones; the summary covers all


def main() -> None:
    args = parse()
    model, tokenizer, device = options.prepare(args)
    results = options.header("profiler", args, model, device)
    results["roofs"] = usable_roofs(results, args.out, model)
    judge = partial(judge_run, roofs=results["roofs"], seed=args.seed, budget=args.budget)
    if args.pair:
        results["pair"], traces = pair.profile_pair(model, args.seed, judge)
    else:
        prompt = options.read_prompt(args, model, tokenizer, args.tokens)
        found, traces = profile_both(args, model, tokenizer, prompt, judge)
        results |= found
    results["traces"] = save_traces(args, device, traces)
    print(render(results))
    name = f"profiler{'-pair' * args.pair}-{device.type}"
    print(f"\nwrote {report.shown(options.save(results, args, name))}")
    for trace in results["traces"].values():
        path = args.out / trace
        print(f"wrote {report.shown(path)} ({path.stat().st_size / 1e6:.2f} MB)")
    for unit in UNITS if args.plot else ():
        path = args.out / f"{name}-{unit}.png"
        print(f"wrote {report.shown(plot_profile(results, unit, path))}")


def parse() -> argparse.Namespace:
    parser = options.parser(__doc__)
    options.add_device(parser)
    options.add_plot(parser)
    options.add_prompt(parser)
    parser.add_argument("--tokens", type=positive, default=100,
                        help=f"to write (100); the first {TRACED_TOKENS} are traced")  # fmt: skip
    parser.add_argument("--pair", action="store_true",
                        help="profile two passes instead, side by side")  # fmt: skip
    parser.add_argument("--budget", type=above_zero, default=5.0,
                        help="seconds of rounds to test a verdict, 10 at least (5)")  # fmt: skip
    args = parser.parse_args()
    if args.pair and args.plot:
        parser.error("--plot draws a pass and writing, which --pair does not profile")
    return args


def profile_both(
    args: argparse.Namespace,
    model: GPT,
    tokenizer: Tokenizer,
    prompt: list[int],
    judge: Callable[..., dict],
) -> tuple[dict, dict[str, dict]]:
    """`pass` and `writing` of the results with their verdicts, and the traces of both."""
    window, traces = model.config.n_positions, {}
    one_pass = Workload(model, *pass_inputs(model, window, args.seed))
    found, traces["pass"] = profile_pass(one_pass, "pass", args.seed)
    results = {"pass": {"tokens": window} | found}
    results["pass"]["verdict"] = judge(one_pass, found, traces["pass"], "pass")
    found, traces["writing"] = profile_writing(
        model, prompt, args.tokens, tokenizer.vocab_size, args.seed
    )
    step = middle_step(model, len(prompt), args.tokens, args.seed)
    verdict = judge(step, found, traces["writing"], "writing")
    return results | {"writing": found | {"verdict": verdict}}, traces


def save_traces(
    args: argparse.Namespace, device: torch.device, traces: dict[str, dict]
) -> dict[str, str]:
    """Write the traces; their names. A long text's is cut."""
    names = {phase: f"trace-{phase}-{device.type}.json.gz" for phase in traces}
    for phase, trace in traces.items():
        cut = phase == "writing" and args.tokens > TRACED_TOKENS
        write_trace(trace, args.out / names[phase], f"token {TRACED_TOKENS}" if cut else None)
    return names


def render(results: dict) -> str:
    """What is printed: a function of the results file alone."""
    if "pair" in results:
        return pair.render(results)
    one, writing = results["pass"], results["writing"]
    calls = writing["calls_per_token"]
    calls = "no decoded token, so no" if calls is None else f"{calls:.0f}"
    return "\n".join([
        report.describe(results["conditions"]),
        *report.roofs_note(results.get("roofs")),
        "",
        table(f"A pass over {one['tokens']} tokens: {one['calls']} operations", one, 8),
        f"{report.show_spread(one['milliseconds'])} ms a pass without the profiler, "
        f"which multiplies it by {report.show_ratio(one['profiler_multiplies_by'])}",
        *report.noise_note(one["milliseconds"]),
        *describe_verdict(one.get("verdict"), "pass"),
        *device_notes(one, results["conditions"]["device"], 1, "pass"),
        "",
        table(f"Writing {writing['tokens']} tokens after {writing['prompt_tokens']}, with the KV "
              f"cache: {calls} operations a token", writing, 5),
        f"{report.show_spread(writing['milliseconds_per_token'])} ms a token without the profiler, "
        f"which multiplies it by {report.show_ratio(writing['profiler_multiplies_by'])}",
        *report.noise_note(writing["milliseconds_per_token"]),
        *slope_note(writing),
        *describe_verdict(writing.get("verdict"), "token"),
        *device_notes(writing, results["conditions"]["device"], writing["tokens"], "token"),
    ])  # fmt: skip


def table(title: str, found: dict, most: int) -> str:
    """The slowest operations, the others as one row, and the time outside: 100 % in all."""
    operations = found["operations"]
    device = "device_milliseconds" in found
    rows = [row(o["name"] + " (waiting)" * o["waits"], [o], device) for o in operations[:most]]
    if operations[most:]:
        rows.append(row(f"{len(operations[most:])} other kinds", operations[most:], device))
    rows.append(["outside of operations", "", report.percent(found["outside"]), "", ""])
    columns = ["operation", "calls", "share", "profiled ms", "kernels, ms"]
    return report.text_table(title, columns[: 4 + device], [r[: 4 + device] for r in rows])


def row(name: str, operations: list[dict], device: bool) -> list[str]:
    def total(key):
        return sum(operation[key] for operation in operations)

    kernels = f"{total('device_milliseconds'):.3f}" if device else ""
    return [name, str(total("calls")), report.percent(total("share")),
            f"{total('profiled_milliseconds'):.2f}", kernels]  # fmt: skip


def slope_note(writing: dict) -> list[str]:
    """What a token takes longer for each one before it; nothing where too few were decoded."""
    slope = writing.get("slope_microseconds_per_position")
    if slope is None:
        return []
    shown = slope["low"] is not None and slope["low"] > 0
    return [f"each cached position adds {report.show_spread(slope)} microseconds to a token"
            + ("" if shown else ": no growth is shown")]  # fmt: skip


def device_notes(found: dict, device: str, per: int, unit: str) -> list[str]:
    """What must be known to read the table on a device that works apart from the CPU."""
    if device == "mps":
        return ["the CPU's side alone: PyTorch's profiler records no kernels on MPS"]
    if "kernels" not in found:
        return []
    kernels, milliseconds, waits = (
        found[key] / per for key in ("kernels", "device_milliseconds", "waits")
    )
    note = (
        f"{kernels:.0f} kernels a {unit} ran {milliseconds:.3f} ms in all; the CPU waited for the "
        f"device {waits:.1f} times a {unit}. Shares are of the CPU's time, so that a wait is "
        "charged with work that was handed over before it."
    )
    return textwrap.wrap(note, report.WIDTH)


if __name__ == "__main__":
    run(main)
