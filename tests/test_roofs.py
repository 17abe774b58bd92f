"""The machine's roofs, and the time that they allow."""

import copy
import json
import sys

import pytest
import torch

import bench
from mvgpt import GPT, GPTConfig
from mvgpt.bench import roofs as mode
from mvgpt.data import random_ids
from mvgpt.measure import roofs
from mvgpt.measure.costs import Cost, node_costs
from mvgpt.measure.prices import Roofs, priced, reach
from mvgpt.measure.roofs import find_roofs, measure_roofs, net
from mvgpt.measure.workload import Timed


def certain(value):
    return {"median": value, "low": value, "high": value, "n": 12}


def written():
    """Roofs of 100 GFLOP/s, of 100 GB/s near and 10 GB/s far, twice that with writing."""
    return {
        "products": [{"shape": [1, 1, 1], "gflops": certain(100.0)}],
        "peak": certain(100.0),
        "bandwidth": [
            {"megabytes": size, "read": certain(rate), "read_write": certain(2 * rate)}
            for size, rate in ((1, 100.0), (100, 10.0))
        ],
        "hand_over": {"operations": 10, "microseconds": certain(5.0)},
        "from": "this run",
    }


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(roofs, "MEGABYTES", (0.1, 1))
    monkeypatch.setattr(roofs, "squares", lambda device: [(64, 64, 64)])


def test_compute_and_hand_over():
    found = Roofs(written())
    assert found.compute(Cost(10**9, 0, 0, 0)) == pytest.approx(10)
    assert found.hand_over == pytest.approx(0.005)


def test_bytes_come_from_as_far_as_their_data_reach():
    found = Roofs(written())
    near = Cost(0, read=10**6, written=0, standing=0)
    assert found.transfer(near, 10**8) == pytest.approx(0.01)  # 1 MB at 100 GB/s
    weights = Cost(0, read=10**6, written=0, standing=10**6)
    assert found.transfer(weights, 10**8) == pytest.approx(0.1)  # at 10
    assert found.transfer(weights, 10**6) == pytest.approx(0.01)
    both = Cost(0, read=3 * 10**5, written=10**5, standing=0)  # 0.2 MB at 200, 0.2 at 100
    assert found.transfer(both, 0) == pytest.approx(0.003)
    assert found.rate("read", 10**7) == pytest.approx(55)  # half-way by the logarithm
    assert found.rate("read", 10**12) == 10


def test_prices_and_reach():
    found = Roofs(written())
    price = found.price(Cost(10**9, 10**6, 0, 0), 0)
    assert price == {"flops": 10**9, "bytes": 10**6, "intensity": 1000.0,
                     "attainable_milliseconds": pytest.approx(10), "bound": "compute"}  # fmt: skip
    assert reach(price, {"median": 20}) == {"share_of_roof": pytest.approx(0.5), "suspect": False}
    assert reach(price, {"median": 9})["suspect"]
    moving = found.price(Cost(0, 10**6, 0, 0), 0)
    assert (moving["bound"], moving["intensity"]) == ("bandwidth", None)
    assert not reach(moving, {"median": 0.001})["suspect"]  # only a product's count can be off
    view = found.price(Cost(0, 0, 0, 0), 0)
    assert (view["bound"], view["attainable_milliseconds"]) == (None, 0)
    assert reach(view, {"median": 1}) == {"share_of_roof": None, "suspect": False}


def test_a_call_is_taken_off_on_the_cpu():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert net(3.0, 1.0, cpu) == 2.0
    assert net(3.0, 1.0, cuda) == 3.0  # there it runs while the device is busy with the one before
    assert net(1.0, 1.5, cpu) == 0.1


def test_roofs_are_measured(model, small):
    found = measure_roofs(model, seed=0)
    assert [row["shape"] for row in found["products"]] == [
        [32, 64, 64], [32, 64, 256], [32, 256, 64], [32, 64, 300], [64, 64, 64],
    ]  # fmt: skip
    assert found["peak"]["median"] == max(row["gflops"]["median"] for row in found["products"])
    assert [row["megabytes"] for row in found["bandwidth"]] == [0.1, 1]
    assert found["hand_over"]["operations"] == 59
    spreads = [found["peak"], found["hand_over"]["microseconds"], found["bandwidth"][0]["read"]]
    assert all(0 < spread["low"] <= spread["median"] <= spread["high"] for spread in spreads)
    json.dumps(found, allow_nan=False)


def test_other_shapes(model, small):
    assert [row["shape"] for row in measure_roofs(model, 0, [(8, 8, 8)])["products"]] == [[8, 8, 8]]


