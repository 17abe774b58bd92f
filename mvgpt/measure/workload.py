"""What a verdict is about: a module on its inputs, to be timed, priced, and changed to test it."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from mvgpt import GPT
from mvgpt.data import random_ids
from mvgpt.measure.costs import node_costs
from mvgpt.measure.graph import describe_node, export_pass, operations
from mvgpt.measure.roofs import Roofs, priced
from mvgpt.measure.timing import time_call
from mvgpt.measure.verdict import BANDWIDTH, COMPUTE


class Workload:
    """A module in eval mode and its inputs: tensors, batch first, or lists of them."""

    def __init__(self, module: torch.nn.Module, *inputs: Any):
        self.module, self.inputs = module, inputs
        self.device = inputs[0].device

    @torch.no_grad()
    def run(self) -> Any:
        return self.module(*self.inputs)

    def time(self) -> float:
        """The seconds of one run."""
        return time_call(self.run, self.device)

    def twice(self) -> "Workload":
        """The same with twice the batch: the same weights, and each row twice."""
        return Workload(self.module, *each(lambda t: torch.cat((t, t)), self.inputs))

    def lighter(self) -> "Workload":
        """The same in bfloat16: weights and inputs of half the bytes, if they were float32."""
        module = copy.deepcopy(self.module).bfloat16()
        return Workload(module, *each(lambda t: t.bfloat16() if t.is_floating_point() else t,
                                      self.inputs))  # fmt: skip

    def allowed(self, roofs: Roofs) -> dict[str, dict[str, float]]:
        """What the roofs allow each kind of operation: milliseconds by what bounds it.

        `{"aten::linear": {"compute": 40.1, "bandwidth": 0.0}}`, summed over the nodes.
        """
        exported = export_pass(self.module, *self.inputs)
        prices = priced(node_costs(exported, *self.inputs), roofs)
        kinds = {}
        for node in operations(exported):
            price = prices[node.name]
            kind = kinds.setdefault(describe_node(node)["operation"], {COMPUTE: 0, BANDWIDTH: 0})
            kind[price["bound"] or BANDWIDTH] += price["attainable_milliseconds"]
        return kinds


def each(change: Callable[[torch.Tensor], torch.Tensor], inputs: Any) -> Any:
    """The inputs with every tensor changed."""
    if isinstance(inputs, torch.Tensor):
        return change(inputs)
    return [each(change, value) for value in inputs]


def random_pass(model: GPT, batch: int, tokens: int, seed: int) -> Workload:
    """A pass over random ids (batch, tokens)."""
    ids = random_ids(model.config.vocab_size, batch * tokens, seed).view(batch, tokens)
    return Workload(model, ids.to(model.wte.weight.device))
