"""Decisions in the model's code, and what else could stand there: each a set of patches.

model.py runs as it stands, with functions swapped where it looks them up, and has its own back
when the block ends, whatever happened in it:

    with applied(decision.patches(model)):
        model(ids)
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import torch
import torch.nn.functional as F

from mvgpt import GPT

BASE, AGAIN = "as written", "as written, again"  # what others are compared to; the A/A arm
Patches = Sequence[AbstractContextManager]


@dataclass(frozen=True)
class Decision:
    """A name, and a function that makes the patches for a model; they can be entered often.

    `patches` raises NotHere, with the reason, where the decision does not concern the model. One
    that `compiles` is about the pass alone, and compiles in the first call after its patches.
    """

    name: str
    patches: Callable[[GPT], Patches]
    compiles: bool = False


class NotHere(Exception):
    """Why a decision cannot be measured on this model or on this machine."""


@contextmanager
def applied(patches: Patches) -> Iterator[None]:
    """The model as the decision would have it, for as long as the block runs."""
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


def as_written(model: GPT) -> Patches:
    return []


def gelu_as_one_operation(model: GPT) -> Patches:
    """PyTorch's own exact GELU in place of the five operations that write it out."""
    activation = model.config.activation_function
    if activation != "gelu":
        raise NotHere(f"the model's activation is {activation}, which is one operation as written")
    return [patch("mvgpt.model.gelu", F.gelu)]


def attention_by_hand(model: GPT) -> Patches:
    return [patch("mvgpt.model.F.scaled_dot_product_attention", attention)]


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    is_causal: bool = False,
) -> torch.Tensor:
    """softmax(q k^T / sqrt(d)) v (Vaswani et al. 2017), for the arguments that model.py passes.

    q (B, H, T, d), k and v (B, H, P + T, d) -> (B, H, T, d). `attn_mask` (T, P + T) is True where
    a token may look; `is_causal` lets each look at itself and at those before it, where P is 0.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, P + T)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    return scores.softmax(-1) @ v  # (B, H, T, d)


def compiled_pass(model: GPT) -> Patches:
    """The whole pass as one compiled graph, for its length alone."""
    torch.compiler.reset()  # what was compiled before would be used again, and not be compiled
    forward = torch.compile(model.forward, fullgraph=True, dynamic=False)
    return [patch.object(model, "forward", forward)]


def compiled_graphs() -> int:
    """How many graphs torch.compile has compiled in this process so far."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


DECISIONS = (
    Decision(BASE, as_written),
    Decision(AGAIN, as_written),
    Decision("GELU as one operation", gelu_as_one_operation),
    Decision("attention by hand", attention_by_hand),
    Decision("torch.compile", compiled_pass, compiles=True),
)
