"""What a trace says of a GPU's time: how busy it was, and what it waited for.

Functions of intervals alone, in microseconds, on the events that torch.profiler exports in Chrome's
trace format.
"""

import math
from bisect import bisect_left
from operator import itemgetter
from statistics import median

from mvgpt.measure.timing import as_json, spread
from mvgpt.measure.trace import WAITING

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of a trace's events
CUDA_CALLS = ("cuda_runtime", "cuda_driver")
GPU_BOUND, LAUNCHES, WAITS, MIXED = "GPU-bound", "CPU-bound, launches", "waits", "mixed"
BUSY, IDLE = 0.85, 0.5  # shares of the span
SAMPLES = 1000  # enough for a median
PROMPT = 20.0  # from a launch to its kernel; on an idle GPU it takes 5 to 10
Interval = tuple[float, float]


def device_use(events: list[dict], label: str) -> dict:
    """How busy a GPU was in the span with that label, and what it waited for, by a trace's events.

    Shares are of the span. Idle after a wait is what follows when the CPU has waited for the GPU,
    which then has nothing to do until more is handed over.
    """
    span = next(e for e in events if e.get("cat") == "user_annotation" and e["name"] == label)
    start, end = times(span)
    inside = [e for e in events if e.get("ph") == "X" and start <= e["ts"] < end]
    calls = [e for e in inside if e["cat"] in CUDA_CALLS]
    work = [e for e in inside if e["cat"] in ON_DEVICE]
    own = next((e["ts"] for e in inside if e["name"] == WAITING), end)  # our wait at the end
    waits = [times(e) for e in calls if e["name"].endswith("Synchronize") and e["ts"] < own]
    delays = launch_delays(calls, work)
    gaps = idle([times(e) for e in work], (start, end))
    busy = 1 - length(gaps) / (end - start)
    after_waits = length(after(gaps, waits)) / (end - start)
    return {
        "busy": busy,
        "gaps": len(gaps),
        "idle_after_waits": after_waits,
        "synchronisations": len(waits),
        "launch_delay_microseconds": as_json(spread(delays)) if delays else None,
        "verdict": device_verdict(busy, after_waits, bool(delays) and median(delays) <= PROMPT),
    }


def device_verdict(busy: float, after_waits: float, prompt: bool) -> str:
    """What holds a GPU up that is busy for one share of a span and idle after waits for another.

    `prompt` is whether its kernels start as soon as they are launched.
    """
    if busy > BUSY:
        return GPU_BOUND
    if after_waits > (1 - busy) / 2:
        return WAITS
    return LAUNCHES if busy < IDLE and prompt else MIXED


def launch_delays(calls: list[dict], work: list[dict]) -> list[float]:
    """From the start of a launch to that of its kernel, where both are known; of many a sample."""
    launched = {e["args"]["correlation"]: e["ts"] for e in calls if "correlation" in e["args"]}
    starts = ((e["args"]["correlation"], e["ts"]) for e in work)
    delays = [start - launched[number] for number, start in starts if number in launched]
    return delays[:: 1 + len(delays) // SAMPLES]


def times(event: dict) -> Interval:
    return event["ts"], event["ts"] + event["dur"]


def length(intervals: list[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def idle(work: list[Interval], span: Interval) -> list[Interval]:
    """The gaps that the union of the work's intervals leaves in a span."""
    gaps, done = [], span[0]
    for start, end in sorted(work):
        if start > done:
            gaps.append((done, start))
        done = max(done, end)
    return gaps + [(done, span[1])] * (done < span[1])


def after(gaps: list[Interval], waits: list[Interval]) -> list[Interval]:
    """What is left of each gap when a wait is over that began while the device was at work."""
    waits, rest = [*sorted(waits, key=itemgetter(1)), (math.inf, math.inf)], []
    for start, end in gaps:
        began, over = waits[bisect_left(waits, start, key=itemgetter(1))]
        if began < start and over < end:
            rest.append((over, end))
    return rest
