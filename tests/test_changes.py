"""explore.py --compare: nodes are matched, and only what really changes is shown."""

import random
from unittest.mock import patch

import pytest
import slowed
from planted import planted

from mvgpt import GPT, GPTConfig
from mvgpt.data import random_ids
from mvgpt.errors import InputError
from mvgpt.measure import changes, graph
from mvgpt.measure.changes import Match, find_decision, match_nodes, summarize
from mvgpt.measure.decisions import applied

GELU, BY_HAND, WRITTEN = "GELU as one operation", "attention by hand", "as written"


def graphs(model, name):
    """The nodes as written, and under the decision."""
    ids = random_ids(300, 32, seed=0)
    before = graph.export_pass(model, ids)
    with applied(find_decision(name).patches(model)):
        after = graph.export_pass(model, ids)
    return graph.operations(before), graph.operations(after)


@pytest.mark.parametrize("name", [WRITTEN, GELU, BY_HAND])
def test_every_node_is_in_one_match(model, name):
    before, after = graphs(model, name)
    matches = match_nodes(before, after)
    assert sorted(n for match in matches for n in match.before) == sorted(n.name for n in before)
    assert sorted(n for match in matches for n in match.after) == sorted(n.name for n in after)


def test_what_a_patch_replaces_stands_together(model):
    matches = match_nodes(*graphs(model, GELU))
    assert Match("h.0.mlp", ["mul", "div", "erf", "add_2", "mul_1"], ["gelu"]) in matches
    others = [match for match in matches if len(match.before) != 1 or len(match.after) != 1]
    assert [match.module for match in others] == ["h.0.mlp", "h.1.mlp"]
    by_hand = match_nodes(*graphs(model, BY_HAND))
    (one,) = (match for match in by_hand if match.before == ["scaled_dot_product_attention"])
    assert one.module == "h.0.attn"
    assert one.after[0] == "transpose_3"
    assert one.after[-1] == "matmul_1"


def runs(seed, slower=(), rounds=40, names=163):
    """Written runs: each node takes about its own time, give or take what the run makes of it."""
    noise = random.Random(seed)
    for _ in range(rounds):
        run = 1 + 0.1 * abs(noise.gauss(0, 1))
        yield {f"n{i}": 1e-5 * (1 + i % 9) * run * (1 + 0.03 * noise.gauss(0, 1))
               * (1.2 if i in slower else 1) for i in range(names)}  # fmt: skip


def summary(seed, slower=()):
    matches = [Match("", [f"n{i}"], [f"n{i}"]) for i in range(163)]
    each = [list(runs(3 * seed + i, slower if i == 2 else ())) for i in range(3)]
    before, again, after = each
    plain = [sum(b.values()) - sum(a.values()) for a, b in zip(before, after, strict=True)]
    return summarize(matches, plain, before, again, after)


def test_chance_colours_nothing_in_19_of_20_runs():
    alarms = [any(row["shown"] for row in summary(seed)["changes"]) for seed in range(20)]
    assert sum(alarms) <= 1


def test_what_is_slower_is_coloured_and_nothing_else():
    for seed in range(5):
        found = summary(seed, slower=(7, 100))
        assert [row["after"] for row in found["changes"] if row["shown"]] == [["n7"], ["n100"]]
        assert found["pass"]["adds_up"]


def test_a_change_that_the_plain_pass_does_not_show_does_not_add_up():
    matches = [Match("", ["n0"], ["n0"])]
    still = list(runs(0, names=1))
    slower = [{"n0": run["n0"] + 1} for run in still]
    found = summarize(matches, [0.0] * 40, still, still, slower)
    assert found["pass"]["nodes"]["median"] == pytest.approx(1000)
    assert not found["pass"]["adds_up"]


def test_it_is_measured_and_printed(model):
    ids = random_ids(300, 32, seed=0)
    found, after = changes.measure(model, ids, find_decision(GELU), seed=0, rounds=20)
    assert found["decision"] == GELU
    assert len(found["changes"]) == 59 - 2 * 4
    assert len(graph.operations(after.exported)) == 59 - 2 * 4
    row = next(row for row in found["changes"] if row["after"] == ["gelu"])
    assert row["milliseconds"]["n"] == 20
    conditions = {"machine": "m", "device": "cpu", "threads": 1, "usable_cores": 2,
                  "dtype": "float32", "torch": "2.13.0", "load_average": None}  # fmt: skip
    for row in found["changes"]:
        row["shown"] = True
    printed = changes.render({"conditions": conditions, **found})
    assert "51 of 51 places change" in printed
    assert "mul to mul_1 (5)" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_what_cannot_be_compared_is_refused(model):
    with pytest.raises(
        InputError,
        match='no decision .gelu. to compare; there are "as written", "as written, again", ',
    ):
        find_decision("gelu")
    with pytest.raises(InputError, match="torch.compile runs no graph of these nodes"):
        find_decision("torch.compile")
    tanh = GPT(GPTConfig(**{**vars(model.config), "activation_function": "gelu_new"})).eval()
    with pytest.raises(InputError, match="activation is gelu_new"):
        changes.measure(tanh, random_ids(300, 32, 0), find_decision(GELU), seed=0)


@pytest.mark.measures
@pytest.mark.slow
def test_on_the_real_model_nothing_changes_by_itself_in_19_of_20_runs():
    model, ids = GPT(GPTConfig()).eval(), random_ids(10_000, 256, seed=0)
    alarms = 0
    for seed in range(20):
        found, _ = changes.measure(model, ids, find_decision(WRITTEN), seed)
        alarms += any(row["shown"] for row in found["changes"])
    assert alarms <= 1


@pytest.mark.measures
@pytest.mark.slow
def test_on_the_real_model_one_slower_operation_is_coloured_alone():
    model, ids = GPT(GPTConfig()).eval(), random_ids(10_000, 256, seed=0)
    decision = planted("slow", "mvgpt.model.gelu", slowed.SlowGelu(6, slow=2))
    with patch("mvgpt.model.gelu", slowed.SlowGelu(6, slow=2, seconds=0.0)):
        found, _ = changes.measure(model, ids, decision, seed=0)
    (row,) = (row for row in found["changes"] if row["shown"])
    assert (row["module"], row["before"]) == ("h.2.mlp", ["slow_erf"])
    assert row["milliseconds"]["median"] == pytest.approx(5, abs=0.5)
    assert found["pass"]["adds_up"]
