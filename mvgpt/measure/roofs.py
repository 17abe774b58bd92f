"""The machine's roofs: how fast it multiplies, moves bytes, and hands over operations, at best.

Measured in a few seconds, never looked up (Williams et al. 2009, "Roofline"): what a data sheet
promises is not what PyTorch reaches on so many threads. Data in a cache is read several times
faster than from memory, so that there is a bandwidth for each size of the data worked on.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F

from mvgpt import GPT
from mvgpt.errors import InputError
from mvgpt.files import read_json
from mvgpt.measure.graph import export_pass, operations, shrunken
from mvgpt.measure.timing import Round, as_json, run_rounds, spread, time_call
from mvgpt.progress import progress

MEGABYTES = (0.4, 1.6, 6, 58, 230)
PATTERNS = {"read": torch.Tensor.sum, "read_write": partial(torch.Tensor.add_, other=1)}
ROUNDS = 12
LEAST = 100e6  # bytes that a sample moves, so that the clock's own time does not matter
TWINS = 20  # passes of the twin in a sample
MOST = 200  # calls of a sample
WARM = 4  # calls before a sample
IN_A_ROW = 20  # calls of a sample on a device that works apart: it waits for the last alone
ALIKE = ("machine", "device", "threads", "usable_cores", "dtype", "torch")  # to be used again
Shape = tuple[int, int, int]  # M, K, N: a product of (M, K) and (K, N)


def find_roofs(results: dict, out: Path, model: GPT) -> dict:
    """The `roofs` that bench.py wrote under the conditions of these results, or new ones."""
    path = out / f"bench-roofs-{results['conditions']['device']}.json"
    try:
        found = read_json(path)
        if described(found) == described(results) and usable(found["roofs"]):
            return {**found["roofs"], "from": path.name}
    except (InputError, KeyError, TypeError):  # none yet, or not one that can be used
        pass
    return measure_roofs(model, results["conditions"]["seed"])


def usable(roofs: dict) -> bool:
    """Whether a file's roofs are all there, and numbers as a machine may have them."""
    rows = roofs["bandwidth"]
    rates = [row[pattern]["median"] for row in rows for pattern in PATTERNS]
    sizes = [row["megabytes"] for row in rows]
    numbers = [roofs["peak"]["median"], roofs["hand_over"]["microseconds"]["median"], *rates]
    in_order = sizes and sizes == sorted(sizes)
    return bool(in_order) and all(1e-3 < number < 1e9 for number in numbers + sizes)


def described(results: dict) -> list:
    """What roofs depend on: the conditions, and the model but for its name."""
    return [{**results["model"], "name": None}, *(results["conditions"][key] for key in ALIKE)]


def measure_roofs(model: GPT, seed: int, shapes: Sequence[Shape] = ()) -> dict:
    """The `roofs` of the results, measured in turns on the model's device and in its dtype.

    GFLOP/s of products, of other `shapes` than the usual where they are given; GB/s net of what
    the call itself takes (on the CPU, where it can be told apart); microseconds an operation.
    """
    weight = model.wte.weight
    shapes = list(shapes) or [*own_shapes(model), *squares(weight.device)]
    cases = {shape: product(weight, *shape) for shape in shapes}
    for megabytes in (0, *MEGABYTES):
        data = weight.new_zeros(max(1, round(megabytes * 1e6 / weight.element_size())))
        for pattern, call in PATTERNS.items():
            cases[pattern, megabytes] = repeated(partial(call, data), data.nbytes, data.device)
    twin, ids = shrunken(model), torch.zeros(1, 2, dtype=torch.int64, device=weight.device)
    cases["twin"] = repeated(partial(twin, ids), LEAST / TWINS, weight.device)
    rounds = list(progress(run_rounds(cases, seed=seed, rounds=ROUNDS), "roofs, rounds"))
    products = [{"shape": list(shape), "gflops": gflops(rounds, shape)} for shape in shapes]
    return {
        "products": products,
        "peak": max((row["gflops"] for row in products), key=lambda found: found["median"]),
        "bandwidth": [bandwidth(rounds, megabytes, weight.device) for megabytes in MEGABYTES],
        "hand_over": hand_over(rounds, len(operations(export_pass(twin, ids)))),
        "from": "this run",
    }


def own_shapes(model: GPT) -> list[Shape]:
    """The products of the model's own pass."""
    c = model.config
    T, C, V = c.n_positions, c.n_embd, c.vocab_size
    return [(T, C, C), (T, C, 4 * C), (T, 4 * C, C), (T, C, V)]


def squares(device: torch.device) -> list[Shape]:
    """Products large enough to fill the device."""
    sizes = (512, 1024, 1536) if device.type == "cpu" else (2048, 4096, 8192)
    return [(n, n, n) for n in sizes]


def product(weight: torch.Tensor, M: int, K: int, N: int) -> Callable[[], float]:
    """x (M, K) and weights (N, K), as the model's layers hold them."""
    x, weights = weight.new_empty(M, K).normal_(), weight.new_empty(N, K).normal_()
    return repeated(partial(F.linear, x, weights), 4 * weights.nbytes, weight.device)


def repeated(call: Callable[[], object], size: int, device: torch.device) -> Callable[[], float]:
    """A case that calls several times, the more the fewer bytes, and gives the mean seconds.

    The calls before them bring the data as near as it comes: other cases have driven it away,
    and a cache may take several to hold it again.
    """
    calls = max(1 if device.type == "cpu" else IN_A_ROW, round(LEAST / max(size, LEAST / MOST)))
    call = torch.no_grad()(call)

    def calling():
        for _ in range(calls):
            call()

    def case() -> float:
        for _ in range(WARM):
            call()
        return time_call(calling, device) / calls

    return case


def gflops(rounds: Sequence[Round], shape: Shape) -> dict:
    M, K, N = shape
    return as_json(spread([2e-9 * M * K * N / seconds[shape] for seconds in rounds]))


def bandwidth(rounds: Sequence[Round], megabytes: float, device: torch.device) -> dict:
    """In GB/s. An addition in place reads what it writes: its bytes count twice."""
    row = {"megabytes": megabytes}
    for pattern, times in (("read", 1), ("read_write", 2)):
        seconds = [net(one[pattern, megabytes], one[pattern, 0], device) for one in rounds]
        row[pattern] = as_json(spread([times * megabytes / 1e3 / each for each in seconds]))
    return row


def net(whole: float, call: float, device: torch.device) -> float:
    """Seconds without those of the call, which noise cannot make nothing of."""
    return max(whole - call, whole / 10) if device.type == "cpu" else whole


def hand_over(rounds: Sequence[Round], count: int) -> dict:
    """What an operation with almost no work takes, on average over the `count` of the twin."""
    samples = [seconds["twin"] / count for seconds in rounds]
    return {"operations": count, "microseconds": as_json(spread(samples, 1e6))}
