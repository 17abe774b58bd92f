"""Charts of results, from their JSON alone: PNGs for a page or for print.

Slate and coral are told apart by the colour-blind, and by their lightness on a page in black and
white. What a colour says, a hatch or the shape of a marker says too.
"""

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mvgpt.files import replacing
from mvgpt.measure import report
from mvgpt.measure.decisions import BASE
from mvgpt.measure.timing import FASTER, INVALID, SLOWER

SLATE, CORAL, GREY = "#3b4a5a", "#f0805f", "#6b6b6b"
MARKERS = {"pass": ("o", SLATE), "token": ("D", CORAL)}
UNITS = ("pass", "token")
MOST = 9  # operations that have a bar of their own
PANELS = 2  # machines side by side, before a new line begins


def plot_profile(results: dict, unit: str, path: Path) -> Path:
    """Where the time of a "pass" or of a "token" goes, from the results of profiler.py: a PNG."""
    conditions = report.describe(results["conditions"])
    if unit == "pass":
        found = results["pass"]
        per, milliseconds = 1, found["milliseconds"]
        title = f"The time of a pass over {found['tokens']} tokens: {found['calls']} operations, "
    else:
        found = results["writing"]
        per, milliseconds = found["tokens"], found["milliseconds_per_token"]
        title = "The time of a token, written with the KV cache: "
    title += f"{report.show_spread(milliseconds)} ms without the profiler"
    return save(operations_chart(found, per, title, conditions), path)


def plot_decisions(documents: Sequence[dict], path: Path) -> Path:
    """Each decision's time over that of "as written", from results of any machines: a PNG."""
    return save(decisions_chart(documents), path)


def save(figure: Figure, path: Path) -> Path:
    """Write a PNG, whole or not at all. Agg draws it, so no display is needed."""
    with replacing(path) as (beside,):
        figure.savefig(beside, format="png", dpi=150, backend="agg", bbox_inches="tight")
    return path


def operations_chart(found: dict, per: int, title: str, conditions: str) -> Figure:
    """Bars of the slowest operations, the others as one, and the rest of the time; `per` tokens.

    Where a device has kernels, each operation has a second bar: its share of the kernels' time.
    """
    rows, kernels = operation_rows(found, per), "device_milliseconds" in found
    figure = Figure(figsize=(9, 1.3 + (0.55 if kernels else 0.34) * len(rows)))
    axes = figure.subplots()
    caption(axes, title, conditions)
    height = 0.4 if kernels else 0.72
    longest = bars(axes, rows, "profiled_milliseconds", per, -kernels * height / 2,
                   height=height, color=SLATE)  # fmt: skip
    if kernels:
        other = bars(axes, rows, "device_milliseconds", per, height / 2,
                     height=height, color=CORAL, hatch="////")  # fmt: skip
        longest = max(longest, other)
        axes.legend(["on the CPU", "in kernels, on the device"], loc="lower right", frameon=False)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.45 * longest)  # room for the labels
    axes.set_xticks([tick for tick in range(0, 101, 20) if tick <= longest + 20])
    axes.tick_params(axis="y", length=0)
    of = "the CPU's and of the kernels' time" if kernels else "the profiled run"
    axes.set_xlabel(f"share of {of}, %, and milliseconds{' a token' * (per > 1)}", loc="left")
    return figure


def operation_rows(found: dict, per: int) -> list[dict]:
    """The operations that have a bar, the others as one, and what is outside: all of the time."""
    keys = ("calls", "profiled_milliseconds", "device_milliseconds")
    rows = list(found["operations"][:MOST])
    if others := found["operations"][MOST:]:
        sums = {key: sum(row.get(key, 0) for row in others) for key in keys}
        rows.append({"name": f"{len(others)} other kinds", **sums})
    rows = [{**row, "name": label(row, per)} for row in rows]
    inside = sum(row["profiled_milliseconds"] for row in rows)
    outside = inside * found["outside"] / (1 - found["outside"])
    return [*rows, {"name": "outside of operations", "profiled_milliseconds": outside}]


def label(operation: dict, per: int) -> str:
    """As "linear, 37 calls", those of a token being a mean; waiting is called waiting."""
    calls = f"{round(operation['calls'] / per, 1):g}"
    name = operation["name"].removeprefix("aten::") + " (waiting)" * operation.get("waits", False)
    return f"{name}, {calls} call{'' if calls == '1' else 's'}"


