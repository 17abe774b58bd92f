"""An operation that torch.export keeps as it is, and that takes longer than it should."""

import math
import time

import torch

SECONDS = 0.005


@torch.library.custom_op("mvgpt_tests::slow_erf", mutates_args=())
def slow_erf(x: torch.Tensor, seconds: float) -> torch.Tensor:
    """Over again for as long, at work: idle threads fall asleep, and would slow what follows."""
    result, end = torch.erf(x), time.perf_counter() + seconds
    while time.perf_counter() < end:
        result = torch.erf(x)
    return result


@slow_erf.register_fake
def _(x, seconds):
    return torch.empty_like(x)


class SlowGelu:
    """gelu as it is written, but for one of the calls in a pass of so many blocks."""

    def __init__(self, blocks, slow, seconds=SECONDS):
        self.blocks, self.slow, self.seconds, self.calls = blocks, slow, seconds, 0

    def erf(self, x):
        number, self.calls = self.calls, self.calls + 1
        slow = number % self.blocks == self.slow
        return slow_erf(x, self.seconds) if slow else torch.erf(x)

    def __call__(self, x):
        return 0.5 * x * (1 + self.erf(x / math.sqrt(2)))
