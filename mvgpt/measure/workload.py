"""A module on its inputs: to be timed as a whole and by its nodes, priced, and changed."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from mvgpt.measure.costs import node_costs
from mvgpt.measure.graph import NodeClock, describe_node, export_pass, operations
from mvgpt.measure.prices import Roofs, priced
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


class Timed(Workload):
    """A workload on the CPU that runs as it is, and its graph a node at a time.

    `runs` are the seconds of each node, run by run: an operation is done when its call returns.
    """

    def __init__(self, module: torch.nn.Module, *inputs: Any):
        super().__init__(module, *inputs)
        self.exported = export_pass(module, *inputs)
        self.clock = NodeClock(self.exported)
        self.runs: list[dict[str, float]] = []

    def time_nodes(self) -> float:
        """The sum of the nodes' seconds in a run, which is added to `runs`."""
        self.clock.run(*self.inputs)
        self.runs.append(dict(self.clock.seconds))
        return sum(self.clock.seconds.values())
