"""Where does the time of a GPT go? PyTorch's profiler over one pass, and over writing.

    python profiler.py                          # the model that ships, on the best device here
    python profiler.py --device cpu --threads 1
    python profiler.py path/to/gpt2             # any GPT-2 folder

A pass reads a full window of random tokens; writing adds 100 tokens to "Once upon a time" with
the KV cache. The slowest operations of each are printed with their share of the profiled run, and
the time of both without the profiler, from plain runs that alternate with profiled ones. Writes
results/profiler-<device>.json and two traces for https://ui.perfetto.dev; with --plot, two charts.
"""

import argparse
import textwrap
from collections import deque
from collections.abc import Callable
from functools import partial

import torch
from torch.profiler import profile, record_function

from mvgpt import GPT, Tokenizer, stream
from mvgpt.arguments import positive
from mvgpt.data import random_ids
from mvgpt.errors import run
from mvgpt.measure import options, report
from mvgpt.measure.plots import UNITS, plot_profile
from mvgpt.measure.timing import as_json, compare, run_rounds, spread, time_call
from mvgpt.measure.trace import direct, find_span, need_kernels, profiled, save_trace, summary
from mvgpt.progress import progress

PASS_ROUNDS, WRITING_ROUNDS = 20, 10
TRACED_TOKENS = 200  # of a longer text the trace shows the first ones; the summary covers all


def main() -> None:
    args = parse()
    model, tokenizer, device = options.prepare(args)
    prompt = options.read_prompt(args, model, tokenizer, args.tokens)
    results = options.header("profiler", args, model, device)
    results["pass"], pass_profile = profile_pass(args, model, device)
    results["writing"], writing_profile = profile_writing(args, model, tokenizer, prompt, device)
    results["traces"] = save_traces(args, device, pass_profile, writing_profile)
    print(render(results))
    print(f"\nwrote {report.shown(options.save(results, args, f'profiler-{device.type}'))}")
    for name in results["traces"].values():
        path = args.out / name
        print(f"wrote {report.shown(path)} ({path.stat().st_size / 1e6:.2f} MB)")
    for unit in UNITS if args.plot else ():
        path = args.out / f"profiler-{device.type}-{unit}.png"
        print(f"wrote {report.shown(plot_profile(results, unit, path))}")


def parse() -> argparse.Namespace:
    parser = options.parser(__doc__)
    options.add_device(parser)
    options.add_plot(parser)
    options.add_prompt(parser)
    parser.add_argument("--tokens", type=positive, default=100,
                        help=f"to write (100); the first {TRACED_TOKENS} are traced")  # fmt: skip
    return parser.parse_args()


def profile_pass(
    args: argparse.Namespace, model: GPT, device: torch.device
) -> tuple[dict, profile]:
    """The results of one pass over a full window of random tokens, and its profile."""
    window = model.config.n_positions
    ids = random_ids(model.config.vocab_size, window, args.seed).to(device)

    @torch.no_grad()
    def one_pass():
        return model(ids)

    rounds, profiler = alternate(one_pass, "pass", PASS_ROUNDS, args.seed, device)
    results = {"tokens": window} | timings(rounds, "milliseconds", 1000)
    return results | summary(profiler.events(), "pass"), profiler


def profile_writing(
    args: argparse.Namespace,
    model: GPT,
    tokenizer: Tokenizer,
    prompt: list[int],
    device: torch.device,
) -> tuple[dict, profile]:
    """The results of writing with the cache, and its profile: a span a phase and a token."""

    def write():
        generator = torch.Generator(device).manual_seed(args.seed)
        ids = stream(model, prompt, args.tokens, generator=generator, vocab=tokenizer.vocab_size)
        with record_function("prefill"), record_function("token 1"):
            next(ids)
        with record_function("decode"):
            for number in range(2, args.tokens + 1):
                with record_function(f"token {number}"):
                    next(ids)

    rounds, profiler = alternate(write, "writing", WRITING_ROUNDS, args.seed, device)
    events = profiler.events()
    found = summary(events, "writing")
    decoded = args.tokens - 1
    calls = len(list(direct(find_span(events, "decode")))) / decoded if decoded else None
    results = {"prompt_tokens": len(prompt), "tokens": args.tokens, "calls_per_token": calls}
    results |= timings(rounds, "milliseconds_per_token", 1000 / args.tokens)
    per_token = found.pop("profiled_milliseconds") / args.tokens
    return results | {"profiled_milliseconds_per_token": per_token} | found, profiler


def alternate(
    call: Callable[[], object], label: str, rounds: int, seed: int, device: torch.device
) -> tuple[list[dict[str, float]], profile]:
    """Rounds of a plain and a profiled run; of the last three profiles the one of median time."""
    profiles = deque(maxlen=3)  # more would fill the memory when the text is long

    def run_profiled() -> float:
        profiles.append(profiled(call, label, device))
        return profiles[-1][0]

    cases = {"plain": partial(time_call, call, device), "profiled": run_profiled}
    timed = list(progress(run_rounds(cases, seed=seed, rounds=rounds), f"{label}, rounds"))
    _, profiler = sorted(profiles, key=lambda pair: pair[0])[1]
    need_kernels(profiler.events(), device)
    return timed, profiler


def timings(rounds: list[dict[str, float]], key: str, scale: float) -> dict:
    """The plain time as a Spread under `key`, and what the profiler multiplies it by."""
    plain = [seconds["plain"] for seconds in rounds]
    adds = compare(rounds, "profiled", "plain")
    return {key: as_json(spread(plain, scale)), "profiler_multiplies_by": as_json(adds)}


def save_traces(
    args: argparse.Namespace, device: torch.device, pass_profile: profile, writing_profile: profile
) -> dict[str, str]:
    """Write both traces; their names."""
    names = {phase: f"trace-{phase}-{device.type}.json.gz" for phase in ("pass", "writing")}
    save_trace(pass_profile, args.out / names["pass"])
    last = f"token {TRACED_TOKENS}" if args.tokens > TRACED_TOKENS else None
    save_trace(writing_profile, args.out / names["writing"], last)
    return names


def render(results: dict) -> str:
    """What is printed: a function of the results file alone."""
    one, writing = results["pass"], results["writing"]
    calls = writing["calls_per_token"]
    calls = "no decoded token, so no" if calls is None else f"{calls:.0f}"
    return "\n".join([
        report.describe(results["conditions"]),
        "",
        table(f"A pass over {one['tokens']} tokens: {one['calls']} operations", one, 8),
        f"{report.show_spread(one['milliseconds'])} ms a pass without the profiler, "
        f"which multiplies it by {report.show_ratio(one['profiler_multiplies_by'])}",
        *report.noise_note(one["milliseconds"]),
        *device_notes(one, results["conditions"]["device"], 1, "pass"),
        "",
        table(f"Writing {writing['tokens']} tokens after {writing['prompt_tokens']}, with the KV "
              f"cache: {calls} operations a token", writing, 5),
        f"{report.show_spread(writing['milliseconds_per_token'])} ms a token without the profiler, "
        f"which multiplies it by {report.show_ratio(writing['profiler_multiplies_by'])}",
        *report.noise_note(writing["milliseconds_per_token"]),
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
