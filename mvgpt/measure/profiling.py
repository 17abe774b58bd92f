"""A pass and writing, profiled: plain runs that alternate with profiled ones, and a trace."""

from collections import deque
from collections.abc import Callable

import torch
from torch.profiler import profile, record_function

from mvgpt import GPT, stream
from mvgpt.measure.positions import by_position, seen
from mvgpt.measure.timing import as_json, compare, run_rounds, spread, time_steps
from mvgpt.measure.trace import load_trace, need_kernels, profiled, summary
from mvgpt.measure.workload import Workload
from mvgpt.progress import progress

PASS_ROUNDS, WRITING_ROUNDS = 20, 10


def profile_pass(
    workload: Workload, label: str, seed: int, rounds: int = PASS_ROUNDS
) -> tuple[dict, dict]:
    """The results of one run of a workload, such as a pass, and its trace."""
    cases = workload.time, workload.run
    timed, profiler = alternate(*cases, label, rounds, seed, workload.device)
    results = timings(timed, "milliseconds", 1000) | summary(profiler.events(), label)
    return results, load_trace(profiler)


def profile_writing(
    model: GPT, prompt: list[int], tokens: int, vocab: int, seed: int
) -> tuple[dict, dict]:
    """The results of writing with the cache, and its trace: a span a phase and a token."""
    device = model.wte.weight.device
    runs = []  # of each plain run the seconds until each token

    def written():
        generator = torch.Generator(device).manual_seed(seed)
        return stream(model, prompt, tokens, generator=generator, vocab=vocab)

    def plain() -> float:
        runs.append(time_steps(written(), device)[1])
        return runs[-1][-1]

    def write():
        ids = written()
        with record_function("prefill"), record_function("token 1"):
            next(ids)
        with record_function("decode"):
            for number in range(2, tokens + 1):
                with record_function(f"token {number}"):
                    next(ids)

    rounds, profiler = alternate(plain, write, "writing", WRITING_ROUNDS, seed, device)
    results = {"prompt_tokens": len(prompt), "tokens": tokens}
    results |= timings(rounds, "milliseconds_per_token", 1000 / tokens)
    decode = summary(profiler.events(), "decode") if tokens > 1 else None
    results |= per_token(summary(profiler.events(), "writing"), decode, tokens)
    steps = seen(len(prompt), tokens, model.config.n_positions)
    return results | by_position(steps, runs[1:]), load_trace(profiler)  # without the warm-up


def per_token(found: dict, decode: dict | None, tokens: int) -> dict:
    """The summary of writing a token, and what the decoded ones alone called, if there are any."""
    milliseconds = found.pop("profiled_milliseconds") / tokens
    return found | {
        "calls_per_token": decode["calls"] / (tokens - 1) if decode else None,
        "profiled_milliseconds_per_token": milliseconds,
        "decode_operations": decode["operations"] if decode else [],
    }


def alternate(
    plain: Callable[[], float],
    call: Callable[[], object],
    label: str,
    rounds: int,
    seed: int,
    device: torch.device,
) -> tuple[list[dict[str, float]], profile]:
    """Rounds of a plain run, which times itself, and of a call that is profiled; of the last
    three profiles the one of median time.
    """
    profiles = deque(maxlen=3)  # more would fill the memory when the text is long

    def run_profiled() -> float:
        profiles.append(profiled(call, label, device))
        return profiles[-1][0]

    cases = {"plain": plain, "profiled": run_profiled}
    timed = list(progress(run_rounds(cases, seed=seed, rounds=rounds), f"{label}, rounds"))
    _, profiler = sorted(profiles, key=lambda pair: pair[0])[1]
    need_kernels(profiler.events(), device)
    return timed, profiler


def timings(rounds: list[dict[str, float]], key: str, scale: float) -> dict:
    """The plain time as a Spread under `key`, and what the profiler multiplies it by."""
    plain = [seconds["plain"] for seconds in rounds]
    adds = compare(rounds, "profiled", "plain")
    return {key: as_json(spread(plain, scale)), "profiler_multiplies_by": as_json(adds)}
