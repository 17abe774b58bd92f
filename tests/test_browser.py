"""explore.py's page in a real browser: Chromium, without a screen."""

import io
import json
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from threading import Thread

import numpy
import pytest
import torch

from mvgpt import GPT, GPTConfig, save_checkpoint
from mvgpt.measure import graph
from mvgpt.measure.conditions import ROOT
from mvgpt.measure.decisions import DECISIONS, applied
from mvgpt.ports import choose_port, wait_for_answer

pytest.importorskip("model_explorer", reason="the viewer, ai-edge-model-explorer, is not here")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not here")
Image = pytest.importorskip("PIL.Image", reason="pillow is not here")

from mvgpt.measure import page as viewer  # noqa: E402  after the check for it

CHROMIUM = shutil.which("chromium")
SEARCH = "Search nodes/layers by regex"


@pytest.fixture(scope="module")
def page():
    if not CHROMIUM:
        pytest.skip("chromium is not here")
    options = ["--no-sandbox", "--enable-unsafe-swiftshader"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(60_000)
        yield page
        browser.close()


@contextmanager
def served(*args):
    """Run explore.py; the address that it prints. Ctrl-C must end it with the page open."""
    command = [sys.executable, ROOT / "explore.py", "--no-browser", *args]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a background job ignores it
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed)
    try:
        yield next(line.strip() for line in process.stdout if line.startswith("http://"))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130  # a second, if the machine is free
    finally:
        process.kill()
        process.wait()


def stats(page):
    """The table of the node data: Min, Max, Sum, Avg."""
    page.get_by_text("Aggregated stats").wait_for()
    rows = re.findall(r"^(Max|Sum)\t(.*)$", page.inner_text("body"), re.MULTILINE)
    return {name: values.split("\t") for name, values in rows}


def pixels(page, color):
    """How many of the page's pixels have that colour, give or take what drawing does to it."""
    image = numpy.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), dtype=int)
    return int((abs(image - color) <= 3).all(axis=2).sum())


def rgb(color):
    return numpy.array(list(bytes.fromhex(color.removeprefix("#"))))


def select(page, node, label):
    """Search a node by its id and select it, which unfolds its layers; what is said of it."""
    page.get_by_placeholder(SEARCH).fill(node)
    for _ in range(20):  # the list of what was found may be that of an earlier search
        page.get_by_text(label, exact=True).first.click(modifiers=["Alt"])
        page.wait_for_timeout(500)
        said = page.inner_text("body").partition("NODE INFO")[2]
        if re.match(rf"\s*op name\s+{label}\s+id\s+{node}\s", said):
            return said
    pytest.fail(f"{node} cannot be selected")


def wait_for_pixels(page, color):
    """The layers take their time to unfold."""
    for _ in range(20):
        if pixels(page, color) > 1000:
            return True
        page.wait_for_timeout(500)
    return False


def test_the_timed_graph_is_shown(tmp_path, tokenizer, page):
    torch.manual_seed(0)  # a large vocabulary, so that the head is the slowest by far
    config = GPTConfig(vocab_size=20_000, n_positions=32, n_embd=64, n_layer=2, n_head=4)
    save_checkpoint(tmp_path / "tiny", GPT(config), tokenizer)
    with served(tmp_path / "tiny", "--times", "--out", tmp_path) as address:
        page.goto(address)
        results = json.loads((tmp_path / "explore-cpu.json").read_text(encoding="utf-8"))
        medians = {node["name"]: node["milliseconds"]["median"] for node in results["nodes"]}
        shown = stats(page)
        assert float(shown["Max"][-1]) == pytest.approx(medians["linear_12"], rel=1e-3)
        assert float(shown["Sum"][-1]) == pytest.approx(sum(medians.values()), rel=1e-3)
        flops = sum(node["flops"] for node in results["nodes"])
        assert shown["Sum"][:3] == ["-", "-", "-"]  # of bounds, shares and intensities
        assert float(shown["Sum"][4]) == flops
        assert page.get_by_text("mvGPT, pass", exact=True).count() == 1

        slate, coral = rgb(viewer.SLATE), rgb(viewer.CORAL)
        assert pixels(page, coral) < 300  # the layers are folded
        select(page, "linear_12", "aten.linear")
        assert wait_for_pixels(page, coral)

        page.get_by_placeholder(SEARCH).fill("erf")
        page.get_by_text("6 results").wait_for()  # two, and what they read and are read by
        panel = select(page, "erf_1", "aten.erf")
        assert "mvgpt.model.GPT/mvgpt.model.Block_1/mvgpt.model.MLP_mlp" in panel
        value = float(re.search(r"milliseconds\s+([\d.e-]+)", panel)[1])
        assert value == pytest.approx(medians["erf_1"], rel=1e-3)
        low, high = min(medians.values()), max(medians.values())
        assert wait_for_pixels(page, slate + (value - low) / (high - low) * (coral - slate))


