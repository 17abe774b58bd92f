"""What is a GPT made of, and which part of it takes how long? A pass as a graph, in the browser.

    python explore.py                           # the graph, at http://localhost:8080
    python explore.py --times                   # each node timed on the CPU, and coloured by it
    python explore.py --times --step 128        # and so a token that sees 128, with the KV cache
    python explore.py --times --no-serve        # measure and write, serve nothing
    python explore.py --compare "GELU as one operation"     # what a decision changes, and where

A pass over a full window of random tokens is exported and shown in Model Explorer, where each
module is a layer that opens; with --step the graph of one token with the KV cache, too. Each node
has its FLOPs and bytes. With --times the graph is run a node at a time, in rounds that alternate
with the plain pass, and the ledger shows whether the nodes add up to it; where they do not, the
exit status is 3. With --plot it is drawn, and the roofline. Writes results/explore-cpu.json
(explore-compare-cpu.json with --compare), and with --times a trace with a span for each node,
results/trace-nodes-cpu.json.gz, for https://ui.perfetto.dev.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial

from mvgpt import GPT
from mvgpt.arguments import positive
from mvgpt.errors import InputError, run
from mvgpt.measure import changes, graph, nodes, options, page, report
from mvgpt.measure.rooflines import plot_ledger, plot_roofline
from mvgpt.measure.roofs import find_roofs
from mvgpt.measure.trace import profiled, save_trace
from mvgpt.measure.workload import Timed
from mvgpt.ports import choose_port, is_public, port_number

HOST, PORT = "localhost", 8080
TRACE = "trace-nodes-cpu.json.gz"
PLOTS = {"roofline": plot_roofline, "ledger": plot_ledger}
UNSOUND = 3  # the exit status where a ledger does not close


def main() -> int:
    args = parse()
    port = None if args.no_serve else find_port(args)
    model, _, device = options.prepare(args)
    header = options.header("explore", args, model, device)
    make_page, status = (compare if args.compare else explore)(args, model, header)
    if port:
        with suppress(KeyboardInterrupt) if status else nullcontext():
            page.serve(make_page(), args.host, port, not args.no_browser)
    return status


def parse() -> argparse.Namespace:
    parser = options.parser(__doc__)
    options.add_plot(parser)
    add = parser.add_argument
    add("--times", action="store_true", help="time each node and colour the graph by it (no)")
    add("--tokens", type=positive, help="in the pass (a full window: 256)")
    add("--step", type=positive, nargs="?", const=0, metavar="POSITION",
        help="show a token with the KV cache, too, that sees so many (half a window)")  # fmt: skip
    add("--compare", metavar="DECISION",
        help="colour what changes under a decision of decisions.py (nothing)")  # fmt: skip
    add("--port", help=f"of the page ({PORT}, or the next that is free)")
    add("--host", default=HOST, help=f"of the page ({HOST}, which only this machine can reach)")
    add("--no-browser", action="store_true", help="open no browser (opens one)")
    add("--no-serve", action="store_true", help="write the results and end (serves until Ctrl-C)")
    args = parser.parse_args()
    args.port = None if args.port is None else port_number(args.port)
    if args.plot and (args.compare is not None or not args.times):
        raise InputError("--plot draws the times of --times; give both")
    if args.compare is not None:  # before any work is done
        args.compare = changes.find_decision(args.compare)
        if args.step is not None or args.times:
            raise InputError("--compare times a pass by itself; leave out --times and --step")
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


def explore(args: argparse.Namespace, model: GPT, header: dict) -> tuple[Callable, int]:
    """Write and print the results; the page, to be made if it is served, and the exit status."""
    subjects = {"pass": nodes.one_pass(model, args.tokens, args.seed)}
    if args.step is not None:
        position = args.step or max(1, model.config.n_positions // 2)
        subjects["step"] = nodes.one_step(model, position, args.seed)
    roofs = find_roofs(header, args.out, model) if args.times else None
    found = {name: nodes.measure(subject, roofs, args.seed) for name, subject in subjects.items()}
    trace = save_nodes(args, subjects["pass"].timed) if args.times else None
    results = header | found["pass"] | {"step": found.get("step"), "roofs": roofs, "trace": trace}
    print(report.in_red(render(results), nodes.BROKEN))
    print(f"\nwrote {report.shown(options.save(results, args, 'explore-cpu'))}")
    if trace:
        print(f"wrote {report.shown(args.out / trace)}")
    for name, plot in PLOTS.items() if args.plot else ():
        print(f"wrote {report.shown(plot(results, args.out / f'explore-cpu-{name}.png'))}")
    status = UNSOUND if any(map(nodes.broken, found.values())) else 0
    graphs = {name: subject.timed.exported for name, subject in subjects.items()}
    return partial(page.graphs_page, graphs, results), status


def save_nodes(args: argparse.Namespace, timed: Timed) -> str:
    """Write a trace of one more run, with a span for each node; its name."""
    _, profiler = profiled(timed.time_nodes, "nodes", graph.CPU)
    save_trace(profiler, args.out / TRACE)
    return TRACE


def compare(args: argparse.Namespace, model: GPT, header: dict) -> tuple[Callable, int]:
    """As explore() does, but for the change of each node under a decision."""
    tokens = args.tokens or model.config.n_positions
    (ids,) = graph.pass_inputs(model, tokens, args.seed)
    found, after = changes.measure(model, ids, args.compare, args.seed)
    results = header | {"tokens": tokens} | found
    print(changes.render(results))
    print(f"\nwrote {report.shown(options.save(results, args, 'explore-compare-cpu'))}")
    return partial(page.changed_page, after.exported, results), 0


def render(results: dict) -> str:
    """What is printed: a function of the results file alone."""
    lines = [report.describe(results["conditions"]), *report.roofs_note(results["roofs"]), "",
             *nodes.render(f"A pass over {results['tokens']} tokens", results)]  # fmt: skip
    if step := results["step"]:
        title = f"A token that sees {step['position']}, itself included, with the KV cache"
        lines += ["", *nodes.render(title, step)]
    return "\n".join(lines)


if __name__ == "__main__":
    run(main)
