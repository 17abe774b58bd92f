"""Verdicts through the code that judges the model: on small programs, and on a tiny model."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from test_roofs import written

from mvgpt.measure import judging
from mvgpt.measure.graph import pass_inputs
from mvgpt.measure.judging import find_kinds, judge_run, middle_step, usable_roofs
from mvgpt.measure.prices import Roofs
from mvgpt.measure.profiling import profile_pass
from mvgpt.measure.roofs import measure_roofs
from mvgpt.measure.timing import run_rounds, spread, time_hand_over
from mvgpt.measure.verdict import BANDWIDTH, COMPUTE, HAND_OVER
from mvgpt.measure.workload import Workload

ROOT = Path(__file__).parents[1]


class Product(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(size, size), requires_grad=False)

    def forward(self, x):
        return x @ self.weight


class Addition(torch.nn.Module):
    def forward(self, x):
        return x.add_(1.0)  # in place: memory that is new to the process costs time of its own


class Additions(torch.nn.Module):
    def forward(self, x):
        for _ in range(2000):
            x = x + 1.0
        return x


def product(size=2048):
    return Workload(Product(size), torch.rand(size, size))


def addition(numbers=64_000_000):
    return Workload(Addition(), torch.zeros(numbers))


def additions():
    return Workload(Additions(), torch.zeros(1))


def judged(workload, twin, roofs):
    """The verdict on a program, by what handing over the operations of its own twin takes."""
    found, trace = profile_pass(workload, "pass", seed=0)
    rounds = run_rounds({"twin": twin.time}, rounds=40)
    seconds = spread([each["twin"] for each in rounds], 1e6 / found["calls"])
    roofs = roofs | {"hand_over": {"microseconds": {"median": seconds.median}}}
    return judge_run(workload, found, trace, "pass", roofs=roofs, seed=0, budget=0.1)


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.parametrize(
    ("workload", "twin", "bound"),
    [
        (product, partial(product, 2), COMPUTE),
        (addition, partial(addition, 1), BANDWIDTH),
        (additions, additions, HAND_OVER),
    ],
)
def test_three_small_programs(model, workload, twin, bound):
    found = judged(workload(), twin(), measure_roofs(model, 0))
    assert found["bound"] == bound, found
    assert 0.6 < found["explained"]["value"] < 1.2


@pytest.mark.slow
@pytest.mark.measures
def test_the_same_verdicts_three_times_in_a_row(stories, tmp_path):
    def run(*command):
        done = subprocess.run([sys.executable, *command, "--device", "cpu", "--out", tmp_path],
                              capture_output=True, text=True, cwd=ROOT)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("bench.py", "roofs")
    bounds, texts = set(), []
    for _ in range(3):
        texts.append(run("profiler.py", "--tokens", "40"))
        found = json.loads((tmp_path / "profiler-cpu.json").read_text(encoding="utf-8"))
        bounds.add((found["pass"]["verdict"]["bound"], found["writing"]["verdict"]["bound"]))
    assert len(bounds) == 1, "\n".join(texts)
    assert None not in bounds.pop()


def profiled(operations):
    """As profile_pass finds it: a pass of 10 ms, of that many operations of a kind."""
    rows = [{"name": name, "calls": calls, "share": share, **more}
            for name, calls, share, more in operations]  # fmt: skip
    return {"calls": sum(row["calls"] for row in rows), "operations": rows,
            "milliseconds": {"median": 10.0, "low": 9.0, "high": 11.0, "n": 20}}  # fmt: skip


def on(device, workload):
    """The workload, said to be on another device than it is."""
    workload.device = SimpleNamespace(type=device)
    return workload


def test_what_the_roofs_allow_is_summed_by_kind(model):
    workload = Workload(model, *pass_inputs(model, 32, 0, 1))
    allowed = workload.allowed(Roofs(written()))
    layers = 2 * 32 * (2 * 12 * 64**2 + 64 * 300)  # FLOPs of all linears
    assert allowed["aten::linear"][COMPUTE] == pytest.approx(layers / 100e6)
    assert allowed["aten::linear"][BANDWIDTH] == 0
    assert allowed["aten::add"][COMPUTE] == 0 < allowed["aten::add"][BANDWIDTH]
    assert allowed["aten::view"] == {COMPUTE: 0, BANDWIDTH: 0}


def test_kinds_take_their_share_of_the_plain_time_or_what_their_kernels_take(model):
    workload = Workload(model, *pass_inputs(model, 32, 0, 1))
    rows = profiled([("aten::linear", 13, 0.6, {}), ("aten::item", 2, 0.1, {})])["operations"]
    kernels = [row | {"device_milliseconds": 6.0} for row in rows]
    find = partial(find_kinds, workload, measured=10.0, runs=2, roofs=Roofs(written()))
    kinds = {kind.name: kind for kind in find(rows)}
    assert kinds["aten::linear"].milliseconds == 6.0
    assert kinds["aten::linear"].calls == 6.5
    assert kinds["aten::item"].compute == kinds["aten::item"].bandwidth == 0
    assert kinds["aten::add"].milliseconds is None  # it was not profiled, and still allowed time
    assert kinds["aten::add"].bandwidth > 0
    on("cuda", workload)
    assert {kind.milliseconds for kind in find(kernels)} == {3.0, None}
    on("mps", workload)
    assert {kind.milliseconds for kind in find(rows)} == {None}


def test_twice_the_batch_and_lighter_compute_the_same(model):
    for workload in Workload(model, *pass_inputs(model, 9, 0, 2)), middle_step(model, 4, 9, 0):
        out, twice, lighter = (w.run() for w in (workload, workload.twice(), workload.lighter()))
        assert torch.allclose(twice, torch.cat((out, out)), atol=1e-5)
        assert lighter.dtype == torch.bfloat16
        assert torch.allclose(lighter.float(), out, atol=0.1)
    assert model.wte.weight.dtype == torch.float32


def test_the_step_is_that_of_the_middle_of_the_text(model):
    workload = middle_step(model, 4, 10, 0)
    ids, keys, values = workload.inputs
    assert ids.shape == (1, 1)
    assert keys[0].size(2) + 1 == 9  # of 5 to 13
    assert middle_step(model, 4, 1, 0) is None


def test_a_verdict_holds_all_that_it_rests_on(model):
    workload = Workload(model, *pass_inputs(model, 32, 0, 1))
    found, trace = profile_pass(workload, "pass", 0)
    verdict = judge_run(workload, found, trace, "pass", roofs=written(), seed=0, budget=0.01)
    ms = verdict["milliseconds"]
    assert ms["measured"] == found["milliseconds"]["median"]
    assert ms["hand-over"] == pytest.approx(59 * 0.005)
    assert verdict["explained"]["value"] == pytest.approx(
        (sum(ms.values()) - ms["measured"]) / ms["measured"]
    )
    assert 0.7 < verdict["test"]["batch"]["value"] < 4
    assert verdict["test"]["bfloat16"]["low"] is not None
    assert "device" not in verdict
    assert "hand_over_ratio" not in verdict
    json.dumps(verdict, allow_nan=False)


def test_without_roofs_or_costs_there_is_a_reason(model, monkeypatch, tmp_path):
    def broken(*args):
        raise RuntimeError("planted\nwith details")

    monkeypatch.setattr(judging, "find_roofs", broken)
    roofs = usable_roofs({}, tmp_path, model)
    assert roofs == {"reason": "RuntimeError: planted"}
    workload = Workload(model, *pass_inputs(model, 32, 0, 1))
    judge = partial(judge_run, workload, profiled([]), {}, "pass", seed=0, budget=0.01)
    assert judge(roofs=roofs) == {"bound": None, "reason": "RuntimeError: planted"}
    monkeypatch.setattr(workload, "allowed", broken)
    assert judge(roofs=written()) == {"bound": None, "reason": "RuntimeError: planted"}


def test_a_device_without_bfloat16_is_not_tested_with_it(model, monkeypatch):
    def refused(self):
        raise TypeError("BFloat16 is not supported")

    monkeypatch.setitem(judging.CHANGES, "bfloat16", refused)
    ratios, reasons = judging.changed(
        Workload(model, *pass_inputs(model, 32, 0, 1)), seed=0, budget=0.01
    )
    assert ratios["bfloat16"] is None
    assert reasons == {"bfloat16": "TypeError: BFloat16 is not supported"}
    assert ratios["batch"]["value"] > 0


def test_handed_over_and_done_are_told_apart(monkeypatch):
    """On a device that works apart: a fake clock, which handing over and the wait move on."""
    now, order = [0.0], []

    def call():
        order.append("call")
        now[0] += 1

    def sync(device=None):
        order.append("sync")
        now[0] += 3

    monkeypatch.setattr(torch.mps, "synchronize", sync)
    found = time_hand_over(call, torch.device("mps"), lambda: now[0])
    assert found == (1, 4)
    assert order == ["sync", "call", "sync"]


def test_the_hand_over_ratio_of_another_device(model, monkeypatch):
    workload = on("mps", Workload(model, *pass_inputs(model, 32, 0, 1)))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: None)
    found = judging.device_side(workload, profiled([]), {}, "pass")
    assert 0.5 < found["hand_over_ratio"]["median"] <= 1
    assert found["hand_over_ratio"]["n"] == 10
