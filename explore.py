"""What is a GPT made of, and which part of it takes how long? A pass as a graph, in the browser.

    python explore.py                           # the graph, at http://localhost:8080
    python explore.py --times                   # each node timed on the CPU, and coloured by it
    python explore.py --times --no-serve        # measure and write, serve nothing

A pass over a full window of random tokens is exported and shown in Model Explorer, where each
module is a layer that opens. With --times the graph is run a node at a time, in rounds that
alternate with the plain pass; the sum of the nodes stands beside the plain pass, which shows that
no time got lost. Writes results/explore-cpu.json, and with --times a trace with a span for each
node, results/trace-nodes-cpu.json.gz, for https://ui.perfetto.dev.
"""

import argparse
import io
import sys
import textwrap
import webbrowser
from collections import Counter
from contextlib import redirect_stdout
from functools import partial
from threading import Thread

import model_explorer
import torch
from model_explorer import node_data_builder, server
from model_explorer.config import ModelExplorerConfig
from torch.export import ExportedProgram

from mvgpt import GPT
from mvgpt.arguments import positive
from mvgpt.data import random_ids
from mvgpt.errors import InputError, run
from mvgpt.measure import graph, options, report
from mvgpt.measure.timing import as_json, spread
from mvgpt.measure.trace import profiled, save_trace
from mvgpt.ports import choose_port, is_public, port_number, wait_for_answer

NAME = "mvGPT"
HOST, PORT = "localhost", 8080
HEALTHY = b"model_explorer_ok"  # what its server answers when it is ready
ROUNDS = 30
FAR = 0.05  # how far the sum of the nodes may be from the plain pass, as a share of it
SLATE, CORAL, BLACK = "#94a3b8", "#ff7f50", "#000000"  # black can be read on both
TRACE = "trace-nodes-cpu.json.gz"


def main() -> None:
    args = parse()
    port = None if args.no_serve else find_port(args)
    model, _, device = options.prepare(args)
    tokens = args.tokens or model.config.n_positions
    ids = random_ids(model.config.vocab_size, tokens, args.seed)
    results = options.header("explore", args, model, device)
    exported = graph.export_pass(model, ids)
    results |= describe_graph(exported, ids)
    if args.times:
        add_times(results, args, model, exported, ids)
    print(render(results))
    print(f"\nwrote {report.shown(options.save(results, args, 'explore-cpu'))}")
    if results["trace"]:
        print(f"wrote {report.shown(args.out / results['trace'])}")
    if port:
        serve(page(exported, results), args.host, port, not args.no_browser)


def parse() -> argparse.Namespace:
    parser = options.parser(__doc__)
    add = parser.add_argument
    add("--times", action="store_true", help="time each node and colour the graph by it (no)")
    add("--tokens", type=positive, help="in the pass (a full window: 256)")
    add("--port", help=f"of the page ({PORT}, or the next that is free)")
    add("--host", default=HOST, help=f"of the page ({HOST}, which only this machine can reach)")
    add("--no-browser", action="store_true", help="open no browser (opens one)")
    add("--no-serve", action="store_true", help="write the results and end (serves until Ctrl-C)")
    args = parser.parse_args()
    args.port = None if args.port is None else port_number(args.port)
    return args


def find_port(args: argparse.Namespace) -> int:
    """The page's port, before any work is done; what should be known of it is said."""
    port = choose_port(args.host, args.port, PORT)
    if args.port is None and port != PORT:
        print(f"port {PORT} is busy; the page will be at the next free one, {port}\n")
    if is_public(args.host):
        print(f"warning: Model Explorer shows any file of this machine to whoever can reach "
              f"{args.host}; --host {HOST} keeps others out", file=sys.stderr)  # fmt: skip
    return port


def describe_graph(exported: ExportedProgram, ids: torch.Tensor) -> dict:
    """The results of a pass that was not timed."""
    nodes = [graph.describe_node(node) for node in graph.operations(exported)]
    return {
        "tokens": ids.shape[1],
        "operations": len(nodes),
        "nodes": [{**node, "milliseconds": None} for node in nodes],
        "ledger": None,
        "trace": None,
    }


