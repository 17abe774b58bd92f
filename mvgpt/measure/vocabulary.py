"""What a larger vocabulary costs: untrained models that are alike but for it, taking turns."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from mvgpt import GPT, GPTConfig
from mvgpt.data import random_ids
from mvgpt.measure.reading import SHARES, Reading
from mvgpt.measure.timing import Clock, Round, as_json, perf_counter, run_rounds, spread
from mvgpt.progress import progress


def compare_vocabularies(
    config: GPTConfig,
    sizes: Sequence[int],
    device: torch.device,
    *,
    seed: int,
    budget: float,
    clock: Clock = perf_counter,
) -> list[dict]:
    """The `vocabulary` rows of the results, one a size; `config` gives the other sizes.

    `budget` is the seconds of rounds; 10 rounds of each are run in any case.
    """
    readings = {str(size): untrained(config, size, device, seed) for size in sizes}
    rounds = {}
    for unit, share in SHARES.items():
        cases = {name: partial(reading.time, unit, clock) for name, reading in readings.items()}
        timed = run_rounds(
            cases, seed=seed, base=str(min(sizes)), budget=share * budget, clock=clock
        )
        rounds[unit] = list(progress(timed, f"vocabularies, rounds of a {unit}"))
    return [row(size, rounds, config.n_embd) for size in sizes]


def untrained(config: GPTConfig, vocab_size: int, device: torch.device, seed: int) -> Reading:
    """A full window of random ids, and a model with random weights to read it."""
    model = GPT(replace(config, vocab_size=vocab_size)).to(device).eval()
    return Reading(model, random_ids(vocab_size, config.n_positions, seed))


def row(size: int, rounds: dict[str, list[Round]], channels: int) -> dict:
    """The Spreads, in milliseconds, of a pass and of a token, and the number of head weights."""
    seconds = {unit: [each[str(size)] for each in rounds[unit]] for unit in SHARES}
    spreads = {unit: as_json(spread(samples, 1000)) for unit, samples in seconds.items()}
    return {"vocab_size": size, **spreads, "head_weights": size * channels}
