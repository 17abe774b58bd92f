"""A pass as torch.export's graph: its operations, where each stands in the code, and its time."""

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node
from torch.fx.proxy import TracerBase
from torch.profiler import record_function

from mvgpt import GPT
from mvgpt.measure.conditions import ROOT
from mvgpt.measure.timing import Round, run_rounds, time_call, time_result
from mvgpt.progress import progress

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


def export_pass(model: GPT, ids: torch.Tensor) -> ExportedProgram:
    """The graph of a pass in eval mode over ids (B, T), for that B and T alone.

    torch notes where an operation was called, but only in functions named `forward`; that they
    are kept for all code of the repository tells a line of gelu from the line that calls it. The
    method is private: where a torch has none of that name, the lines are those of `forward`.
    """
    ours = patch.object(TracerBase, "_filter_traceback_frames", our_frames, create=True)
    with evaluating(model), ours:
        return torch.export.export(model, (ids,))


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
        "module": modules[-1][0] if modules else "",
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


def time_nodes(
    model: GPT, clock: NodeClock, ids: torch.Tensor, rounds: int, seed: int
) -> tuple[list[Round], list[dict[str, float]]]:
    """Rounds of the plain pass and of the sum of the nodes, and each node's seconds in each.

    On the CPU, where an operation is done when its call returns. The model must be in eval mode.
    """
    runs = []

    def run_nodes() -> float:
        clock.run(ids)
        runs.append(dict(clock.seconds))
        return sum(clock.seconds.values())

    plain = torch.no_grad()(partial(model, ids))
    cases = {"plain": partial(time_call, plain, CPU), "nodes": run_nodes}
    timed = list(progress(run_rounds(cases, seed=seed, rounds=rounds), "nodes, rounds"))
    return timed, runs[1:]  # without the warm-up's
