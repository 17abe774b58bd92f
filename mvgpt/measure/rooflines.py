"""Charts of what adds up, from results alone: the roofline, the ledger, and the predictions."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mvgpt.measure import report
from mvgpt.measure.decisions import AGAIN, BASE
from mvgpt.measure.plots import CORAL, GREY, MARKERS, SLATE, caption, save

PATTERNS = {"read": ("reading", "-"), "read_write": ("reading and writing", "--")}
SHADES = (SLATE, "#5d7186", "#8497aa", "#aebccb", "#d3dce5")  # of the kinds of operations
LEAST = 1000  # bytes: what moves fewer takes as long as its call
MOST = len(SHADES) - 1  # kinds that have a part of their own in the ledger's bar


def plot_roofline(results: dict, path: Path) -> Path:
    """What each node of a timed pass (and step) reaches, under the machine's roofs: a PNG."""
    graphs = timed_graphs(results)
    figure = Figure(figsize=(5.4 * len(graphs), 8), layout="constrained")
    grid = figure.subplots(2, len(graphs), squeeze=False)
    for column, (title, found) in enumerate(graphs.items()):
        conditions = report.describe(results["conditions"]) if column == 0 else ""
        caption(grid[0, column], title, conditions)
        products(grid[0, column], found["nodes"], results["roofs"])
        movers(grid[1, column], found["nodes"], results["roofs"])
    return save(figure, path)


def timed_graphs(results: dict) -> dict[str, dict]:
    """The graphs that have times, by the title of their column."""
    graphs = {f"A pass over {results['tokens']} tokens": results}
    if step := results["step"]:
        graphs[f"A token that sees {step['position']}"] = step
    return graphs


def products(axes: Axes, nodes: Sequence[dict], roofs: dict) -> None:
    """Matrix products and attention: GFLOP/s against FLOP per byte, below what bounds them."""
    peak = roofs["peak"]["median"]
    low, high = 0.1, 300.0
    axes.plot([low, high], [peak, peak], color=GREY, linewidth=1)
    axes.annotate(f"the peak, {peak:.0f} GFLOP/s", (low, peak), (2, 3), textcoords="offset points",
                  fontsize=8, color=GREY)  # fmt: skip
    rates = {row["read"]["median"]: row["megabytes"] for row in roofs["bandwidth"]}
    for rate, size in rates.items():
        axes.plot([low, peak / rate], [low * rate, peak], color=GREY, linewidth=0.6)
        if rate in (min(rates), max(rates)):
            height = 0.55 if rate == min(rates) else 11  # below the line, or above all
            axes.annotate(f"{size:g} MB at {rate:.0f} GB/s", (1.1 * low, height * low * rate),
                          fontsize=8, color=GREY)  # fmt: skip
    kinds = (("o", SLATE, "matrix products", False), ("D", CORAL, "attention", True))
    for marker, color, label, attention in kinds:
        chosen = [n for n in nodes if n["flops"] and ("attention" in n["operation"]) == attention]
        axes.scatter(
            [node["intensity"] for node in chosen],
            [node["flops"] / node["milliseconds"]["median"] / 1e6 for node in chosen],
            marker=marker, color=color, s=26, alpha=0.7, label=label, zorder=3,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(0.5, 2 * peak))
    axes.set_xlabel("FLOP per byte; slanted: the bandwidth of reading, by size", fontsize=9)
    axes.set_ylabel("GFLOP/s", fontsize=9)
    axes.legend(loc="lower right", frameon=False, fontsize=8)


def movers(axes: Axes, nodes: Sequence[dict], roofs: dict) -> None:
    """What works element by element: GB/s against megabytes moved, beside the bandwidth."""
    sizes = [row["megabytes"] for row in roofs["bandwidth"]]
    for pattern, (label, style) in PATTERNS.items():
        rates = [row[pattern]["median"] for row in roofs["bandwidth"]]
        axes.plot(sizes, rates, style, color=GREY, linewidth=1, marker=".", label=label)
    chosen = [node for node in nodes if node["bytes"] >= LEAST and not node["flops"]]
    megabytes = np.array([node["bytes"] / 1e6 for node in chosen])
    times = np.array([node["milliseconds"]["median"] for node in chosen])
    axes.scatter(megabytes, megabytes / times, marker="s", color=CORAL, s=22, alpha=0.7,
                 label=f"element by element, from {LEAST:,} bytes", zorder=3)  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("megabytes read and written", fontsize=9)
    axes.set_ylabel("GB/s", fontsize=9)
    axes.legend(loc="lower right", frameon=False, fontsize=8)


