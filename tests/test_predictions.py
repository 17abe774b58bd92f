"""What is predicted of a decision, against closed forms."""

import pytest
import torch
import torch.nn.functional as F
from planted import BY_HAND, BY_NAME, COMPILE, GELU, OWN_GELU, FakeClock, planted

from mvgpt import GPT, GPTConfig
from mvgpt.data import random_ids
from mvgpt.measure import comparison, graph
from mvgpt.measure.arms import Arm
from mvgpt.measure.comparison import compare_decisions
from mvgpt.measure.costs import node_costs, total
from mvgpt.measure.decisions import AGAIN, BASE, DECISIONS
from mvgpt.measure.predictions import COMPILED, UNMEASURED, estimates, predict
from mvgpt.measure.prices import Roofs
from mvgpt.measure.reading import Reading
from mvgpt.measure.vocabulary import work

FOUR_BYTES = 4


def certain(value):
    return {"median": value, "low": value, "high": value, "n": 12}


@pytest.fixture
def roofs():
    """The same 10 GB/s at every size, 100 GFLOP/s, and 5 us to hand an operation over."""
    rates = [{"megabytes": size, "read": certain(10.0), "read_write": certain(10.0)}
             for size in (1, 100)]  # fmt: skip
    return Roofs({"peak": certain(100.0), "bandwidth": rates,
                  "hand_over": {"microseconds": certain(5.0)}})  # fmt: skip


@pytest.fixture
def reading(model):
    return Reading(model, random_ids(300, 32, 0))


def arms_of(reading, *decisions):
    return [Arm(decision, decision.patches(reading.model)) for decision in decisions]


def test_gelu_is_four_operations_fewer_in_a_block_and_their_bytes(reading, roofs):
    """The five read or write eleven tensors of 4 C channels, the one operation two."""
    (arm,) = arms_of(reading, BY_NAME[GELU])
    predict([arm], reading, roofs)
    for unit, tokens in (("pass", 32), ("token", 1)):
        saved = 9 * 2 * tokens * 4 * 64 * FOUR_BYTES  # in 2 blocks
        assert arm.predicted[unit] == {
            "operations": -8, "bytes": -saved, "flops": 0,
            "milliseconds": pytest.approx(-saved / 10e9 * 1000 - 8 * 0.005),
        }  # fmt: skip


def test_the_order_in_which_they_are_given_does_not_matter(reading, roofs):
    first, last = (arms_of(reading, *(BY_NAME[name] for name in names))
                   for names in ((BASE, AGAIN, BY_HAND), (BY_HAND, AGAIN, BASE)))  # fmt: skip
    for arms in (first, last):
        predict(arms, reading, roofs)
    found = [{arm.decision.name: arm.predicted for arm in arms} for arms in (first, last)]
    assert found[0] == found[1]
    none = {"milliseconds": 0, "operations": 0, "bytes": 0, "flops": 0}
    assert found[0][BASE] == found[0][AGAIN] == {"pass": none, "token": none}
    assert found[0][BY_HAND]["pass"]["operations"] > 0


def test_a_token_sees_those_in_the_cache_and_itself(reading, roofs):
    inputs = graph.step_inputs(reading.model, 17, seed=0)
    costs = node_costs(graph.export_pass(graph.Step(reading.model), *inputs), *inputs)
    assert estimates(reading, roofs)["token"].flops == total(costs).flops
    assert reading.cached == 16


def test_where_the_device_works_apart_the_longer_counts(reading, roofs):
    together = estimates(reading, roofs)
    reading.device = torch.device("cuda")
    for unit, found in estimates(reading, roofs).items():
        handing = 0.005 * found.operations
        moving = together[unit].milliseconds - handing
        assert moving > 0
        assert found.milliseconds == pytest.approx(max(handing, moving))


def depends_on_data(x):
    return OWN_GELU(x) if x.sum() > 1e6 else F.gelu(x)


def test_what_cannot_be_predicted_says_why_and_is_timed(model, roofs, quick_compiler):
    decisions = [*DECISIONS[:2], BY_NAME[COMPILE],
                 planted("depends on the data", "mvgpt.model.gelu", depends_on_data)]  # fmt: skip
    found = compare_decisions(model, random_ids(300, 32, 0), decisions, seed=0, budget=0.1,
                              roofs=roofs, clock=FakeClock())  # fmt: skip
    compiled, depends = found["decisions"][2:]
    assert compiled["predicted"] is None
    assert compiled["reasons"]["predicted"] == COMPILED
    assert depends["predicted"] is None
    assert "data-dependent" in depends["reasons"]["predicted"]
    assert "\n" not in depends["reasons"]["predicted"]
    assert depends["skipped"] is None
    assert depends["token"]["milliseconds"]["n"] >= 10


def test_it_is_predicted_before_it_is_timed(model, roofs, monkeypatch):
    predicted = []

    def time_arms(arms, *args):
        predicted.append([arm.predicted for arm in arms])
        return timed(arms, *args)

    timed = comparison.time_arms
    monkeypatch.setattr(comparison, "time_arms", time_arms)
    found = compare_decisions(model, random_ids(300, 32, 0), DECISIONS[:3], seed=0, budget=0.1,
                              roofs=roofs, clock=FakeClock())  # fmt: skip
    base, _, gelu = found["decisions"]
    assert predicted[0] == predicted[1]
    for unit, change in predicted[0][2].items():
        measured = base[unit]["milliseconds"]["median"]
        ratio = 1 + change["milliseconds"] / measured
        assert gelu["predicted"][unit] == {**change, "ratio": pytest.approx(ratio)}
        assert ratio < 1


def test_without_roofs_there_is_no_prediction(model):
    found = compare_decisions(model, random_ids(300, 32, 0), DECISIONS[:2], seed=0, budget=0.1,
                              clock=FakeClock())  # fmt: skip
    for row in found["decisions"]:
        assert row["predicted"] is None
        assert row["reasons"] == {"predicted": UNMEASURED}


def test_half_the_vocabulary_is_13_percent_of_a_token_and_12_of_a_pass():
    """The closed forms, in the default sizes, are what the graphs cost."""
    config = GPTConfig()
    half, whole = work(config, 5_000), work(config, 10_000)
    assert 1 - half["token"] / whole["token"] == pytest.approx(0.133, abs=0.0005)
    assert 1 - half["pass"] / whole["pass"] == pytest.approx(0.123, abs=0.0005)
    assert whole["pass"] == 8_005_877_760
    assert FOUR_BYTES * whole["token"] == 57_827_328
    model = GPT(GPTConfig(vocab_size=5_000)).eval()
    ids = random_ids(5_000, 256, seed=0)
    costs = node_costs(graph.export_pass(model, ids), ids)
    assert total(costs).flops == half["pass"]
    biases = sum(p.numel() for name, p in model.h.named_parameters()
                 if name.endswith("bias") and "ln_" not in name)  # fmt: skip
    standing = sum(cost.standing for name, cost in costs.items() if name.startswith("linear"))
    assert standing == FOUR_BYTES * (half["token"] + biases)