def bars(axes: Axes, rows: Sequence[dict], key: str, per: int, offset: float, **style) -> float:
    """Draw a bar a row, the share of all rows' time, and its label; the longest, in percent."""
    times = [row.get(key, 0.0) for row in rows]
    shares = [100 * time / (sum(times) or 1) for time in times]
    labels = [
        f"{share:.1f} %, {report.significant(time / per, 3)} ms" if time else ""
        for share, time in zip(shares, times, strict=True)
    ]
    places = [number + offset for number in range(len(rows))]
    drawn = axes.barh(places, shares, edgecolor="white", **style)
    axes.bar_label(drawn, labels, padding=4, fontsize=8.5)
    return max(shares)


def caption(axes: Axes, title: str, conditions: str) -> None:
    """A title, and small below it the conditions; no box around the axes."""
    axes.set_title(title, loc="left", fontsize=10.5, pad=19)
    axes.annotate(conditions, (0, 1), (0, 6), "axes fraction", "offset points",
                  fontsize=7.5, color=GREY)  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)


def decisions_chart(documents: Sequence[dict]) -> Figure:
    """A panel a document: the ratios as points with their intervals, and in figures beside."""
    found = [row["name"] for document in documents for row in document["decisions"]]
    names = [name for name in dict.fromkeys(found) if name != BASE]
    columns = min(PANELS, len(documents))
    lines = -(-len(documents) // columns)
    figure = Figure(figsize=(1.2 + 5.2 * columns, lines * (1.6 + 0.5 * len(names))),
                    layout="constrained")  # fmt: skip
    figure.get_layout_engine().set(h_pad=0.12)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axes, document in zip_longest(grid.flat, documents):
        if document is None:
            axes.remove()
        else:
            panel(axes, document, names)
    figure.legend(handles=legend(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def panel(axes: Axes, document: dict, names: Sequence[str]) -> None:
    """The ratios of a document, in a place for each of the names."""
    c, model = document["conditions"], document["model"]["name"]
    caption(axes, f"{c['machine']}, {c['device']}",
            f"{model}, {c['threads']} threads, {c['dtype']}, torch {c['torch']}")  # fmt: skip
    axes.axvline(1, color=GREY, linewidth=1, zorder=0)
    rows = {row["name"]: row for row in document["decisions"]}
    for number, name in enumerate(names):
        row = rows.get(name)
        if row is None or row["skipped"]:
            beside(axes, number, "not measured" if row is None else "skipped", GREY)
            continue
        for unit, offset in (("pass", -0.17), ("token", 0.17)):
            if row[unit]:
                point(axes, number + offset, unit, row[unit])
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=True)
    axes.set_xlabel("time over that of as written; less is faster", fontsize=9)


def point(axes: Axes, place: float, unit: str, found: dict) -> None:
    """A ratio with its interval: filled where a difference is shown, a cross where invalid."""
    (marker, color), ratio = MARKERS[unit], found["ratio"]
    value, low, high = ratio["value"], ratio["low"], ratio["high"]
    shown = found["verdict"] in (FASTER, SLOWER)
    axes.errorbar(value, place, xerr=[[value - low], [high - value]], color=color, markersize=5,
                  marker="x" if found["verdict"] == INVALID else marker, capsize=2,
                  markerfacecolor=color if shown else "white")  # fmt: skip
    text = report.show_ratio(ratio) + " invalid" * (found["verdict"] == INVALID)
    beside(axes, place, text, "black")


def beside(axes: Axes, place: float, text: str, color: str) -> None:
    """A row's figures, to the right of the axes."""
    axes.annotate(text, (1.02, place), xycoords=axes.get_yaxis_transform(), va="center",
                  fontsize=8, color=color)  # fmt: skip


def legend() -> list[Line2D]:
    entries = [
        *((marker, color, color, f"a {unit}") for unit, (marker, color) in MARKERS.items()),
        ("s", GREY, GREY, "filled: a difference is shown"),
        ("s", GREY, "white", "hollow: none is shown"),
        ("x", GREY, GREY, "invalid: computes something else"),
    ]
    return [
        Line2D([], [], linestyle="", marker=marker, color=color, markerfacecolor=fill, label=label)
        for marker, color, fill, label in entries
    ]
