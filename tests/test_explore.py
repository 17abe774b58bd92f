import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from urllib.parse import unquote
from urllib.request import ProxyHandler, build_opener

import pytest
import torch
from conftest import but_for_load

from mvgpt import GPT, GPTConfig, ports
from mvgpt.errors import InputError, run
from mvgpt.measure import graph
from mvgpt.measure.conditions import ROOT

pytest.importorskip("model_explorer", reason="the viewer, ai-edge-model-explorer, is not here")

import explore  # noqa: E402  after the check for the viewer
from mvgpt.measure import changes, nodes, page  # noqa: E402

FETCH = build_opener(ProxyHandler({})).open


@pytest.fixture
def start(monkeypatch, capsys):
    """Run explore.py in this process; its exit status, its output and its errors."""

    def start(*args):
        monkeypatch.setattr(sys, "argv", ["explore.py", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            run(explore.main)
        printed, errors = capsys.readouterr()
        return end.value.code or 0, printed, but_for_load(errors)

    return start


@pytest.fixture
def listener():
    """A socket that listens at a free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def export(n_layer=2):
    config = GPTConfig(vocab_size=300, n_positions=8, n_embd=16, n_layer=n_layer, n_head=2)
    return graph.export_pass(GPT(config), torch.zeros(1, 8, dtype=torch.int64))


def always(milliseconds):
    value = float(milliseconds)
    return {"median": value, "low": value, "high": value, "n": 9}


def planted(exported):
    """Results in which the nodes take 1, 2, 3 ... ms."""
    found = [
        {**graph.describe_node(node), "milliseconds": always(number), "flops": 0, "bytes": 8,
         "intensity": None, "share_of_roof": 0.5, "bound": "bandwidth", "suspect": False}
        for number, node in enumerate(graph.operations(exported), 1)
    ]  # fmt: skip
    total = sum(range(len(found) + 1))
    ledger = {"plain": always(2 * total), "nodes": always(total), "between": always(0),
              "residual": always(total), "closes": False}  # fmt: skip
    return {"operations": len(found), "nodes": found, "ledger": ledger, "step": None}


def test_times_are_written_and_printed(checkpoint, tmp_path, start):
    out = tmp_path / "my résults"
    status, printed, errors = start(checkpoint, "--times", "--no-serve", "--out", out)
    assert errors == ""
    text = (out / "explore-cpu.json").read_text(encoding="utf-8")
    results = json.loads(text, parse_constant=pytest.fail)  # NaN and the like
    assert results["operations"] == len(results["nodes"]) == 59
    assert results["tokens"] == 32
    ledger = results["ledger"]
    closes = ledger.pop("closes")
    assert ledger.keys() == {"plain", "nodes", "between", "residual"}
    assert status == (3 if closes is False else 0)
    total = sum(node["milliseconds"]["median"] for node in results["nodes"])
    # A sum of medians is not the median of sums, least of all on a busy machine.
    assert 0.4 < total / results["ledger"]["nodes"]["median"] < 1.6
    for times in [
        *results["ledger"].values(),
        *(node["milliseconds"] for node in results["nodes"]),
    ]:
        assert times.keys() == {"median", "low", "high", "n"}
        assert times["low"] <= times["median"] <= times["high"]
        assert times["n"] >= 9
    assert str(tmp_path) not in text
    assert socket.gethostname() not in text
    assert results["roofs"]["from"] == "this run"
    results["ledger"]["closes"] = closes
    assert explore.render(results) in printed
    assert max(map(len, explore.render(results).splitlines())) <= 100
    assert (out / results["trace"]).exists()


def test_without_times_there_are_none(checkpoint, tmp_path, start):
    status, printed, _ = start(checkpoint, "--no-serve", "--tokens", "5", "--out", tmp_path)
    results = json.loads((tmp_path / "explore-cpu.json").read_text(encoding="utf-8"))
    assert status == 0
    assert results["tokens"] == 5
    assert results["operations"] == 59
    assert results["ledger"] is None
    assert results["trace"] is None
    assert {node["milliseconds"] for node in results["nodes"]} == {None}
    assert "13 linear, 8 transpose, 7 add" in printed
    assert " ms" not in printed
    assert list(tmp_path.glob("*.gz")) == []


@pytest.mark.parametrize("n_layer", [2, 6, 48])
def test_node_data_goes_by_the_ids_of_the_graph(n_layer):
    """And the page stays small: a layer to each block, and few of the weights' values."""
    exported = export(n_layer)
    config = page.graphs_page({"pass": exported}, planted(exported))
    (shown,) = config.graphs_list[0]["graphs"]
    namespaces = {node.id: node.namespace for node in shown.nodes}
    data = json.loads(config.node_data_list[0].to_json_string())["pass"]
    operations = [node for node in graph.operations(exported)]
    assert shown.id == "pass"
    assert list(data["results"]) == [node.name for node in operations]
    assert data["results"].keys() <= namespaces.keys()
    layers = {name.split("/")[1] for name in namespaces.values() if "Block" in name}
    assert layers == {f"mvgpt.model.Block_{number}" for number in range(n_layer)}
    transferred = config.get_transferrable_data()
    assert len(transferred["graphs_list"]) < 3e6
    assert set(transferred["node_data_target_models"]) == {"mvGPT, pass"}
    assert "graphs://mvGPT, pass/0" in unquote(config.to_url_param_value())


def test_colours_go_from_slate_to_coral():
    data = json.loads(
        page.node_data("pass", {"a": 0.0123456789, "b": 59.0}, True, {}.get).to_json_string()
    )
    data = data["pass"]
    assert [stop["stop"] for stop in data["gradient"]] == [0, 1]
    assert [stop["bgColor"] for stop in data["gradient"]] == [page.SLATE, page.CORAL]
    values = [result["value"] for result in data["results"].values()]
    assert values == [0.01235, 59]  # no more digits than can be read


def test_what_must_not_be_added_up_is_in_no_sum():
    exported = export()
    config = page.graphs_page({"pass": exported}, planted(exported))
    names = [source.split("/")[2] for source in config.node_data_sources]
    sets = [json.loads(each.to_json_string())["pass"] for each in config.node_data_list]
    data = dict(zip(names, sets, strict=True))
    hidden = {name for name, column in data.items() if column.get("hideAggregatedStats")}
    assert hidden == {name for name, column in data.items() if column["hideInChildrenStatsTable"]}
    assert hidden == {"share of its roof", "bound by"}
    assert set(data) == hidden | {"milliseconds", "FLOP", "bytes"}  # no FLOP, so no FLOP per byte


def test_a_busy_port_that_was_asked_for_is_an_error_before_any_work(
    checkpoint, tmp_path, start, listener
):
    port = listener.getsockname()[1]
    status, printed, errors = start(checkpoint, "--port", port, "--out", tmp_path / "out")
    assert (status, printed) == (2, "")
    assert errors == f"error: port {port} of localhost is busy; give --port another\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("port", ["0", "70000", "abc", "-1", "8080.5", ""])
def test_an_impossible_port_is_an_error(port, tmp_path, start):
    status, _, errors = start("--port", port, "--out", tmp_path / "out")
    assert status == 2
    assert errors == f"error: {port!r} is not a port; --port takes a whole number from 1 to 65535\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "::1", "192.0.2.1"])
def test_a_host_that_is_not_ours_is_an_error(host, tmp_path, start):
    status, _, errors = start("--host", host, "--out", tmp_path / "out")
    assert status == 2
    assert errors.startswith(f"error: cannot serve at {host}, port 8080: ")
    assert errors.count("\n") == 1


def test_an_empty_host_is_an_error(start):
    status, _, errors = start("--host", "")
    assert status == 2
    assert errors.startswith("error: the host to serve at is empty")


def test_too_many_tokens_are_an_error(checkpoint, tmp_path, start):
    status, _, errors = start(checkpoint, "--no-serve", "--tokens", 33, "--out", tmp_path / "out")
    assert status == 2
    assert errors == "error: 33 tokens do not fit the window of 32\n"


def test_the_next_free_port_is_taken(listener):
    first = listener.getsockname()[1]
    port = ports.choose_port("localhost", None, first)
    assert port > first
    assert not ports.busy("localhost", port)
    with pytest.raises(InputError, match=f"port {first} of localhost is busy"):
        ports.choose_port("localhost", first, first)


def test_a_listener_on_ipv6_alone_makes_localhost_busy(monkeypatch):
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with server:
        port = server.getsockname()[1]
        assert not ports.busy("127.0.0.1", port)
        both = [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: both)
        assert ports.busy("localhost", port)


def test_a_port_is_free_right_after_its_use(listener):
    port = listener.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)):
        connection, _ = listener.accept()
        listener.close()
        connection.close()  # first, so that this side keeps the port for a while
    assert not ports.busy("localhost", port)


