"""The charts of episode 7: what is drawn is what the results hold."""

import pytest
from matplotlib.figure import Figure

from mvgpt.measure import rooflines

CONDITIONS = {
    "machine": "here-2-cores", "device": "cpu", "threads": 2, "usable_cores": 2,
    "dtype": "float32", "torch": "2.13.0", "load_average": 0.5,
}  # fmt: skip


def about(median):
    return {"median": median, "low": 0.9 * median, "high": 1.1 * median, "n": 40}


def node(kind, milliseconds, flops, count):
    return {"operation": f"aten::{kind}", "milliseconds": about(milliseconds), "flops": flops,
            "bytes": count, "intensity": flops / count if flops else None}  # fmt: skip


@pytest.fixture
def explored():
    """As explore.py --times --step writes it."""
    nodes = [node("linear", 10.0, 2 * 10**9, 10**7), node("linear", 5.0, 10**9, 10**7),
             node("scaled_dot_product_attention", 2.0, 10**8, 10**6), node("add", 1.0, 0, 10**8),
             node("arange", 0.1, 0, 8), node("view", 0.1, 0, 0)]  # fmt: skip
    ledger = {"plain": about(20.0), "nodes": about(36.4), "between": about(0.2),
              "residual": about(-16.6), "closes": False}  # fmt: skip
    bandwidth = [{"megabytes": size, "read": about(rate), "read_write": about(2 * rate)}
                 for size, rate in ((0.4, 200.0), (58, 50.0))]  # fmt: skip
    return {"conditions": CONDITIONS, "tokens": 256, "nodes": nodes, "ledger": ledger,
            "step": {"position": 9, "nodes": nodes, "ledger": ledger},
            "roofs": {"peak": about(400.0), "bandwidth": bandwidth}}  # fmt: skip


@pytest.fixture
def decided():
    """As decisions.py writes it."""
    ratio = {"value": 0.9, "low": 0.88, "high": 0.93}
    both = {unit: {"ratio": ratio} for unit in ("pass", "token")}
    change = {unit: {"ratio": 0.95} for unit in both}
    rows = [
        {"name": "as written", "predicted": change, **both},
        {"name": "GELU as one operation", "predicted": change, **both},
        {"name": "torch.compile", "predicted": None, "pass": {"ratio": ratio}, "token": None},
    ]
    sizes = [{"vocab_size": size, "predicted": dict.fromkeys(both, 0.9),
              "ratio": dict.fromkeys(both, ratio)} for size in (5_000, 10_000)]  # fmt: skip
    return {"conditions": CONDITIONS, "model": {"vocab_size": 10_000}, "decisions": rows,
            "vocabulary": sizes}  # fmt: skip


@pytest.mark.parametrize("step", [True, False])
@pytest.mark.parametrize("plot", [rooflines.plot_roofline, rooflines.plot_ledger])
def test_charts_are_written(explored, plot, step, tmp_path):
    explored["step"] = explored["step"] if step else None
    path = plot(explored, tmp_path / "chart.png")
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert list(tmp_path.iterdir()) == [path]


def test_points_are_the_nodes(explored):
    above, below = Figure().subplots(2)
    rooflines.products(above, explored["nodes"], explored["roofs"])
    products, attention = (points.get_offsets().tolist() for points in above.collections)
    assert products == [[200, 200], [100, 200]]
    assert attention == [[100, 50]]
    rooflines.movers(below, explored["nodes"], explored["roofs"])
    (points,) = below.collections
    assert points.get_offsets().tolist() == [[100, 100]]  # no view, and nothing of a few bytes


def test_the_bars_of_the_ledger_are_its_lines(explored):
    axes = Figure().subplots()
    rooflines.ledger_bars(axes, "title", explored)
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx([20, 30, 4, 2, 0.2, 0.2, 0.2, -16.6])  # nodes: twice 18.2
    assert axes.patches[1].get_x() == 0
    assert axes.patches[-1].get_x() == pytest.approx(36.6)


def test_small_kinds_stand_together(explored):
    explored["nodes"] += [node(f"kind_{n}", 0.1, 0, 8) for n in range(5)]
    kinds = rooflines.by_kind(explored)
    assert [name for name, _ in kinds][-1] == "6 other kinds"
    assert sum(ms for _, ms in kinds) == pytest.approx(36.4)


def test_what_was_predicted_stands_against_what_was_measured(decided, tmp_path):
    found = rooflines.predictions(decided)
    assert [(unit, name) for unit, name, *_ in found] == [
        ("pass", "GELU as one operation"), ("token", "GELU as one operation"),
        ("pass", "vocabulary 5,000"), ("token", "vocabulary 5,000"),
    ]  # fmt: skip
    assert found[0][2:] == (0.95, {"value": 0.9, "low": 0.88, "high": 0.93})
    assert rooflines.plot_predictions(decided, tmp_path / "chart.png").stat().st_size > 1000
