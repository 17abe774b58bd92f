"""The nodes of a graph in results: what each is, what it costs, how long it took; and as tables."""

import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from torch.fx import Node

from mvgpt import GPT
from mvgpt.measure import report
from mvgpt.measure.costs import Cost, node_costs
from mvgpt.measure.graph import (
    Step,
    describe_node,
    operations,
    pass_inputs,
    shrunken,
    step_inputs,
)
from mvgpt.measure.ledger import measure_ledger
from mvgpt.measure.prices import Roofs, priced, reach
from mvgpt.measure.timing import as_json, spread
from mvgpt.measure.workload import Timed

UNTIMED = ("attainable_milliseconds", "share_of_roof", "bound", "suspect")
SLOWEST = 5
BROKEN = "IT DOES NOT CLOSE: do not trust the times of the nodes"


@dataclass(frozen=True)
class Subject:
    """A graph to be explored, its twin, and what is to stand in the results beside its nodes."""

    timed: Timed
    twin: Callable[[], Timed]
    about: dict


def one_pass(model: GPT, tokens: int | None, seed: int) -> Subject:
    """A pass over random tokens; over a full window where their number is None."""
    tokens = tokens or model.config.n_positions
    timed = Timed(model, *pass_inputs(model, tokens, seed))

    def twin() -> Timed:
        small = shrunken(model)
        return Timed(small, *pass_inputs(small, min(tokens, 2), seed))

    return Subject(timed, twin, {"tokens": tokens})


def one_step(model: GPT, position: int, seed: int) -> Subject:
    """A token with the KV cache that sees `position` tokens, itself included."""

    def step(model: GPT, position: int) -> Timed:
        return Timed(Step(model).eval(), *step_inputs(model, position, seed))

    return Subject(step(model, position), lambda: step(shrunken(model), min(position, 2)),
                   {"position": position})  # fmt: skip


def measure(subject: Subject, roofs: dict | None, seed: int) -> dict:
    """The results of a graph: `operations`, `nodes` and `ledger`; without roofs no times."""
    timed = subject.timed
    costs = node_costs(timed.exported, *timed.inputs)
    nodes = [describe(node, costs[node.name]) for node in operations(timed.exported)]
    ledger = None
    if roofs:
        ledger = measure_ledger(timed, subject.twin(), seed)
        add_times(nodes, timed.runs, priced(costs, Roofs(roofs)))
    return {**subject.about, "operations": len(nodes), "nodes": nodes, "ledger": ledger}


def describe(node: Node, cost: Cost) -> dict:
    """A node that was not timed; what is not known yet is null."""
    return {
        **describe_node(node),
        "milliseconds": None,
        "flops": cost.flops,
        "bytes": cost.bytes,
        "intensity": cost.flops / cost.bytes if cost.flops else None,
        **dict.fromkeys(UNTIMED),
    }


def add_times(nodes: list[dict], runs: list[dict[str, float]], prices: dict[str, dict]) -> None:
    """Put into each node its time and its roof."""
    for node in nodes:
        name = node["name"]
        node["milliseconds"] = as_json(spread([run[name] for run in runs], 1000))
        node |= prices[name] | reach(prices[name], node["milliseconds"])


def broken(found: dict) -> bool:
    """Whether the ledger of a graph's results was measured, and does not close."""
    return bool(found["ledger"]) and found["ledger"]["closes"] is False


def render(title: str, found: dict) -> list[str]:
    """A graph's lines, from its results: what it is made of, and where its time goes."""
    kinds = Counter(node["operation"].removeprefix("aten::") for node in found["nodes"])
    counts = ", ".join(f"{count}\xa0{kind}" for kind, count in kinds.most_common())
    lines = [
        f"{title}: {found['operations']} operations",
        textwrap.fill(counts, report.WIDTH).replace("\xa0", " "),
    ]
    if not found["ledger"]:
        return lines
    return [*lines, "", slowest_table(found), "", *ledger_lines(found["ledger"]),
            *suspects(found["nodes"])]  # fmt: skip


def slowest_table(found: dict) -> str:
    """The slowest nodes, and how near to its roof each comes."""
    nodes = sorted(found["nodes"], key=lambda n: n["milliseconds"]["median"], reverse=True)
    columns = ["node", "module", "source", "ms", "share", "of its roof", "bound by"]
    rows = [cells(node, found["ledger"]["nodes"]["median"]) for node in nodes[:SLOWEST]]
    return report.text_table(f"The {len(rows)} slowest nodes", columns, rows, text_columns=3)


def cells(node: dict, total: float) -> list[str]:
    share = node["share_of_roof"]
    return [
        node["name"],
        node["module"] or "itself",
        (node["source"] or "").removeprefix("mvgpt/"),
        report.show_spread(node["milliseconds"]),
        report.percent(node["milliseconds"]["median"] / total),
        "-" if share is None else f"{100 * share:.0f} %",
        node["bound"] or "-",
    ]


def ledger_lines(ledger: dict) -> list[str]:
    """The ledger, and whether it closes."""
    names = {"plain": "the plain run", "nodes": "- its nodes, one by one",
             "between": "- what handing over adds to them",
             "residual": "= the residual"}  # fmt: skip
    plain = ledger["plain"]["median"]
    rows = [[text, report.show_spread(ledger[key]), report.percent(ledger[key]["median"] / plain)]
            for key, text in names.items()]  # fmt: skip
    table = report.text_table("The ledger", ["", "ms", "of the plain run"], rows)
    return [table, closing_line(ledger)]


def closing_line(ledger: dict) -> str:
    """One line: does the ledger close?"""
    if ledger["closes"] is None:
        return "too noisy to say whether it closes: close what else runs, or try --threads 1"
    if ledger["closes"]:
        return "it closes: the nodes add up to the plain run"
    return BROKEN


def suspects(nodes: list[dict]) -> list[str]:
    """A line for each product that is faster than the peak, which none can be."""
    return [f"suspect count: {node['name']} would run at {node['share_of_roof']:.2f} times the peak"
            for node in nodes if node["suspect"]]  # fmt: skip
