"""What the profiler records, on a tiny model, and on written events of a GPU."""

import gzip
import json
from types import SimpleNamespace

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import record_function

from mvgpt.errors import InputError
from mvgpt.measure.trace import (
    WAITING,
    direct,
    find_span,
    load_trace,
    need_kernels,
    profiled,
    quiet_kineto,
    save_trace,
    summary,
    write_trace,
)

CPU = torch.device("cpu")


@pytest.fixture
def one_pass(model):
    ids = torch.zeros(1, 32, dtype=torch.int64)

    @torch.no_grad()
    def call():
        for number in range(3):
            with record_function(f"part {number}"):
                model(ids)

    return call


def test_direct_operations_and_outside_add_up(one_pass):
    seconds, profiler = profiled(one_pass, "run", CPU)
    found = summary(profiler.events(), "run")
    shares = [operation["share"] for operation in found["operations"]]
    assert sum(shares) + found["outside"] == pytest.approx(1, abs=1e-9)
    assert shares == sorted(shares, reverse=True)
    assert all(share > 0 for share in shares)
    assert 0 < found["outside"] < 1
    assert 0.3 * seconds < found["profiled_milliseconds"] / 1000 <= seconds
    in_operations = sum(o["profiled_milliseconds"] for o in found["operations"])
    assert in_operations == pytest.approx((1 - found["outside"]) * found["profiled_milliseconds"])


def test_spans_are_looked_through_and_inner_operations_not_counted_twice(one_pass):
    _, profiler = profiled(one_pass, "run", CPU)
    found = summary(profiler.events(), "run")
    calls = {operation["name"]: operation["calls"] for operation in found["operations"]}
    assert calls["aten::linear"] == 3 * 13  # 6 a block, and the head
    assert "aten::addmm" not in calls
    assert not any(name.startswith("part") for name in calls)
    assert found["calls"] == sum(calls.values()) == 3 * 59
    assert "kernels" not in found
    assert not any(operation["waits"] for operation in found["operations"])
    assert all("device_milliseconds" not in operation for operation in found["operations"])


def test_a_saved_trace_is_strict_json_whose_spans_nest(one_pass, tmp_path):
    _, profiler = profiled(one_pass, 'a "run" in C:\\tmp\\new\t😀', CPU)
    path = tmp_path / "é x" / "trace.json.gz"
    path.parent.mkdir()
    size = save_trace(profiler, path)
    assert 0 < size == path.stat().st_size < 1e6
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trace = json.load(file, strict=True)
    assert set(trace) <= {"schemaVersion", "baseTimeNanoseconds", "deviceProperties", "traceEvents"}
    spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in trace["traceEvents"]
                   if e.get("cat") in ("user_annotation", "cpu_op"))  # fmt: skip
    open_until = []
    for start, end in spans:
        while open_until and open_until[-1] <= start:
            open_until.pop()
        assert not open_until or end <= open_until[-1] + 1e-3
        open_until.append(end)
    assert len(spans) > 100


def test_a_long_trace_is_cut_after_a_span(one_pass, tmp_path):
    _, profiler = profiled(one_pass, "run", CPU)
    save_trace(profiler, tmp_path / "t.json.gz", "part 1")
    with gzip.open(tmp_path / "t.json.gz", "rt", encoding="utf-8") as file:
        names = [event["name"] for event in json.load(file)["traceEvents"]]
    assert names.count("aten::linear") == 2 * 13
    assert "part 2" not in names


def test_a_trace_is_loaded_once_and_written_as_often_as_needed(one_pass, tmp_path):
    trace = load_trace(profiled(one_pass, "run", CPU)[1])
    for name, last in (("cut", "part 0"), ("whole", None)):
        write_trace(trace, tmp_path / name, last)
    with gzip.open(tmp_path / "whole", "rt", encoding="utf-8") as file:
        assert json.load(file) == trace
    assert (tmp_path / "cut").stat().st_size < (tmp_path / "whole").stat().st_size


def test_what_else_is_written_to_stderr_passes(capfd):
    import os

    with quiet_kineto():
        os.write(2, b"USDT: noise\nan error\n")
    assert capfd.readouterr().err == "an error\n"


def event(name, us, children=(), kernels=0.0, device=DeviceType.CPU, span=False):
    return SimpleNamespace(
        name=name,
        cpu_children=list(children),
        time_range=SimpleNamespace(elapsed_us=lambda: us),
        device_time_total=kernels,
        device_type=device,
        is_user_annotation=span,
    )


@pytest.fixture
def gpu():
    """A run of 100 us: 60 of them wait for the 70 us that two kernels take."""
    launch, wait = event("cudaLaunchKernel", 5), event("cudaStreamSynchronize", 50)
    linear = event("aten::linear", 20, [event("aten::addmm", 18, [launch], 65.0)], 65.0)
    item = event("aten::item", 55, [event("aten::_local_scalar_dense", 54, [wait])], 5.0)
    last = event(WAITING, 5, [event("cudaDeviceSynchronize", 5)], span=True)
    span = event("run", 100, [event("token 1", 90, [linear, item], span=True), last], span=True)
    on_device = {"device": DeviceType.CUDA}
    before = event("cudaDeviceSynchronize", 1)  # the clock's own
    return [span, linear, launch, item, wait, last, before,
            event("run", 80, span=True, **on_device), event("gemm", 65, **on_device),
            event("Memcpy DtoH", 5, **on_device)]  # fmt: skip


def test_kernels_stand_beside_the_cpus_time(gpu):
    found = summary(gpu, "run")
    rows = {operation["name"]: operation for operation in found["operations"]}
    assert list(rows) == ["aten::item", "aten::linear", WAITING]
    assert found["calls"] == 2
    assert rows["aten::linear"]["device_milliseconds"] == 0.065
    assert [rows[name]["waits"] for name in rows] == [True, False, True]
    assert found["kernels"] == 2
    assert found["device_milliseconds"] == 0.07
    assert found["waits"] == 1  # our own at the end is none of the run's
    assert found["outside"] == pytest.approx(0.2)


def test_no_kernels_on_a_gpu_is_an_error(gpu):
    need_kernels(gpu, torch.device("cuda"))
    need_kernels(gpu[:7], CPU)
    with pytest.raises(InputError, match="no CUDA kernels"):
        need_kernels(gpu[:8], torch.device("cuda"))


def test_direct_looks_through_spans(gpu):
    names = [child.name for child in direct(find_span(gpu, "run"))]
    assert names == ["aten::linear", "aten::item", WAITING]


@pytest.mark.slow
def test_memory_does_not_grow(one_pass):
    import resource

    peaks = []
    for _ in range(40):
        profiled(one_pass, "run", CPU)[1].events()
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[-1] - peaks[10] < 20_000  # KB, over 30 profiles
