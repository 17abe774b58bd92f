"""A pass as torch.export's graph: its operations, where each stands in the code, and its time.

So is the step of one token with the KV cache: a Step, the model as a module that takes tensors.
"""

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node
from torch.fx.proxy import TracerBase
from torch.profiler import record_function

from mvgpt import GPT, KVCache
from mvgpt.data import random_ids
from mvgpt.errors import InputError
from mvgpt.measure.conditions import ROOT
from mvgpt.measure.timing import time_result

FRAME = re.compile(r'File "(.+)", line (\d+)')  # of a stack trace
CPU = torch.device("cpu")


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """The model in eval mode; afterwards each of its modules is in the mode it was found in."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, training in modes:
            module.training = training


class Step(torch.nn.Module):
    """The model's step for a token with the KV cache; export takes no cache, but its tensors."""

    def __init__(self, model: GPT):
        super().__init__()
        self.model = model

    def forward(
        self, ids: torch.Tensor, keys: list[torch.Tensor], values: list[torch.Tensor]
    ) -> torch.Tensor:
        """ids (B, 1), and of each block (B, H, P, C/H) or, for P = 0, none -> logits (B, 1, V)"""
        cache = KVCache(len(self.model.h))
        if keys:
            cache.keys, cache.values, cache.position = list(keys), list(values), keys[0].size(2)
        return self.model(ids, cache)


def pass_inputs(model: GPT, tokens: int, seed: int, batch: int = 1) -> tuple[torch.Tensor]:
    """Random ids (batch, tokens), on the model's device."""
    ids = random_ids(model.config.vocab_size, batch * tokens, seed).view(batch, tokens)
    return (ids.to(model.wte.weight.device),)


def step_inputs(model: GPT, position: int, seed: int, batch: int = 1) -> tuple:
    """Random ids, keys and values for a token that sees `position` tokens, itself included."""
    c, past = model.config, position - 1
    if position > c.n_positions:
        raise InputError(f"{position} tokens do not fit the window of {c.n_positions}")
    (ids,) = pass_inputs(model, 1, seed, batch)
    shape = (2, c.n_layer if past else 0, batch, c.n_head, past, c.n_embd // c.n_head)
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(shape, generator=generator).to(model.wte.weight)
    return ids, list(keys), list(values)


def shrunken(model: GPT) -> GPT:
    """The model's twin: the same operations on a channel a head, with almost no work in them."""
    c = model.config
    config = replace(c, n_embd=c.n_head, vocab_size=2, n_positions=2)
    return GPT(config).to(model.wte.weight).eval()


def export_pass(model: torch.nn.Module, *args: Any) -> ExportedProgram:
    """The graph of a call in eval mode with `args`, ids (B, T) for a GPT, for their shapes alone.

    torch notes where an operation was called, but only in functions named `forward`; that they
    are kept for all code of the repository tells a line of gelu from the line that calls it. The
    method is private: where a torch has none of that name, the lines are those of `forward`.
    """
    ours = patch.object(TracerBase, "_filter_traceback_frames", our_frames, create=True)
    with evaluating(model), ours:
        return torch.export.export(model, args)


def our_frames(_: TracerBase, frames: traceback.StackSummary) -> traceback.StackSummary:
    return traceback.StackSummary.from_list([f for f in frames if repository_path(f.filename)])


def repository_path(file: str) -> str | None:
    """Its path from the repository's top, "mvgpt/model.py"; None for other code."""
    path = Path(file)
    if not path.is_relative_to(ROOT) or "site-packages" in path.relative_to(ROOT).parts:
        return None
    return path.relative_to(ROOT).as_posix()


def operations(exported: ExportedProgram) -> list[Node]:
    """The nodes that compute something, in the order in which they run."""
    return [node for node in exported.graph.nodes if node.op == "call_function"]


def describe_node(node: Node) -> dict[str, str | None]:
    """Its name, its operation as the profiler calls it, and where it stands in model and code.

    The module is its path in the model, "h.0.mlp", and "" for the model itself. The source is
    the innermost line of the repository, "mvgpt/model.py:41", or None.
    """
    schema = getattr(node.target, "_schema", None)
    modules = list(node.meta.get("nn_module_stack", {}).values())
    frames = FRAME.findall(node.stack_trace or "")
    lines = [f"{ours}:{line}" for file, line in frames if (ours := repository_path(file))]
    return {
        "name": node.name,
        "operation": schema.name if schema else str(node.target),
        "module": re.sub(r"^model(\.|$)", "", modules[-1][0]) if modules else "",  # of a Step
        "source": lines[-1] if lines else None,
    }


class NodeClock(Interpreter):
    """Runs a graph a node at a time; `seconds` are those of each operation in the last run.

    The clock stands around the operation alone: around `run_node`, which looks up arguments and
    files the result, small operations would seem twice as slow as they are. The span around the
    clock is for a trace.
    """

    def __init__(self, exported: ExportedProgram):
        super().__init__(exported.module())
        self.seconds: dict[str, float] = {}
        self.name = ""  # of the node that runs

    @torch.no_grad()
    def run(self, *args: Any) -> Any:
        return super().run(*args)

    def run_node(self, n: Node) -> Any:
        self.name = n.name
        return super().run_node(n)

    def call_function(self, target: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        with record_function(self.name):
            result, self.seconds[self.name] = time_result(target, args, kwargs)
        return result