def results(**changes):
    """The head of a results file."""
    conditions = {"machine": "m", "device": "cpu", "threads": 2, "usable_cores": 2, "seed": 0,
                  "dtype": "float32", "torch": "2.13.0", "load_average": 1.0}  # fmt: skip
    return {"conditions": {**conditions, **changes}, "model": {"name": "a", "n_embd": 64}}


@pytest.mark.parametrize(
    ("change", "used"),
    [
        ({"load_average": 0.5, "seed": 3}, True),
        ({"machine": "another"}, False),
        ({"threads": 1}, False),
        ({"dtype": "bfloat16"}, False),
        ({"torch": "2.11.0"}, False),
    ],
)
def test_a_file_is_used_again_where_the_conditions_match(change, used, tmp_path, monkeypatch):
    monkeypatch.setattr(roofs, "measure_roofs", lambda *args: {"from": "this run"})
    text = json.dumps({**results(), "roofs": written()})
    (tmp_path / "bench-roofs-cpu.json").write_text(text, encoding="utf-8")
    found = find_roofs(results(**change), tmp_path, model=None)
    assert found["from"] == ("bench-roofs-cpu.json" if used else "this run")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("peak", "median"), 0),
        (("peak", "median"), "fast"),
        (("peak", "median"), 1e300),
        (("hand_over", "microseconds", "median"), -5),
        (("hand_over", "microseconds", "median"), float("nan")),
        (("bandwidth", 0, "megabytes"), 0),
        (("bandwidth", 1, "read", "median"), 0),
        (("bandwidth",), []),
    ],
)
def test_roofs_that_no_machine_has_are_measured_anew(place, value, tmp_path, monkeypatch):
    monkeypatch.setattr(roofs, "measure_roofs", lambda *args: {"from": "this run"})
    file = {**results(), "roofs": written()}
    part = file["roofs"]
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    (tmp_path / "bench-roofs-cpu.json").write_text(json.dumps(file), encoding="utf-8")
    assert find_roofs(results(), tmp_path, model=None) == {"from": "this run"}


@pytest.mark.parametrize("text", [None, "", "{}", '{"conditions": 3, "model": []}'])
def test_where_there_is_no_such_file_they_are_measured(text, tmp_path, monkeypatch):
    monkeypatch.setattr(roofs, "measure_roofs", lambda *args: {"from": "this run"})
    if text is not None:
        (tmp_path / "bench-roofs-cpu.json").write_text(text, encoding="utf-8")
    assert find_roofs(results(), tmp_path, model=None) == {"from": "this run"}


def test_another_model_has_other_roofs():
    other = copy.deepcopy(results())
    other["model"]["name"] = "b"
    assert roofs.described(other) == roofs.described(results())
    other["model"]["n_embd"] = 128
    assert roofs.described(other) != roofs.described(results())


def test_render():
    head = {"machine": "m", "device": "cpu", "threads": 1, "usable_cores": 2, "dtype": "float32",
            "torch": "2.13.0", "load_average": None}  # fmt: skip
    printed = mode.render({"conditions": head, "roofs": written()})
    assert "the peak: 100" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_the_mode_writes_and_prints(checkpoint, small, tmp_path, monkeypatch, capsys):
    command = ["bench.py", "roofs", str(checkpoint), "--out", str(tmp_path), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", command)
    bench.main()
    found = json.loads((tmp_path / "bench-roofs-cpu.json").read_text(encoding="utf-8"))
    assert found["script"] == "bench"
    printed = capsys.readouterr().out
    assert printed.startswith(mode.render(found))
    assert printed.endswith("bench-roofs-cpu.json\n")
    assert find_roofs(found, tmp_path, model=None)["from"] == "bench-roofs-cpu.json"


@pytest.mark.measures
@pytest.mark.slow
def test_a_product_reaches_the_roof_and_no_node_is_above_its_own():
    model = GPT(GPTConfig()).eval()
    cases = [*roofs.own_shapes(model), (1024, 1024, 1024), (2048, 2048, 2048)]
    found = measure_roofs(model, seed=0, shapes=cases)
    *others, largest = (row["gflops"]["median"] for row in found["products"])
    assert 0.75 <= largest / max(others) <= 1.05
    ids = random_ids(10_000, 256, seed=0)
    timed = Timed(model, ids)
    prices = priced(node_costs(timed.exported, ids), Roofs(measure_roofs(model, seed=0)))
    for _ in range(21):
        timed.time_nodes()
    for name, price in prices.items():
        times = sorted(run[name] for run in timed.runs)
        assert not reach(price, {"median": 1000 * times[10]})["suspect"], name
