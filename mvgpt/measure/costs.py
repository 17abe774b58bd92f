"""What each operation of a graph costs on any machine: its FLOPs, and the bytes that it moves.

FLOPs are those of matrix products and attention, two to a multiplication with its addition, as
torch.utils.flop_counter counts them; what works element by element has none. Bytes are those of
the tensors: each that is read counts once, and what is written once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

aten = torch.ops.aten


def attention_flops(q: Any, k: Any, v: Any, *args: Any, **kwargs: Any) -> int:
    """Of the full grid, masked or not. torch's own counter has none on the CPU and on MPS."""
    return sdpa_flop_count(q, k, v)


COUNTED = {
    aten._scaled_dot_product_flash_attention_for_cpu: attention_flops,
    aten._scaled_dot_product_attention_math_for_mps: attention_flops,
}
PICKED = aten.embedding.default  # reads the rows that it is asked for, and not the whole matrix


@dataclass(frozen=True)
class Cost:
    """What an operation computes and moves. `standing` are those of the bytes read that stood
    before the run: weights, ids, the KV cache. They come from as far as a whole run reaches.
    """

    flops: int
    read: int
    written: int
    standing: int

    @property
    def bytes(self) -> int:
        return self.read + self.written


def node_costs(exported: ExportedProgram, *args: Any) -> dict[str, Cost]:
    """The cost of each node by its name, from one run on `args`."""
    counter = CostCounter(exported)
    counter.run(*args)
    return counter.costs


def total(costs: dict[str, Cost]) -> Cost:
    """The sum over the nodes."""
    keys = ("flops", "read", "written", "standing")
    return Cost(*(sum(getattr(cost, key) for cost in costs.values()) for key in keys))


class CostCounter(Interpreter):
    """Runs a graph, and keeps the cost of each operation."""

    def __init__(self, exported: ExportedProgram):
        super().__init__(exported.module())
        self.costs: dict[str, Cost] = {}

    @torch.no_grad()
    def run(self, *args: Any) -> Any:
        return super().run(*args)

    def run_node(self, n: Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        with FlopCounterMode(display=False, custom_mapping=COUNTED) as flops:
            result = super().run_node(n)
        self.costs[n.name] = self.cost(n, result, flops.get_total_flops())
        return result

    def cost(self, n: Node, result: Any, flops: int) -> Cost:
        """An operation whose result lies in what it was given moves nothing: views, a reshape
        that need not copy, dropout in eval mode. One that changes what it was given does.
        """
        inputs = [(node, self.env[node]) for node in n.all_input_nodes]
        inputs = [(node, t) for node, value in inputs for t in tensors(value)]
        results = tensors(result)
        if not changes_input(n.target) and shares_storage(results, [t for _, t in inputs]):
            return Cost(0, 0, 0, 0)
        written = sum(map(size, results))
        read = {node: written if n.target is PICKED and t.is_floating_point() else size(t)
                for node, t in inputs}  # fmt: skip
        standing = sum(count for node, count in read.items() if node.op != "call_function")
        return Cost(flops, sum(read.values()), written, standing)


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def size(tensor: torch.Tensor) -> int:
    """Its bytes in memory; what is expanded over a dimension stands there once."""
    counts = (n for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return math.prod(counts) * tensor.element_size()


def changes_input(target: Callable) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is not None and schema.is_mutable


def shares_storage(results: list[torch.Tensor], inputs: list[torch.Tensor]) -> bool:
    places = {t.untyped_storage().data_ptr() for t in inputs}
    return any(t.untyped_storage().data_ptr() in places for t in results)
