"""What a GPU's trace says, on written ones, which hold what CUPTI records of a run."""

import json
import math

import pytest

from mvgpt.measure.gpu import GPU_BOUND, LAUNCHES, MIXED, WAITS, after, device_use, idle
from mvgpt.measure.wording import use


class Trace:
    """The events that torch.profiler writes of a run of 1 ms that is called "run"."""

    def __init__(self):
        self.number, self.events = 0, [
            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
            self.event("user_annotation", "run", 0, 1000),
            self.event("gpu_user_annotation", "run", 5, 990),
            self.event("cpu_op", "aten::mm", 1, 8),
            {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "ts": 3, "pid": 0, "tid": 0},
            self.event("cuda_runtime", "cudaDeviceSynchronize", -30, 10, correlation=900),
        ]  # fmt: skip

    @staticmethod
    def event(category, name, start, duration, **args):
        return {"ph": "X", "cat": category, "name": name, "ts": 5e6 + start, "dur": duration,
                "pid": 0, "tid": 0, "args": args}  # fmt: skip

    def kernel(self, launch, start, duration, category="kernel", call="cudaLaunchKernel"):
        self.number += 1
        self.events.append(self.event("cuda_runtime", call, launch, 4, correlation=self.number))
        self.events.append(self.event(category, "a name", start, duration, stream=7, device=0,
                                      correlation=self.number))  # fmt: skip

    def wait(self, start, end):
        self.events.append(self.event("cuda_runtime", "cudaStreamSynchronize", start, end - start,
                                      correlation=0))  # fmt: skip

    def use(self):
        return device_use(json.loads(json.dumps(self.events)), "run")


def test_a_gpu_that_always_has_work_is_bound_by_it():
    trace = Trace()
    for number in range(18):
        trace.kernel(launch=5 * number, start=20 + 50 * number, duration=50)
    trace.wait(95, 930)
    found = trace.use()
    assert found["verdict"] == GPU_BOUND
    assert found["busy"] == pytest.approx(0.9)
    assert found["gaps"] == 2  # before and after
    assert found["synchronisations"] == 1  # the clock's own lies before the span
    assert found["launch_delay_microseconds"]["median"] == pytest.approx(20 + 45 * 8.5)


def test_kernels_that_start_as_soon_as_launched_wait_for_launches():
    trace = Trace()
    for number in range(19):
        trace.kernel(launch=50 * number, start=50 * number + 8, duration=10)
    trace.wait(915, 970)
    found = trace.use()
    assert found["verdict"] == LAUNCHES
    assert found["busy"] == pytest.approx(0.19)
    assert found["launch_delay_microseconds"]["median"] == pytest.approx(8)
    assert found["idle_after_waits"] == pytest.approx(0.03)


def test_a_gpu_that_idles_after_waits():
    trace = Trace()
    for start in (0, 250, 500, 750):  # work for 120, half of it launched before it can start
        trace.kernel(start, start + 10, 60)
        trace.kernel(start + 5, start + 70, 60, "gpu_memcpy", "cudaMemcpyAsync")
        trace.wait(start + 12, start + 140)
    found = trace.use()
    assert found["verdict"] == WAITS
    assert found["busy"] == pytest.approx(0.48)
    assert found["synchronisations"] == 4
    assert found["idle_after_waits"] == pytest.approx((3 * 120 + 110) / 1000)


def test_a_wait_for_a_device_that_was_idle_already_is_none():
    trace = Trace()
    for start in range(0, 1000, 100):
        trace.kernel(start, start + 8, 10)
        trace.wait(start + 30, start + 32)
    assert trace.use()["verdict"] == LAUNCHES
    assert trace.use()["idle_after_waits"] == 0


def test_what_is_neither_is_mixed():
    trace = Trace()
    for number in range(10):  # busy for 70 %, with gaps that no wait explains
        trace.kernel(launch=100 * number, start=100 * number + 10, duration=70)
    assert trace.use()["verdict"] == MIXED
    trace = Trace()
    for number in range(10):  # idle, though the kernels were launched long ago
        trace.kernel(launch=number, start=100 * number + 50, duration=20)
    assert trace.use()["verdict"] == MIXED


def test_a_kernel_whose_launch_was_lost_has_no_delay():
    trace = Trace()
    trace.kernel(0, 10, 100)
    trace.events = [e for e in trace.events if e["name"] != "cudaLaunchKernel"]
    assert trace.use()["launch_delay_microseconds"] is None
    assert trace.use()["verdict"] == MIXED


def test_of_many_launches_a_sample_is_enough():
    trace = Trace()
    for number in range(5000):
        trace.kernel(number / 10, number / 10 + 7, 0.01)
    assert trace.use()["launch_delay_microseconds"]["n"] < 1001
    assert trace.use()["launch_delay_microseconds"]["median"] == pytest.approx(7)


def test_gaps_are_what_the_union_of_the_work_leaves():
    work = [(5, 9), (2, 4), (3, 6), (5, 7), (12, 15)]  # in two streams
    assert idle(work, (0, 20)) == [(0, 2), (9, 12), (15, 20)]
    assert idle(work, (2, 15)) == [(9, 12)]
    assert idle([], (0, 1)) == [(0, 1)]


def test_after_a_wait_the_rest_of_its_gap_counts():
    gaps = [(0, 2), (9, 12), (15, 20)]
    assert after(gaps, [(8, 10), (3, 9)]) == [(9, 12)]
    assert after(gaps, [(14, 17), (17, 18)]) == [(17, 20)]
    assert after(gaps, [(10, 11), (0, 8)]) == []
    assert after([], []) == after(gaps, []) == []
    assert all(math.isfinite(end) for _, end in after(gaps, [(14, 19)]))


def test_in_words():
    trace = Trace()
    trace.kernel(0, 10, 100)
    trace.wait(20, 112)
    text = use(trace.use())
    assert text.startswith(
        "waits: the GPU was busy 10.0 % of the profiled run, and idle after waits 88.8 %"
    )
    assert text.endswith("kernels started 10.0 (n = 1) microseconds after their launch")
