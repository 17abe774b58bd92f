"""The graph on explore.py's page, with each of the decisions taken."""

import pytest
import torch

from mvgpt.data import random_ids
from mvgpt.measure import graph
from mvgpt.measure.decisions import DECISIONS, applied

pytest.importorskip("model_explorer", reason="the viewer, ai-edge-model-explorer, is not here")

from mvgpt.measure import page  # noqa: E402  after the check for the viewer


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.name)
def test_node_data_goes_by_the_ids_of_the_graph_shown(model, decision, quick_compiler):
    with applied(decision.patches(model)):
        exported = graph.export_pass(model, random_ids(300, 32, seed=0))
    names = [node.name for node in graph.operations(exported)]
    row = {"before": [], "after": names[-1:], "milliseconds": {"median": 1.0}, "shown": True}
    config = page.changed_page(exported, {"decision": decision.name, "changes": [row]})
    (shown,) = config.graphs_list[0]["graphs"]
    assert set(names) <= {node.id for node in shown.nodes}


def test_gelu_as_one_operation_is_four_fewer_a_block(model):
    (decision,) = (d for d in DECISIONS if d.name == "GELU as one operation")
    with applied(decision.patches(model)):
        exported = graph.export_pass(model, torch.zeros(1, 32, dtype=torch.int64))
    assert len(graph.operations(exported)) == 59 - 2 * 4
