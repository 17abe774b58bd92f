"""Write the measured parts of README and docs from results/reference/.

    python tools/figures.py           # rewrite what stands between the marks, and the charts
    python tools/figures.py --check   # write nothing; fail where a page or a chart is stale

A page marks the place with a comment "figure: profiler" and the next comment "end". What stands
between them is what the script would print of every such file in results/reference/<machine>/. The
charts of these files lie in docs/images/.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.image import imread

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the scripts, whose tables are shown

import decisions  # noqa: E402
import explore  # noqa: E402
import profiler  # noqa: E402
from mvgpt.bench import cache, roofs  # noqa: E402
from mvgpt.errors import InputError, run  # noqa: E402
from mvgpt.files import read_json  # noqa: E402
from mvgpt.measure import changes  # noqa: E402
from mvgpt.measure.plots import UNITS, plot_decisions, plot_profile  # noqa: E402
from mvgpt.measure.rooflines import plot_ledger, plot_predictions, plot_roofline  # noqa: E402

RESULTS, IMAGES = ROOT / "results" / "reference", ROOT / "docs" / "images"
RENDER = {  # by the name in the page: the results files, and what prints them
    "bench": ("bench-[cm]*", cache.render),  # cpu, cuda, mps: the devices, and no mode
    "compare": ("explore-compare-*", changes.render),
    "decisions": ("decisions-*", decisions.render),
    "explore": ("explore-cpu", explore.render),
    "pair": ("profiler-pair-*", profiler.render),
    "profiler": ("profiler-[cm]*", profiler.render),
    "roofs": ("bench-roofs-*", roofs.render),
}
MARK = re.compile(r"(<!-- figure: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="fail where something is stale")
    check = parser.parse_args().check
    stale = [page for page in pages(ROOT) if refresh(page, RESULTS, check)]
    stale += redraw(RESULTS, IMAGES, check)
    for path in stale:
        print(f"{'stale' if check else 'wrote'}: {path.relative_to(ROOT)}")
    return 1 if check and stale else 0


def pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def refresh(page: Path, results: Path, check: bool) -> bool:
    """Whether the page was stale; it is rewritten unless that is only to be checked."""
    old = page.read_text(encoding="utf-8")
    new = MARK.sub(lambda mark: mark[1] + figure(mark[2], results) + mark[3], old)
    if not check and new != old:
        page.write_text(new, encoding="utf-8")
    return new != old


def figure(name: str, results: Path) -> str:
    """All results of a script, as it prints them, or the charts of all of its results."""
    if name in RENDER:
        pattern, render = RENDER[name]
        files = sorted(results.glob(f"*/{pattern}.json"))
        blocks = [f"```\n{render(read_json(file))}\n```\n" for file in files]
    elif name in CHARTS:
        names = (name for name, *_ in CHARTS[name](results))
        blocks = [f"![{Path(name).stem.replace('-', ' ')}](images/{name})\n" for name in names]
    else:
        raise InputError(f"there is no figure {name!r}; there are {', '.join(RENDER | CHARTS)}")
    return "\n".join(blocks) or "Not measured yet.\n"


def redraw(results: Path, images: Path, check: bool) -> list[Path]:
    """The charts that were stale; they are replaced unless that is only to be checked."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = draw(results, Path(folder))
        stale = [path for path in fresh if not same_image(path, images / path.name)]
        if stale and not check:
            images.mkdir(exist_ok=True)
            for path in stale:
                (images / path.name).write_bytes(path.read_bytes())
    return [images / path.name for path in stale]


def draw(results: Path, folder: Path) -> list[Path]:
    """All charts, drawn into the folder."""
    charts = [chart for find in CHARTS.values() for chart in find(results)]
    return [plot(*given, folder / name) for name, plot, *given in charts]


def profiler_charts(results: Path) -> list[tuple]:
    """Two of each profile: the name of the chart, the function that draws it, what it takes."""
    return [
        (f"{file.parent.name}-{file.stem}-{unit}.png", plot_profile, read_json(file), unit)
        for file in sorted(results.glob("*/profiler-[cm]*.json"))
        for unit in UNITS
    ]


def decisions_chart(results: Path) -> list[tuple]:
    """One of all decisions, side by side."""
    documents = [read_json(file) for file in sorted(results.glob("*/decisions-*.json"))]
    return [("decisions.png", plot_decisions, documents)] if documents else []


def of_each(pattern: str, **plots: Callable) -> Callable[[Path], list[tuple]]:
    """The charts of each results file of a pattern."""

    def charts(results: Path) -> list[tuple]:
        return [(f"{file.parent.name}-{file.stem}-{name}.png", plot, read_json(file))
                for file in sorted(results.glob(f"*/{pattern}.json"))
                for name, plot in plots.items()]  # fmt: skip

    return charts


CHARTS = {
    "profiler_charts": profiler_charts,
    "decisions_chart": decisions_chart,
    "roofline_chart": of_each("explore-cpu", roofline=plot_roofline),
    "ledger_chart": of_each("explore-cpu", ledger=plot_ledger),
    "predictions_chart": of_each("decisions-*", predictions=plot_predictions),
}


def same_image(one: Path, other: Path) -> bool:
    """Whether both have the same pixels, however they are compressed."""
    return other.exists() and np.array_equal(imread(one), imread(other))


if __name__ == "__main__":
    run(main)
