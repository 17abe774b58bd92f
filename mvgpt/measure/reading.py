"""What is timed of a model: a pass over a text, and the step of one token with the KV cache."""

import copy
from collections.abc import Callable, Iterator
from functools import partial

import torch

from mvgpt import GPT, KVCache, generate
from mvgpt.measure.timing import Clock, perf_counter, time_call
from mvgpt.measure.trace import profiled, summary

PROMPT, GREEDY = 16, 100  # tokens of the text that writing goes on from, and how many it adds
WARM = {"pass": 1, "token": 4}  # before one that counts; all that a token does is read weights
SHARES = {"pass": 2 / 3, "token": 1 / 3}  # of the time for rounds; a token's are the shorter ones


class Reading:
    """A text of T ids (1, T), to be read at once, or with half of it in the cache already.

    The token's step is always that of the id at T // 2, with the T // 2 before it in the cache.
    Each step starts on a copy of that cache, so that all steps do the same work.
    """

    def __init__(self, model: GPT, ids: torch.Tensor):
        self.model, self.device = model, model.wte.weight.device
        self.ids = ids.to(self.device)
        self.cached = ids.size(1) // 2
        self.token = self.ids[:, self.cached : self.cached + 1]  # (1, 1)
        self.cache = KVCache(model.config.n_layer)
        if self.cached:
            self.read(self.ids[:, : self.cached], self.cache)

    @torch.no_grad()
    def read(self, ids: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        """ids (1, T) -> logits (1, T, V)"""
        return self.model(ids, cache)

    def one_pass(self) -> torch.Tensor:
        """The logits (1, T, V) of the text read at once."""
        return self.read(self.ids)

    def in_chunks(self) -> Iterator[torch.Tensor]:
        """The logits of the text read in all ways that there are with a cache: the first half on
        an empty one, then several tokens on top of it, then one.
        """
        cache = KVCache(self.model.config.n_layer)
        for chunk in self.ids.tensor_split((self.cached, self.ids.size(1) - 1), dim=1):
            if chunk.size(1):
                yield self.read(chunk, cache)

    def write(self) -> list[int]:
        """The most likely tokens, one after another, that go on from the text's first ones."""
        return generate(self.model, self.ids[0, :PROMPT].tolist(), GREEDY, temperature=0)

    def step(self) -> Callable[[], torch.Tensor]:
        """The token's step, to be taken once: its copy of the cache is made here."""
        return partial(self.read, self.token, copy.deepcopy(self.cache))

    def time(self, unit: str, clock: Clock = perf_counter) -> float:
        """The seconds of one "pass" or of one "token"."""
        return time_call(self.one_pass if unit == "pass" else self.step(), self.device, clock)

    def time_warm(self, unit: str, clock: Clock = perf_counter) -> float:
        """The same of the last of several in a row: what ran before has left the caches cold."""
        for _ in range(WARM[unit]):
            self.time(unit, clock)
        return self.time(unit, clock)

    def operations_per_token(self) -> int:
        """The operations that a step calls itself, counted by the profiler."""
        _, profiler = profiled(self.step(), "token", self.device)
        return summary(profiler.events(), "token")["calls"]
