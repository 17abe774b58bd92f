"""PyTorch's profiler over a labelled run: what the run called, and a trace for Perfetto.

What the profiler adds to each operation is not small, so that its times are shares of the profiled
run, and never the time of a plain one.
"""

import gzip
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from mvgpt.device import sync
from mvgpt.errors import InputError
from mvgpt.files import replacing
from mvgpt.measure.timing import time_call

# Of a trace; the rest tells the host's name and a path.
KEPT = ("schemaVersion", "baseTimeNanoseconds", "deviceProperties", "traceEvents")
WAITING = "until the device is done"  # our span around the wait at the end of a run


def profiled(call: Callable[[], object], label: str, device: torch.device) -> tuple[float, profile]:
    """Run `call` under the profiler inside a span; the seconds it took, and the profiler.

    The device is done before the span begins and before it ends. CUDA's kernels are recorded too;
    for MPS the profiler has no such activity, and the CPU's side is all there is.
    """
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    profiler = profile(activities=activities)
    with quiet_kineto():
        profiler.start()
    try:
        seconds = time_call(partial(labelled, call, label, device), device)
    finally:
        with quiet_kineto():
            profiler.stop()
    return seconds, profiler


def labelled(call: Callable[[], object], label: str, device: torch.device) -> None:
    with record_function(label):
        call()
        if device.type != "cpu":
            with record_function(WAITING):
                sync(device)


@contextmanager
def quiet_kineto() -> Iterator[None]:
    """Pass on what the block writes to stderr, but for the lines that kineto calls USDT."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            for line in file:
                if not line.startswith(b"USDT:"):
                    os.write(2, line)


def find_span(events: list, label: str) -> Any:
    """The CPU's event of our span with that label."""
    return next(e for e in events if e.name == label and e.device_type == DeviceType.CPU)


def direct(event: Any) -> Iterator[Any]:
    """What the run called itself: the events below `event`, looking through its spans.

    The span around our own wait at its end is an event like those, though no operation.
    """
    for child in event.cpu_children:
        if child.is_user_annotation and child.name != WAITING:
            yield from direct(child)
        else:
            yield child


def summary(events: list, label: str) -> dict:
    """The direct operations of a labelled run, the slowest first, and the share outside of them.

    Milliseconds and shares are of the profiled run, on the CPU's side. Where the device has
    kernels, their own milliseconds stand beside. The shares and `outside` add up to 1.
    """
    span, kernels = find_span(events, label), find_kernels(events)
    total = span.time_range.elapsed_us()
    calls = defaultdict(list)
    for event in direct(span):
        calls[event.name].append(event)
    operations = [operation(name, calls[name], total, bool(kernels)) for name in calls]
    result = {
        "calls": sum(row["calls"] for row in operations if row["name"] != WAITING),
        "profiled_milliseconds": total / 1e3,
        "operations": sorted(operations, key=lambda row: row["share"], reverse=True),
        "outside": 1 - sum(row["share"] for row in operations),
    }
    if kernels:
        result["kernels"] = len(kernels)
        result["device_milliseconds"] = sum(k.time_range.elapsed_us() for k in kernels) / 1e3
        result["waits"] = sum(waits(e) for e in direct(span) if e.name != WAITING)
    return result


def operation(name: str, events: list, total: float, kernels: bool) -> dict:
    """All calls of one operation, in a run of `total` microseconds."""
    microseconds = sum(event.time_range.elapsed_us() for event in events)
    row = {
        "name": name,
        "calls": len(events),
        "profiled_milliseconds": microseconds / 1e3,
        "share": microseconds / total,
        "waits": any(map(waits, events)),
    }
    if kernels:
        row["device_milliseconds"] = sum(event.device_time_total for event in events) / 1e3
    return row


def waits(event: Any) -> bool:
    """Whether the CPU waited for the device in it: there is a CUDA call that synchronises."""
    return event.name.endswith("Synchronize") or any(map(waits, event.cpu_children))


def find_kernels(events: list) -> list:
    """What ran on the device: kernels and copies, not the spans that are drawn there too."""
    return [e for e in events if e.device_type == DeviceType.CUDA and not e.is_user_annotation]


def need_kernels(events: list, device: torch.device) -> None:
    """On CUDA a profile without kernels is an error, not a row of zeros."""
    if device.type == "cuda" and not find_kernels(events):
        raise InputError(
            "the profiler recorded no CUDA kernels; another profiler may hold the GPU's counters "
            "(only one can), or they may be closed to users: see CUPTI's documentation"
        )


def load_trace(profiler: profile) -> dict:
    """The trace in Chrome's format. A profile can be exported once."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(raw))
        trace = json.loads(raw.read_text(encoding="utf-8"))
    return {key: trace[key] for key in KEPT if key in trace}


def write_trace(trace: dict, path: Path, last_span: str | None = None) -> int:
    """Write the trace as strict, gzipped JSON for Perfetto; return the size in bytes.

    With `last_span` what begins after that span's end is left out.
    """
    if last_span:
        trace = trace | {"traceEvents": cut(trace["traceEvents"], last_span)}
    with replacing(path) as (beside,), gzip.open(beside, "wt", encoding="utf-8") as file:
        json.dump(trace, file, allow_nan=False)
    return path.stat().st_size


def save_trace(profiler: profile, path: Path, last_span: str | None = None) -> int:
    """Both in one, where the trace is wanted for nothing else."""
    return write_trace(load_trace(profiler), path, last_span)


def cut(events: list[dict], last_span: str) -> list[dict]:
    """The trace's events that begin before the end of that span."""
    end = max(e["ts"] + e["dur"] for e in events if e.get("name") == last_span and "dur" in e)
    return [e for e in events if e.get("ph") == "M" or e.get("ts", 0) <= end]