def test_a_server_that_does_not_answer_is_given_up(listener, monkeypatch):
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    listener.close()
    monkeypatch.setattr(ports, "PATIENCE", 0.2)
    for alive in (True, False):
        with pytest.raises(InputError, match="does not answer"):
            ports.wait_for_answer(url, b"", lambda alive=alive: alive)


def test_no_thread_of_the_server_outlives_us(monkeypatch, capsys):
    """Not even where its search for a newer version gets no answer."""
    asked, opened = threading.Event(), []

    def hang():
        asked.set()
        time.sleep(5)

    def open_browser(address):
        opened.append(address)
        asked.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(page.server, "_check_new_version", hang)
    monkeypatch.setattr(page.webbrowser, "open_new_tab", open_browser)
    exported = export()
    port = ports.choose_port("localhost", None, 8090)
    shown = page.graphs_page({"pass": exported}, planted(exported))
    with pytest.raises(KeyboardInterrupt):
        page.serve(shown, "localhost", port, browser=True)
    assert asked.is_set()
    assert [thread for thread in threading.enumerate() if not thread.daemon] == [
        threading.main_thread()
    ]
    printed = capsys.readouterr().out
    assert printed == f"\nthe graph is at\n{opened[0]}\nCtrl-C ends it\n"
    assert opened[0].startswith(f"http://localhost:{port}/?data=%7B%22models%22")
    content = json.load(FETCH(f"http://localhost:{port}/api/v1/load_node_data?node_data_index=0"))
    assert len(json.loads(content["content"])["pass"]["results"]) == 59