def add_times(
    results: dict,
    args: argparse.Namespace,
    model: GPT,
    exported: ExportedProgram,
    ids: torch.Tensor,
) -> None:
    """Put the times into the results, and write a trace of one more run."""
    clock = graph.NodeClock(exported)
    rounds, runs = graph.time_nodes(model, clock, ids, ROUNDS, args.seed)
    for node in results["nodes"]:
        node["milliseconds"] = as_json(spread([run[node["name"]] for run in runs], 1000))
    results["ledger"] = {
        case: as_json(spread([seconds[case] for seconds in rounds], 1000))
        for case in ("plain", "nodes")
    }
    _, profiler = profiled(partial(clock.run, ids), "nodes", graph.CPU)
    save_trace(profiler, args.out / TRACE)
    results["trace"] = TRACE


def render(results: dict) -> str:
    """What is printed: a function of the results file alone."""
    kinds = Counter(node["operation"].removeprefix("aten::") for node in results["nodes"])
    counts = ", ".join(f"{count}\xa0{kind}" for kind, count in kinds.most_common())
    return "\n".join([
        report.describe(results["conditions"]),
        "",
        f"A pass over {results['tokens']} tokens: {results['operations']} operations",
        textwrap.fill(counts, report.WIDTH).replace("\xa0", " "),
        *(times(results["nodes"], results["ledger"]) if results["ledger"] else []),
    ])  # fmt: skip


def times(nodes: list[dict], ledger: dict) -> list[str]:
    """The five slowest nodes, and all of them beside the plain pass."""
    total, plain = ledger["nodes"]["median"], ledger["plain"]["median"]
    slowest = sorted(nodes, key=lambda node: node["milliseconds"]["median"], reverse=True)[:5]
    rows = [
        [
            node["name"],
            node["module"] or "the model itself",
            node["source"] or "",
            report.show_spread(node["milliseconds"]),
            report.percent(node["milliseconds"]["median"] / total),
        ]
        for node in slowest
    ]
    columns = ["node", "module", "source", "ms", "share"]
    return [
        "",
        report.text_table("The five slowest nodes", columns, rows, text_columns=3),
        "",
        f"all {len(nodes)} nodes together: {report.show_spread(ledger['nodes'])} ms, "
        f"{report.percent(total / plain)} of the plain pass",
        f"the plain pass: {report.show_spread(ledger['plain'])} ms",
        *report.noise_note(ledger["plain"], ledger["nodes"]),
        *["the nodes do not add up to the plain pass: do not trust their times"]
        * (abs(total / plain - 1) > FAR),
    ]


def page(exported: ExportedProgram, results: dict) -> ModelExplorerConfig:
    """What Model Explorer is to show: the graph, and the times where there are any."""
    config = model_explorer.config()
    with redirect_stdout(io.StringIO()):  # it says that it converts
        config.add_model_from_pytorch(NAME, exported)
    if results["ledger"]:
        config.add_node_data("milliseconds", node_data(results["nodes"]), model_name=NAME)
    return config


def node_data(nodes: list[dict]) -> node_data_builder.ModelNodeData:
    """Each node's median in ms, under the id that it has on the page: its name."""
    values = {}
    for node in nodes:
        shown = float(report.significant(node["milliseconds"]["median"], 4))
        values[node["name"]] = node_data_builder.NodeDataResult(shown)
    gradient = [
        node_data_builder.GradientItem(stop, bgColor=color, textColor=BLACK)
        for stop, color in ((0, SLATE), (1, CORAL))  # the quickest, the slowest
    ]
    data = node_data_builder.GraphNodeData(results=values, gradient=gradient)
    return node_data_builder.ModelNodeData(graphsData={"graph": data})


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


if __name__ == "__main__":
    run(main)