def plot_ledger(results: dict, path: Path) -> Path:
    """The plain run and its parts as two bars, of a timed pass (and step): a PNG."""
    graphs = timed_graphs(results)
    figure = Figure(figsize=(9, 2.6 * len(graphs)), layout="constrained")
    for axes, (title, found) in zip(figure.subplots(len(graphs), squeeze=False)[:, 0],
                                    graphs.items(), strict=True):  # fmt: skip
        ledger_bars(axes, f"{title}: {report.show_spread(found['ledger']['plain'])} ms", found)
        caption(axes, axes.get_title(loc="left"), report.describe(results["conditions"]))
    return save(figure, path)


def ledger_bars(axes: Axes, title: str, found: dict) -> None:
    ledger = found["ledger"]
    axes.barh(0, ledger["plain"]["median"], color=GREY, height=0.6)
    left = 0.0
    for (name, milliseconds), shade in zip(by_kind(found), SHADES, strict=False):
        axes.barh(1, milliseconds, left=left, color=shade, height=0.6, edgecolor="white",
                  label=name)  # fmt: skip
        left += milliseconds
    for key, color, hatch in (("between", CORAL, None), ("residual", "white", "////")):
        milliseconds = ledger[key]["median"]
        axes.barh(1, milliseconds, left=left, color=color, hatch=hatch, height=0.6,
                  edgecolor=CORAL, label=f"{key}: {report.show_spread(ledger[key])}")  # fmt: skip
        left += milliseconds
    axes.set_yticks([0, 1], ["the plain run", "its parts"])
    axes.invert_yaxis()
    axes.set_title(title, loc="left")
    axes.set_xlabel("milliseconds", fontsize=9)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)


def by_kind(found: dict) -> list[tuple[str, float]]:
    """The nodes' time by kind of operation, the largest first, small ones together.

    Scaled to the ledger's line for all nodes: a sum of medians is not the median of sums.
    """
    times = defaultdict(float)
    for node in found["nodes"]:
        times[node["operation"].removeprefix("aten::")] += node["milliseconds"]["median"]
    scale = found["ledger"]["nodes"]["median"] / sum(times.values())
    kinds = sorted(((name, ms * scale) for name, ms in times.items()), key=lambda kind: -kind[1])
    rest = sum(ms for _, ms in kinds[MOST:])
    return [*kinds[:MOST], (f"{len(kinds) - MOST} other kinds", rest)] if rest else kinds


def plot_predictions(results: dict, path: Path) -> Path:
    """What was measured against what was predicted, of decisions.py: a PNG."""
    figure = Figure(figsize=(7.5, 5.2), layout="constrained")
    axes = figure.subplots()
    caption(axes, "The time over that of as written: predicted, and measured",
            report.describe(results["conditions"]))  # fmt: skip
    for unit, name, predicted, ratio in predictions(results):
        marker, color = MARKERS[unit]
        value = ratio["value"]
        axes.errorbar(predicted, value, yerr=[[value - ratio["low"]], [ratio["high"] - value]],
                      marker=marker, color=color, capsize=2, markersize=5, alpha=0.9)  # fmt: skip
        side, align = (7, "left") if unit == "pass" else (-7, "right")
        axes.annotate(f"{name}, {unit}", (predicted, value), (side, -3), fontsize=8, color=color,
                      textcoords="offset points", ha=align)  # fmt: skip
    axes.axline((1, 1), slope=1, color=GREY, linewidth=0.8, zorder=0)
    axes.margins(x=0.4, y=0.1)
    axes.set_xlabel("predicted", fontsize=9)
    axes.set_ylabel("measured; on the line both agree", fontsize=9)
    return save(figure, path)


def predictions(results: dict) -> list[tuple[str, str, float, dict]]:
    """Unit, name, predicted and measured ratio, of each decision and vocabulary that has both."""
    own = results["model"]["vocab_size"]
    found = [(unit, row["name"], row["predicted"][unit]["ratio"], row[unit]["ratio"])
             for row in results["decisions"] for unit in MARKERS
             if row["name"] not in (BASE, AGAIN) and row["predicted"] and row[unit]]  # fmt: skip
    return found + [(unit, f"vocabulary {row['vocab_size']:,}", row["predicted"][unit],
                     row["ratio"][unit])
                    for row in results["vocabulary"] for unit in MARKERS
                    if row["vocab_size"] != own]  # fmt: skip
