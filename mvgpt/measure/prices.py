"""What the machine's roofs allow each operation: the least time that its cost can take."""

import math
from collections.abc import Sequence

import numpy as np

from mvgpt.measure.costs import Cost, total
from mvgpt.measure.roofs import PATTERNS

SUSPECT = 1.05  # of its roof: no product is as fast, so that its FLOPs must be miscounted


class Roofs:
    """What the measured roofs allow: the milliseconds that a cost takes at best."""

    def __init__(self, found: dict):
        """`found` is the `roofs` of the results."""
        self.peak = found["peak"]["median"]  # GFLOP/s
        self.sizes = [row["megabytes"] for row in found["bandwidth"]]
        self.rates = {pattern: best_from([row[pattern]["median"] for row in found["bandwidth"]])
                      for pattern in PATTERNS}  # fmt: skip
        self.hand_over = found["hand_over"]["microseconds"]["median"] / 1000  # ms an operation

    def compute(self, cost: Cost) -> float:
        """The time of its FLOPs at the peak, in ms."""
        return cost.flops / self.peak / 1e6

    def transfer(self, cost: Cost, standing: int) -> float:
        """The time of its bytes, in ms, at the bandwidth of the size of the data it works on.

        That is its own size, where it works on what the run has just made. What stood before the
        run (a weight, the KV cache) was last read a whole run ago, and so comes from as far as
        all `standing` bytes of the run reach.
        """
        own = cost.bytes
        distance = max(own, standing) if 2 * cost.standing > own else own
        both = 2 * min(cost.read, cost.written)  # each byte read has one that is written
        rest = own - both
        return (both / self.rate("read_write", distance) + rest / self.rate("read", distance)) / 1e6

    def rate(self, pattern: str, size: float) -> float:
        """GB/s at a size in bytes, between the measured ones by its logarithm."""
        return float(np.interp(math.log(max(size, 1) / 1e6), np.log(self.sizes),
                               self.rates[pattern]))  # fmt: skip

    def price(self, cost: Cost, standing: int) -> dict:
        """The node's keys in the results: what it costs, the time that allows, what bounds it.

        `intensity` is in FLOP per byte, null where there is no FLOP. `bound` is null for what
        costs nothing: a view.
        """
        compute, transfer = self.compute(cost), self.transfer(cost, standing)
        return {
            "flops": cost.flops,
            "bytes": cost.bytes,
            "intensity": cost.flops / cost.bytes if cost.flops else None,
            "attainable_milliseconds": max(compute, transfer),
            "bound": ("compute" if compute > transfer else "bandwidth") if cost.bytes else None,
        }


def best_from(rates: Sequence[float]) -> list[float]:
    """Each the largest of itself and those of larger sizes. A small size is measured as slower
    where the call matters more than its bytes: that is no bound on the bytes.
    """
    return np.maximum.accumulate(rates[::-1])[::-1].tolist()


def priced(costs: dict[str, Cost], roofs: Roofs) -> dict[str, dict]:
    """The price of each node of a run, by name."""
    standing = total(costs).standing
    return {name: roofs.price(cost, standing) for name, cost in costs.items()}


def reach(price: dict, milliseconds: dict) -> dict:
    """`share_of_roof`: the time that the roof allows over the one measured (a Spread), null for a
    view; and `suspect`: whether a product is faster than the peak, so that its count is wrong.
    (Bytes may come faster than their roof, from a nearer cache.)
    """
    share = price["attainable_milliseconds"] / milliseconds["median"] if price["bound"] else None
    return {"share_of_roof": share, "suspect": price["bound"] == "compute" and share > SUSPECT}