def test_public_hosts():
    assert not ports.is_public("localhost")
    assert ports.is_public("0.0.0.0")


def test_the_printed_address_answers_and_ctrl_c_ends_it(checkpoint, tmp_path):
    """With 8080 taken, and with proxies in the environment at which nothing answers."""
    nowhere = "http://127.0.0.1:9"
    names = ("http_proxy", "https_proxy", "all_proxy")
    env = os.environ | {name: nowhere for name in names} | {n.upper(): nowhere for n in names}
    env.pop("NO_PROXY", None)
    env.pop("no_proxy", None)
    command = [sys.executable, ROOT / "explore.py", checkpoint, "--no-browser", "--out", tmp_path]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a background job ignores it
    blocker = None if ports.busy("localhost", 8080) else socket.create_server(("127.0.0.1", 8080))
    try:
        process = subprocess.Popen(command, env=env, cwd=tmp_path, preexec_fn=heed, **pipes)
        lines = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()  # it has not ended
        address = next(line.strip() for line in lines if line.startswith("http://"))
        address, _, data = address.partition("?data=")
        port = int(address.removeprefix("http://localhost:").removesuffix("/"))
        assert lines[0] == f"port 8080 is busy; the page will be at the next free one, {port}\n"
        assert b"Model Explorer" in FETCH(f"{address}?data={data}").read()
        shown = json.loads(unquote(data))
        assert shown["models"] == [{"url": "graphs://mvGPT, pass/0"}]
        graphs = json.load(FETCH(f"{address}api/v1/load_graphs_json?graph_index=0"))["graphs"]
        assert len(graphs[0]["nodes"]) > 59
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert time.monotonic() - start < 10  # a second, if the machine is free
        assert but_for_load(process.stderr.read()) == "stopped\n"
        assert json.loads((tmp_path / "explore-cpu.json").read_text(encoding="utf-8"))
    finally:
        process.kill()
        if blocker:
            blocker.close()


