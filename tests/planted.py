"""Decisions with a known fault, and a clock that they can set."""

import itertools
import random
from unittest.mock import patch

import torch.nn.functional as F

import mvgpt.model
from mvgpt.data import random_ids
from mvgpt.measure.arms import Arm, check, refer
from mvgpt.measure.decisions import DECISIONS, Decision
from mvgpt.measure.reading import Reading

OWN_GELU, OWN_ATTENTION = mvgpt.model.gelu, F.scaled_dot_product_attention
BY_NAME = {decision.name: decision for decision in DECISIONS}
GELU, BY_HAND, COMPILE = "GELU as one operation", "attention by hand", "torch.compile"


class FakeClock:
    """A millisecond between two looks at it, and a little noise."""

    def __init__(self, noise=0.002):
        self.now, self.noise, self.random = 0.0, noise, random.Random(0)

    def __call__(self):
        self.now += 0.001 * (1 + self.noise * self.random.random())
        return self.now


def planted(name, target, function):
    return Decision(name, lambda model: [patch(target, function)])


def taking(clock, seconds, function):
    """The function, during which the fake clock goes on by that much."""

    def slowly(*args, **options):
        clock.now += seconds
        return function(*args, **options)

    return slowly


def failing(after=0, message="planted"):
    """A gelu that fails, once it has been called that often."""
    calls = itertools.count()

    def gelu(x):
        if next(calls) >= after:
            raise RuntimeError(message)
        return OWN_GELU(x)

    return gelu


class Cold:
    """A patch that leaves all as it is, but for a slow first pass or token after each entering."""

    def __init__(self, clock):
        self.patch, self.clock = patch("mvgpt.model.gelu", self.gelu), clock

    def gelu(self, x):
        self.clock.now += 0.001 * self.cold
        self.cold = False
        return OWN_GELU(x)

    def __enter__(self):
        self.cold = True
        self.patch.start()

    def __exit__(self, *exception):
        self.patch.stop()


def without_mask(q, k, v, attn_mask=None, is_causal=False):
    return OWN_ATTENTION(q, k, v)


def checked(decision, model):
    reading = Reading(model, random_ids(300, 32, 0))
    arm = Arm(decision)
    check(arm, reading, refer(reading))
    return arm
