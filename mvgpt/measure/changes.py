"""What a decision changes in the graph: each node's time before and after, in the same rounds.

Nodes are matched by their module and, within it, by their order; where a patch puts other
operations in their place, those before stand together against those after. With over a hundred
comparisons some would seem changed by chance, so that each interval is as wide as leaves 5 % for a
false alarm anywhere in the graph (Bonferroni). And the graph as written runs twice in a round, so
that a change must also be larger than what it changes by itself.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial

import torch
from torch.fx import Node

from mvgpt import GPT
from mvgpt.errors import InputError
from mvgpt.measure import report
from mvgpt.measure.decisions import DECISIONS, Decision, NotHere, applied
from mvgpt.measure.graph import describe_node, operations
from mvgpt.measure.timing import Spread, as_json, run_rounds, spread
from mvgpt.measure.workload import Timed
from mvgpt.progress import progress

ROUNDS = 32
FALSE_ALARM = 0.05  # over the whole graph
MOST = 3  # names that are listed one by one
Runs = Sequence[dict[str, float]]


def find_decision(name: str) -> Decision:
    """The decision of that name; an InputError where there is none, or where it is compiled."""
    decisions = {decision.name: decision for decision in DECISIONS}
    if name not in decisions:
        names = ", ".join(f'"{each.name}"' for each in DECISIONS if not each.compiles)
        raise InputError(f"there is no decision {name!r} to compare; there are {names}")
    if decisions[name].compiles:
        raise InputError(f"{name} runs no graph of these nodes, but one of fused kernels: "
                         "decisions.py times it as a whole")  # fmt: skip
    return decisions[name]


@dataclass(frozen=True)
class Match:
    """Nodes that stand for each other: mostly one and one; none where there is no counterpart."""

    module: str
    before: list[str]
    after: list[str]


def match_nodes(before: Sequence[Node], after: Sequence[Node]) -> list[Match]:
    """All nodes of both graphs, each in one match."""
    old, new = by_module(before), by_module(after)
    pairs = ((module, old.get(module, []), new.get(module, [])) for module in old | new)
    return [match for pair in pairs for match in match_module(*pair)]


def by_module(nodes: Sequence[Node]) -> dict[str, list[dict]]:
    found = defaultdict(list)
    for node in map(describe_node, nodes):
        found[node["module"]].append(node)
    return dict(found)


def match_module(module: str, old: list[dict], new: list[dict]) -> list[Match]:
    """Operations that stay are matched one to one, those in between all with all."""
    kinds = [[node["operation"] for node in nodes] for nodes in (old, new)]
    names = [[node["name"] for node in nodes] for nodes in (old, new)]
    matches = []
    for tag, i, j, k, m in SequenceMatcher(None, *kinds, autojunk=False).get_opcodes():
        one, other = names[0][i:j], names[1][k:m]
        if tag == "equal":
            matches += [Match(module, [a], [b]) for a, b in zip(one, other, strict=True)]
        else:
            matches.append(Match(module, one, other))
    return matches


def measure(
    model: GPT, ids: torch.Tensor, decision: Decision, seed: int, rounds: int = ROUNDS
) -> tuple[dict, Timed]:
    """The results' own keys on the text ids (1, T), and the graph under the decision.

    Raises an InputError where the decision does not concern the model.
    """
    try:
        patches = decision.patches(model)
    except NotHere as reason:
        raise InputError(f"{decision.name}: {reason}") from None
    before = Timed(model, ids)
    with applied(patches):
        after = Timed(model, ids)
    again = Timed(model, ids)
    cases = {
        "plain before": partial(second, before.time),
        "plain after": partial(second, after.time, patches),
        "before": partial(second, before.time_nodes),
        "again": partial(second, again.time_nodes),
        "after": partial(second, after.time_nodes),
    }
    timed = run_rounds(cases, seed=seed, rounds=rounds)
    timed = list(progress(timed, f"{decision.name}, rounds"))
    plain = [one["plain after"] - one["plain before"] for one in timed]
    matches = match_nodes(operations(before.exported), operations(after.exported))
    runs = [each.runs[3::2] for each in (before, again, after)]  # second ones, but the warm-up's
    return {"decision": decision.name, **summarize(matches, plain, *runs)}, after


def second(case: Callable[[], float], patches: Sequence[AbstractContextManager] = ()) -> float:
    """The seconds of the second run: entering patches leaves the processor's caches cold, and the
    case before has left the memory in another state.
    """
    with applied(patches):
        case()
        return case()


def summarize(matches: list[Match], plain: list[float], before: Runs, again: Runs,
              after: Runs) -> dict:  # fmt: skip
    """`pass`: its change in ms, that of its nodes, the rest, and whether that may be 0;
    `changes`: a row a match, of which those are `shown` that noise does not explain.
    """
    level = 1 - FALSE_ALARM / len(matches)
    rows = []
    for match in matches:
        change = differences(match.before, before, match.after, after, level)
        noise = differences(match.before, before, match.before, again, level)
        rows.append({**vars(match), "milliseconds": as_json(change), "shown": shown(change, noise)})
    sums = [sum(b.values()) - sum(a.values()) for a, b in zip(before, after, strict=True)]
    rest = spread([p - s for p, s in zip(plain, sums, strict=True)], 1000)
    found = {"plain": as_json(spread(plain, 1000)), "nodes": as_json(spread(sums, 1000)),
             "rest": as_json(rest), "adds_up": rest.low <= 0 <= rest.high}  # fmt: skip
    return {"pass": found, "changes": rows}


def differences(names: list[str], runs: Runs, others: list[str], later: Runs,
                level: float) -> Spread:  # fmt: skip
    """Of the later nodes' time less the first ones', round by round, in ms."""
    samples = [sum(b[name] for name in others) - sum(a[name] for name in names)
               for a, b in zip(runs, later, strict=True)]  # fmt: skip
    return spread(samples, 1000, level)


def shown(change: Spread, noise: Spread) -> bool:
    """Whether the interval excludes no change, and the change is beyond what noise reaches."""
    if change.low is None or change.low <= 0 <= change.high:
        return False
    return abs(change.median) > max(abs(noise.low), abs(noise.high))


def render(results: dict) -> str:
    """What is printed: a function of the results file alone."""
    whole = results["pass"]
    changed = [row for row in results["changes"] if row["shown"]]
    rows = [[row["module"] or "itself", listed(row["before"]), listed(row["after"]),
             report.show_spread(row["milliseconds"])]
            for row in sorted(changed, key=lambda row: row["milliseconds"]["median"])]  # fmt: skip
    title = f"{results['decision']}: {len(changed)} of {len(results['changes'])} places change"
    columns = ["module", "before", "after", "change, ms"]
    agree = "agree" if whole["adds_up"] else "do NOT agree"
    rest = report.show_spread(whole["rest"])
    return "\n".join([
        report.describe(results["conditions"]),
        "",
        report.text_table(title, columns, rows, text_columns=3) if rows else title,
        "",
        f"all nodes together: {report.show_spread(whole['nodes'])} ms",
        f"the plain pass: {report.show_spread(whole['plain'])} ms",
        f"the one less the other, round by round: {rest} ms; they {agree}",
    ])  # fmt: skip


def listed(names: list[str]) -> str:
    """As "mul, div, erf", a long row as "transpose_3 to matmul_1 (9)"."""
    many = len(names) > MOST
    return f"{names[0]} to {names[-1]} ({len(names)})" if many else ", ".join(names) or "-"
