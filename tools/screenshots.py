"""The docs' pictures of explore.py's page, from a results file: nothing is measured here.

    python tools/screenshots.py results/reference/<machine>/explore-cpu.json

Writes graph.png, the model unfolded, and graph-block.png, its first block unfolded, to
docs/images. Needs playwright and Debian's chromium.
"""

import argparse
import shutil
import sys
from pathlib import Path
from threading import Thread

import torch
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import explore  # noqa: E402  it lies beside this folder
from mvgpt import GPT, GPTConfig  # noqa: E402
from mvgpt.errors import InputError, run  # noqa: E402
from mvgpt.files import read_json  # noqa: E402
from mvgpt.measure import graph  # noqa: E402
from mvgpt.measure import page as viewer  # noqa: E402
from mvgpt.ports import choose_port, wait_for_answer  # noqa: E402

VIEWPORT, SCALE = {"width": 1280, "height": 1000}, 1.5
NOWHERE = (100, 500)  # beside the graph
GRAPH, ZOOM_OUT = (455, 430), 130  # where the wheel turns, and how far
OPTIONS = ["--no-sandbox", "--enable-unsafe-swiftshader"]  # no screen and no GPU are needed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="an explore-cpu.json with times")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    args = parser.parse_args()
    results = read_json(args.results)
    if not results["ledger"]:
        raise InputError(f"{args.results} has no times; run explore.py --times")
    with sync_playwright() as driver:
        head = results["nodes"][-1]["name"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=OPTIONS)
        page = browser.new_page(viewport=VIEWPORT, device_scale_factor=SCALE)
        page.goto(serve(results))
        page.get_by_text("Aggregated stats").wait_for()
        select(page, head, "aten.linear")
        page.mouse.click(*NOWHERE)  # nothing is selected any more
        page.keyboard.press("Space")  # zooms to fit
        shoot(page, args.out / "graph.png")
        select(page, "erf", "aten.erf")
        page.wait_for_timeout(3000)
        page.mouse.move(*GRAPH)
        page.keyboard.down("Control")
        page.mouse.wheel(0, ZOOM_OUT)
        page.keyboard.up("Control")
        shoot(page, args.out / "graph-block.png")
        browser.close()


def serve(results: dict) -> str:
    """Show the graph of a model of that size, with the times of the results; its address."""
    names = set(GPTConfig.__dataclass_fields__)
    config = GPTConfig(**{k: v for k, v in results["model"].items() if k in names})
    ids = torch.zeros(1, results["tokens"], dtype=torch.int64)
    shown = viewer.graphs_page({"pass": graph.export_pass(GPT(config), ids)}, results)
    port = choose_port(explore.HOST, None, explore.PORT)
    Thread(target=viewer.serve, args=(shown, explore.HOST, port, False), daemon=True).start()
    wait_for_answer(f"http://{explore.HOST}:{port}/check_health", viewer.HEALTHY, lambda: True)
    return f"http://{explore.HOST}:{port}/?data={shown.to_url_param_value()}"


def select(page: Page, words: str, label: str) -> None:
    """Search, unfold the layers around the first node of that label, and select it."""
    box = page.get_by_placeholder("Search nodes/layers by regex")
    box.fill(words)
    page.get_by_text(label, exact=True).first.click(modifiers=["Alt"])
    box.fill("")


def shoot(page: Page, path: Path) -> None:
    page.wait_for_timeout(3000)  # the layers take their time to unfold
    page.screenshot(path=path)
    print(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size / 1e3:.0f} kB)", file=sys.stderr)


if __name__ == "__main__":
    run(main)
