import linecache
import time

import pytest
import torch

from mvgpt import GPT, GPTConfig
from mvgpt.data import random_ids
from mvgpt.errors import InputError
from mvgpt.measure import graph
from mvgpt.measure.conditions import ROOT
from mvgpt.measure.timing import time_result
from mvgpt.measure.trace import profiled
from mvgpt.measure.workload import Timed

# What the source line of an operation must hold; those of a layer hold the layer's name instead.
WRITTEN = {
    "arange": "torch.arange(",
    "view": ".view(",
    "transpose": ".transpose(",
    "reshape": ".reshape(",
    "scaled_dot_product_attention": "scaled_dot_product_attention(",
    "add": " + ",
    "mul": " * ",
    "div": " / ",
    "erf": "erf(",
    "linear": "F.linear(",
}


@pytest.fixture
def ids(model):
    return random_ids(300, 32, seed=0)


@pytest.fixture
def exported(model, ids):
    return graph.export_pass(model, ids)


def test_nodes_are_described_by_module_and_line(model, exported):
    modules = dict(model.named_modules())
    nodes = [graph.describe_node(node) for node in graph.operations(exported)]
    assert len(nodes) == 59
    for node in nodes:
        file, line = node["source"].split(":")
        assert file == "mvgpt/model.py"
        code = linecache.getline(str(ROOT / file), int(line))
        layer = modules[node["module"]]  # which is a path in the model
        kind = node["operation"].removeprefix("aten::")
        if isinstance(layer, torch.nn.Linear | torch.nn.LayerNorm | torch.nn.Embedding):
            assert f"self.{node['module'].split('.')[-1]}(" in code, node
        elif kind == "dropout":
            assert "self.dropout(" in code, node
        else:
            assert WRITTEN[kind] in code, node
    assert nodes[25] == {"name": "erf", "operation": "aten::erf", "module": "h.0.mlp",
                         "source": nodes[24]["source"]}  # fmt: skip
    assert nodes[-1]["module"] == ""  # the head


def test_names_are_those_of_the_module_that_runs(exported):
    module_nodes = exported.module().graph.nodes
    names = [node.name for node in graph.operations(exported)]
    assert names == [node.name for node in module_nodes if node.op == "call_function"]


@pytest.mark.parametrize(
    ("file", "path"),
    [
        (ROOT / "mvgpt" / "model.py", "mvgpt/model.py"),
        (ROOT / ".venv" / "lib" / "site-packages" / "torch" / "x.py", None),
        ("/usr/lib/python3/x.py", None),
    ],
)
def test_repository_path(file, path):
    assert graph.repository_path(str(file)) == path


def test_the_graph_has_all_weights_and_the_shared_one_once(model, exported):
    """Tied, the embedding goes by one name; both its users must lead to it."""
    signature = exported.graph_signature
    weights = {node.name: node for node in exported.graph.nodes
               if node.name in signature.inputs_to_parameters}  # fmt: skip
    assert set(signature.inputs_to_parameters.values()) == set(dict(model.named_parameters()))
    assert [user.name for user in weights["p_wte_weight"].users] == ["embedding", "linear_12"]
    assert all(node.users for node in weights.values())
    counted = sum(p.numel() for p in exported.parameters())
    assert counted == sum(p.numel() for p in model.parameters())


@torch.no_grad()
def test_dropout_is_off_in_the_graph_and_the_modes_are_put_back(config):
    model = GPT(GPTConfig(**{**vars(config), "embd_pdrop": 0.5, "resid_pdrop": 0.5}))
    model.h[0].eval()  # so that the modes are mixed
    modes = [module.training for module in model.modules()]
    ids = random_ids(300, 32, seed=0)
    exported = [graph.export_pass(model, ids).module()(ids) for _ in range(2)]
    assert [module.training for module in model.modules()] == modes
    model.eval()
    for logits in [*exported, model(ids)]:
        torch.testing.assert_close(logits, model(ids), atol=0, rtol=0)


def test_modes_are_put_back_after_an_error(model):
    model.train()
    with pytest.raises(InputError, match="33 tokens do not fit the window of 32"):
        graph.export_pass(model, torch.zeros(1, 33, dtype=torch.int64))
    assert model.training


@pytest.mark.parametrize("tokens", [1, 2, 17, 256])
@torch.no_grad()
def test_windows(tokens):
    model = GPT(GPTConfig(vocab_size=300, n_embd=64, n_layer=1, n_head=4)).eval()
    ids = random_ids(300, tokens, seed=0)
    clock = graph.NodeClock(graph.export_pass(model, ids))
    torch.testing.assert_close(clock.run(ids), model(ids))


def test_more_than_the_window_is_refused():
    model = GPT(GPTConfig(vocab_size=300, n_embd=64, n_layer=1, n_head=4))
    with pytest.raises(InputError, match="257 tokens do not fit the window of 256"):
        graph.export_pass(model, random_ids(300, 257, seed=0))


def test_time_result_stops_when_the_call_returns():
    ticks = iter([3.0, 10.0])
    clock = ticks.__next__
    assert time_result(pow, (2,), {"exp": 5}, clock) == (32, 7.0)


def test_every_node_is_timed_in_every_run(model, ids):
    timed = Timed(model, ids)
    sums = [timed.time_nodes() for _ in range(9)]
    names = [node.name for node in graph.operations(timed.exported)]
    assert [list(run) for run in timed.runs] == [names] * 9
    assert [sum(run.values()) for run in timed.runs] == sums
    assert timed.time() > 0
    assert len({run["linear_12"] for run in timed.runs}) > 1  # each its own measurement


def test_a_slow_operation_is_charged_to_its_node(exported, ids):
    clock = graph.NodeClock(exported)
    node = next(node for node in clock.graph.nodes if node.name == "erf_1")

    def slow(x):
        time.sleep(0.5)  # longer than all others take on a busy machine
        return torch.erf(x)

    node.target = slow
    clock.run(ids)
    assert max(clock.seconds, key=clock.seconds.get) == "erf_1"
    assert clock.seconds["erf_1"] >= 0.5
    assert sum(clock.seconds.values()) - clock.seconds["erf_1"] < 0.5


def test_what_the_interpreter_does_around_an_operation_is_not_charged(exported, ids):
    class Slow(graph.NodeClock):
        def fetch_args_kwargs_from_env(self, n):
            time.sleep(0.02)
            return super().fetch_args_kwargs_from_env(n)

    clock = Slow(exported)
    clock.run(ids)
    assert sum(clock.seconds.values()) < 0.02 * len(clock.seconds)


def test_a_trace_has_a_span_for_each_node(exported, ids):
    clock = graph.NodeClock(exported)
    _, profiler = profiled(lambda: clock.run(ids), "nodes", graph.CPU)
    spans = [e for e in profiler.events() if e.is_user_annotation]
    assert {node.name for node in graph.operations(exported)} <= {span.name for span in spans}
    erf = next(span for span in spans if span.name == "erf")
    assert [child.name for child in erf.cpu_children] == ["aten::erf"]