def test_the_bare_graph_of_48_blocks_opens(tmp_path, tokenizer, page):
    config = GPTConfig(vocab_size=300, n_positions=8, n_embd=16, n_layer=48, n_head=2)
    torch.manual_seed(0)
    save_checkpoint(tmp_path / "deep", GPT(config), tokenizer)
    with served(tmp_path / "deep", "--out", tmp_path) as address:
        page.goto(address)
        page.get_by_text("op node count").wait_for()
        assert re.search(r"op node count\s+2029", page.inner_text("body"))
        assert "milliseconds" not in page.inner_text("body")
        assert "mvgpt.model.Block_47/" in select(page, "erf_47", "aten.erf")


def test_a_token_is_a_second_graph_with_its_own_node_data(tmp_path, tokenizer, page):
    config = GPTConfig(vocab_size=300, n_positions=32, n_embd=64, n_layer=2, n_head=4)
    torch.manual_seed(0)
    save_checkpoint(tmp_path / "tiny", GPT(config), tokenizer)
    with served(tmp_path / "tiny", "--step", "9", "--out", tmp_path) as address:
        page.goto(address)
        results = json.loads((tmp_path / "explore-cpu.json").read_text(encoding="utf-8"))
        sums = [sum(node["flops"] for node in found["nodes"]) for found in (results,
                results["step"])]  # fmt: skip
        assert float(stats(page)["Sum"][-1]) == sums[0]
        assert sums[0] != sums[1]
        page.get_by_text(re.compile(r"\d+ nodes")).first.click()
        page.get_by_text("step", exact=True).click()
        page.get_by_text("mvGPT, step", exact=True).wait_for()
        page.wait_for_timeout(2000)
        assert float(stats(page)["Sum"][-1]) == sums[1]
        assert "cat_3" in select(page, "cat_3", "aten.cat")


def test_what_a_decision_changes_is_coloured(model, page):
    (gelu,) = (d for d in DECISIONS if d.name == "GELU as one operation")
    with applied(gelu.patches(model)):
        exported = graph.export_pass(model, torch.zeros(1, 32, dtype=torch.int64))
    rows = [{"after": ["gelu"], "milliseconds": {"median": -0.25}, "shown": True},
            {"after": ["linear_4"], "milliseconds": {"median": 0.5}, "shown": True},
            {"after": ["gelu_1"], "milliseconds": {"median": -9.0}, "shown": False},
            {"after": [], "milliseconds": {"median": -9.0}, "shown": True}]  # fmt: skip
    shown = viewer.changed_page(exported, {"decision": gelu.name, "changes": rows})
    port = choose_port("localhost", None, 8080)
    Thread(target=viewer.serve, args=(shown, "localhost", port, False), daemon=True).start()
    wait_for_answer(f"http://localhost:{port}/check_health", viewer.HEALTHY, lambda: True)
    page.goto(f"http://localhost:{port}/?data={shown.to_url_param_value()}")
    assert [float(value) for value in stats(page)["Sum"]] == [0.25]
    assert re.search(r"change, ms\s+-0.25", select(page, "gelu", "aten.gelu"))
    assert wait_for_pixels(page, rgb(viewer.CORAL))  # the linear beside it
    assert re.search(r"change, ms\s+0.5", select(page, "linear_4", "aten.linear"))
    assert wait_for_pixels(page, rgb(viewer.SLATE))
    assert re.search(r"change, ms\s+-\s", select(page, "gelu_1", "aten.gelu"))
