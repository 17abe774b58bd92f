"""The page of explore.py: graphs in Google's Model Explorer, with a value on each node.

Imported by explore.py alone, so that the other scripts run where the viewer is not installed.
"""

import io
import sys
import webbrowser
from collections.abc import Callable
from contextlib import redirect_stdout
from threading import Thread

import model_explorer
from model_explorer import node_data_builder, server
from model_explorer.config import ModelExplorerConfig
from torch.export import ExportedProgram

from mvgpt.errors import InputError
from mvgpt.measure import report
from mvgpt.ports import wait_for_answer

HEALTHY = b"model_explorer_ok"  # what its server answers when it is ready
SLATE, CORAL, BLACK = "#94a3b8", "#ff7f50", "#000000"  # black can be read on both
# Of the results; the page opens with the last that there is.
COLUMNS = {"bound by": "bound", "share of its roof": "share_of_roof", "FLOP per byte": "intensity",
           "bytes": "bytes", "FLOP": "flops", "milliseconds": "milliseconds"}  # fmt: skip
ADDED_UP = ("milliseconds", "FLOP", "bytes")  # what makes sense as a sum
BOUNDS = {"bandwidth": SLATE, "compute": CORAL}


def graphs_page(graphs: dict[str, ExportedProgram], results: dict) -> ModelExplorerConfig:
    """What Model Explorer is to show: the "pass" and perhaps the "step", each with its data."""
    config = models(graphs)
    for key in graphs:
        found = results if key == "pass" else results[key]
        for column, values in columns(found["nodes"]).items():
            data = node_data(key, values, column in ADDED_UP, BOUNDS.get)
            config.add_node_data(column, data, model_name=model(key))
    return config


def changed_page(exported: ExportedProgram, results: dict) -> ModelExplorerConfig:
    """The graph under a decision, in colour where a node is slower or quicker than before; of
    several that stand together the last one carries the change, so that the column adds up.
    """
    key = results["decision"]
    values = {row["after"][-1]: row["milliseconds"]["median"]
              for row in results["changes"] if row["shown"] and row["after"]}  # fmt: skip
    data = node_data(key, values, True, signed)
    return models({key: exported}).add_node_data("change, ms", data, model_name=model(key))


def models(graphs: dict[str, ExportedProgram]) -> ModelExplorerConfig:
    """Each graph as a model of its own. Its key is the graph's id too, by which the page finds
    node data: two that are called alike would be renamed, and one be left without.
    """
    config = model_explorer.config()
    for key, exported in graphs.items():
        with redirect_stdout(io.StringIO()):  # it says that it converts
            config.add_model_from_pytorch(model(key), exported)
        config.graphs_list[-1]["graphs"][0].id = key
    return config


def model(key: str) -> str:
    """The name of a graph's model on the page."""
    return f"mvGPT, {key}"


def columns(found: list[dict]) -> dict[str, dict]:
    """The values of the nodes by column, those that there are; of a time the median."""
    values = {}
    for column, key in COLUMNS.items():
        cells = {node["name"]: node[key] for node in found if node[key] is not None}
        if cells:
            values[column] = {name: cell["median"] if isinstance(cell, dict) else cell
                              for name, cell in cells.items()}  # fmt: skip
    return values


def node_data(
    graph: str, values: dict[str, float | str], added_up: bool, color: Callable[..., str | None]
) -> node_data_builder.ModelNodeData:
    """A column of a graph: each node's value under the id that it has on the page, its name.

    Where `color` has none for a value, it is coloured from the least to the most.
    """
    results = {name: node_data_builder.NodeDataResult(shown(value), color(value), BLACK)
               for name, value in values.items()}  # fmt: skip
    gradient = [
        node_data_builder.GradientItem(stop, bgColor=color, textColor=BLACK)
        for stop, color in ((0, SLATE), (1, CORAL))
    ]
    data = node_data_builder.GraphNodeData(
        results=results,
        gradient=gradient,
        hideAggregatedStats=None if added_up else ["sum"],
        hideInChildrenStatsTable=not added_up,
    )
    return node_data_builder.ModelNodeData(graphsData={graph: data})


def shown(value: float | str) -> float | str:
    """With no more digits than can be read."""
    return float(report.significant(value, 4)) if isinstance(value, float) else value


def signed(change: float) -> str:
    """The colour of a change: quicker or slower."""
    return SLATE if change < 0 else CORAL


def serve(config: ModelExplorerConfig, host: str, port: int, browser: bool) -> None:
    """Serve the page until Ctrl-C; its address is printed when it answers.

    The viewer's server prints the address before that, waits for itself without a time limit and
    through proxies, and asks the network for a newer version. So its wait is left out, its output
    is not shown, and it runs in a daemon thread, whose threads are daemons too: all end with us.
    """
    out = sys.stdout
    settings = {"host": host, "port": port, "config": config}
    quiet = {"no_open_in_browser": True, "skip_health_check": True}
    thread = Thread(target=server.start, kwargs=settings | quiet, daemon=True)
    with redirect_stdout(io.StringIO()):
        thread.start()
        wait_for_answer(f"http://{host}:{port}/check_health", HEALTHY, thread.is_alive)
        address = f"http://{host}:{port}/?data={config.to_url_param_value()}"
        print(f"\nthe graph is at\n{address}\nCtrl-C ends it", file=out, flush=True)
        if browser:
            webbrowser.open_new_tab(address)
        while thread.is_alive():
            thread.join(0.5)
    raise InputError(f"Model Explorer's server at {host}, port {port} has ended")
