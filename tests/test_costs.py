"""FLOPs and bytes of the graph's nodes, against closed forms."""

import pytest
import torch

from mvgpt import GPT, GPTConfig
from mvgpt.data import random_ids
from mvgpt.measure import graph
from mvgpt.measure.costs import Cost, node_costs, total
from mvgpt.measure.decisions import applied, attention_by_hand

WEIGHTS = 57_827_328  # bytes of the matrices that a token is multiplied with
BIASES = 6 * (5 * 384 + 4 * 384) * 4
PER_POSITION = 18_432  # bytes of the KV cache


@pytest.fixture(scope="module")
def full():
    """The model in its default sizes."""
    return GPT(GPTConfig()).eval()


def of_kind(costs, kind):
    return [cost for name, cost in costs.items() if name.startswith(kind)]


@pytest.fixture(scope="module")
def full_pass(full):
    ids = random_ids(10_000, 256, seed=0)
    return node_costs(graph.export_pass(full, ids), ids)


def test_the_flops_of_a_pass_are_the_closed_form(full_pass):
    assert len(full_pass) == 163
    assert total(full_pass).flops == 8_005_877_760
    assert full_pass["linear_36"].flops == 1_966_080_000
    attention = of_kind(full_pass, "scaled_dot_product_attention")
    assert sum(cost.flops for cost in attention) == 603_979_776
    assert sum(cost.flops for cost in of_kind(full_pass, "linear")[:-1]) == 5_435_817_984
    assert {cost.flops for cost in of_kind(full_pass, "add")} == {0}


def test_the_bytes_of_a_pass(full_pass):
    T, C, V = 256, 384, 10_000
    assert full_pass["linear_36"] == Cost(
        flops=2 * T * C * V,
        read=4 * (T * C + V * C),
        written=4 * T * V,
        standing=4 * V * C,
    )
    assert full_pass["mul_1"] == Cost(0, read=4 * 2 * T * 4 * C, written=4 * T * 4 * C, standing=0)
    assert full_pass["embedding"].read == 4 * T * C + 8 * T  # its rows and the ids, not the matrix
    assert sum(cost.standing for cost in of_kind(full_pass, "linear")) == WEIGHTS + BIASES


def test_what_moves_nothing_costs_nothing(full_pass):
    for kind in ("view", "transpose", "dropout", "reshape"):
        costs = of_kind(full_pass, kind)
        assert costs
        assert set(costs) == {Cost(0, 0, 0, 0)}


@pytest.mark.parametrize("position", [1, 128, 255])
def test_a_token(full, position):
    inputs = graph.step_inputs(full, position, seed=0)
    costs = node_costs(graph.export_pass(graph.Step(full), *inputs), *inputs)
    assert len(costs) == (175 if position > 1 else 163)
    assert total(costs).flops == 28_913_664 + 9_216 * position
    assert sum(cost.standing for cost in of_kind(costs, "linear")) == WEIGHTS + BIASES
    read = sum(cost.read for cost in of_kind(costs, "scaled_dot_product_attention"))
    query = 6 * 384 * 4
    assert read - query == PER_POSITION * position
    kept = sum(cost.standing for cost in of_kind(costs, "cat"))
    assert kept == PER_POSITION * (position - 1)


def test_a_reshape_that_copies_is_told_from_one_that_does_not(model):
    """By hand, attention leaves its heads apart; PyTorch's operation has them side by side."""
    ids = random_ids(300, 32, seed=0)
    with applied(attention_by_hand(model)):
        costs = node_costs(graph.export_pass(model, ids), ids)
    assert costs["reshape"].written == costs["reshape"].read == 4 * 32 * 64


class Addition(torch.nn.Module):
    def forward(self, x, y):
        return x.add_(1), x + y


def test_in_place_and_expanded(model):
    x, y = torch.zeros(8, 16), torch.zeros(16).expand(8, 16)
    costs = node_costs(torch.export.export(Addition(), (x, y)), x, y)
    assert costs["add_"] == Cost(0, read=4 * 128, written=4 * 128, standing=4 * 128)
    assert costs["add"] == Cost(0, read=4 * (128 + 16), written=4 * 128, standing=4 * 16)


def test_a_step_is_the_models(model):
    """On the keys and values of a text it gives the logits of the pass."""
    from mvgpt import KVCache

    ids, cache = random_ids(300, 9, seed=0), KVCache(2)
    with torch.no_grad():
        model(ids[:, :8], cache)
        step = graph.export_pass(graph.Step(model), ids[:, 8:], cache.keys, cache.values)
        logits = step.module()(ids[:, 8:], cache.keys, cache.values)
        torch.testing.assert_close(logits[0, 0], model(ids)[0, 8])
    modules = {graph.describe_node(node)["module"] for node in graph.operations(step)}
    assert modules <= set(dict(model.named_modules()))


def test_the_twin_has_the_same_operations(model):
    ids = random_ids(300, 32, seed=0)
    twin = graph.shrunken(model)
    small = graph.export_pass(twin, torch.zeros(1, 2, dtype=torch.int64))
    names = [node.name for node in graph.operations(graph.export_pass(model, ids))]
    assert [node.name for node in graph.operations(small)] == names