def test_a_ledger_that_does_not_close_ends_with_status_3(checkpoint, tmp_path, start, monkeypatch):
    """And the graph is served all the same, until Ctrl-C."""
    broken = planted(export())["ledger"]
    monkeypatch.setattr(nodes, "measure_ledger", measured_as(broken))
    served = []

    def serve(*args):
        served.append(args)
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "serve", serve)
    args = (checkpoint, "--times", "--out", tmp_path)
    status, printed, _ = start(*args, "--no-serve")
    assert status == 3
    assert nodes.BROKEN in printed
    assert start(*args)[0] == 3
    assert len(served) == 1
    monkeypatch.setattr(nodes, "measure_ledger", measured_as({**broken, "closes": None}))
    status, printed, _ = start(*args, "--no-serve")
    assert status == 0
    assert "too noisy to say" in printed


def measured_as(ledger):
    def measure_ledger(timed, twin, seed):
        timed.time_nodes()
        return ledger

    return measure_ledger


def test_a_step_has_its_own_nodes_and_ledger(checkpoint, tmp_path, start):
    args = (checkpoint, "--times", "--no-serve", "--out", tmp_path)
    _, printed, errors = start(*args, "--step", "9", "--plot")
    for name in ("roofline", "ledger"):
        assert (tmp_path / f"explore-cpu-{name}.png").stat().st_size > 1000
    results = json.loads((tmp_path / "explore-cpu.json").read_text(encoding="utf-8"))
    assert errors == ""
    step = results["step"]
    assert (step["position"], step["operations"], len(step["nodes"])) == (9, 63, 63)
    assert {node["name"] for node in step["nodes"]} > {"cat", "cat_3"}
    assert step["ledger"]["plain"]["median"] > 0
    assert explore.render(results) in printed
    assert "A token that sees 9" in printed
    assert start(checkpoint, "--no-serve", "--out", tmp_path, "--step")[0] == 0
    results = json.loads((tmp_path / "explore-cpu.json").read_text(encoding="utf-8"))
    assert results["step"]["position"] == 16  # half a window


def test_a_comparison_is_written_and_printed(checkpoint, tmp_path, start):
    args = (checkpoint, "--no-serve", "--out", tmp_path, "--compare", "GELU as one operation")
    status, printed, errors = start(*args)
    assert (status, errors) == (0, "")
    text = (tmp_path / "explore-compare-cpu.json").read_text(encoding="utf-8")
    results = json.loads(text, parse_constant=pytest.fail)
    assert changes.render(results) in printed
    assert results["pass"].keys() == {"plain", "nodes", "rest", "adds_up"}
    assert not (tmp_path / "explore-cpu.json").exists()


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["--compare", "gelu"], "there is no decision 'gelu'"),
        (["--compare", "torch.compile"], "torch.compile runs no graph of these nodes"),
        (["--compare", "as written", "--step"], "leave out --times and --step"),
        (["--plot"], "--plot draws the times of --times"),
        (["--step", "33"], "33 tokens do not fit the window of 32"),
    ],
)
def test_what_cannot_be_shown_is_refused(args, named, checkpoint, tmp_path, start):
    status, printed, errors = start(checkpoint, "--no-serve", "--out", tmp_path, *args)
    assert (status, printed) == (2, "")
    assert named in errors
    assert errors.count("\n") == 1
