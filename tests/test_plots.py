import copy

import pytest
from matplotlib.colors import to_rgb, to_rgba

from mvgpt.measure import plots

PNG = b"\x89PNG\r\n\x1a\n"
SPREAD = {"median": 50.0, "low": 49.0, "high": 51.0, "n": 20}
CONDITIONS = {
    "machine": "here-2-cores", "device": "cpu", "threads": 2, "usable_cores": 2,
    "dtype": "float32", "torch": "2.13.0", "load_average": 0.5,
}  # fmt: skip


def operations(kinds, tokens=1):
    """The first takes half of the time, the next half of the rest, and so on; 100 ms in all."""
    return [
        {"name": f"aten::kind_{n}", "calls": (n + 1) * tokens, "waits": False,
         "profiled_milliseconds": 100 / 2 ** (n + 1), "share": 1 / 2 ** (n + 1)}
        for n in range(kinds)
    ]  # fmt: skip


@pytest.fixture
def profile():
    """As profiler.py writes it."""
    return {
        "conditions": CONDITIONS,
        "pass": {"tokens": 256, "calls": 163, "milliseconds": SPREAD, "profiled_milliseconds": 100,
                 "operations": operations(12), "outside": 1 / 2**12},
        "writing": {"tokens": 10, "calls_per_token": 187.0, "milliseconds_per_token": SPREAD,
                    "profiled_milliseconds_per_token": 10, "operations": operations(3, tokens=10),
                    "outside": 1 / 8},
    }  # fmt: skip


@pytest.fixture
def document():
    """As decisions.py writes it."""

    def times(value, verdict):
        ratio = {"value": value, "low": value - 0.02, "high": value + 0.01}
        return {"milliseconds": SPREAD, "ratio": ratio, "verdict": verdict}

    def row(name, one_pass, token, skipped=None):
        return {"name": name, "pass": one_pass, "token": token, "skipped": skipped}

    return {
        "conditions": CONDITIONS,
        "model": {"name": "stories"},
        "decisions": [
            row("as written", times(1.0, None), times(1.0, None)),
            row("GELU as one operation", times(0.9, "faster"), times(1.0, "no difference shown")),
            row("attention by hand", times(0.8, "invalid"), times(0.7, "invalid")),
            row("torch.compile", None, None, "no compiler"),
        ],
    }


def bar_labels(axes):
    return [text.get_text() for text in axes.texts if "%" in text.get_text()]


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_bars_are_all_of_the_time(profile):
    axes = plots.operations_chart(profile["pass"], 1, "title", "conditions").axes[0]
    widths = [bar.get_width() for bar in axes.patches]
    assert sum(widths) == pytest.approx(100)
    assert widths[0] == pytest.approx(50)
    assert names(axes)[0] == "kind_0, 1 call"
    assert names(axes)[-2:] == ["3 other kinds, 33 calls", "outside of operations"]
    assert len(widths) == len(names(axes)) == len(bar_labels(axes)) == 11
    assert bar_labels(axes)[0] == "50.0 %, 50.0 ms"
    assert widths[-1] == pytest.approx(100 / 2**12)
    assert "%" in axes.get_xlabel()
    assert "milliseconds" in axes.get_xlabel()
    assert axes.get_xlim()[1] > 50
    assert axes.yaxis_inverted()  # the slowest on top


def test_a_token_has_its_own_share_of_calls_and_milliseconds(profile):
    axes = plots.operations_chart(profile["writing"], 10, "title", "conditions").axes[0]
    assert names(axes)[:2] == ["kind_0, 1 call", "kind_1, 2 calls"]
    assert bar_labels(axes)[0] == "50.0 %, 5.00 ms"
    assert "milliseconds a token" in axes.get_xlabel()


def test_kernels_stand_beside_and_waiting_is_called_waiting(profile):
    found = profile["pass"] | {"device_milliseconds": 4.0}
    for n, operation in enumerate(found["operations"]):
        operation["device_milliseconds"] = 3.0 if n == 1 else 1.0 if n == 2 else 0.0
    found["operations"][0] |= {"name": "cudaDeviceSynchronize", "waits": True}
    axes = plots.operations_chart(found, 1, "title", "conditions").axes[0]
    cpu, kernels = axes.containers
    assert sum(bar.get_width() for bar in cpu) == pytest.approx(100)
    assert [bar.get_width() for bar in kernels][:3] == [0, 75, 25]
    assert names(axes)[0] == "cudaDeviceSynchronize (waiting), 1 call"
    assert all(bar.get_hatch() for bar in kernels)  # told apart without colour
    assert not any(bar.get_hatch() for bar in cpu)
    assert len(axes.get_legend().get_texts()) == 2


def test_profile_is_two_files(profile, tmp_path):
    paths = [tmp_path / f"{unit}.png" for unit in plots.UNITS]
    assert [plots.plot_profile(profile, path.stem, path) for path in paths] == paths
    assert all(path.read_bytes().startswith(PNG) for path in paths)
    assert sorted(tmp_path.iterdir()) == paths  # and nothing beside them


def test_ratios_and_their_intervals(document):
    axes = plots.decisions_chart([document]).axes[0]
    assert names(axes) == ["GELU as one operation", "attention by hand", "torch.compile"]
    drawn = [bar.lines[0].get_xdata()[0] for bar in axes.containers]
    assert drawn == [0.9, 1.0, 0.8, 0.7]
    ends = [bar.lines[2][0].get_segments()[0][:, 0] for bar in axes.containers]
    assert ends[0] == pytest.approx([0.88, 0.91])
    texts = [text.get_text() for text in axes.texts]
    assert "0.900 (0.880 to 0.910)" in texts
    assert "0.800 (0.780 to 0.810) invalid" in texts
    assert "skipped" in texts
    assert axes.lines[0].get_xdata() == [1, 1]  # as written


def test_verdicts_are_told_apart_without_colour(document):
    points = [bar.lines[0] for bar in plots.decisions_chart([document]).axes[0].containers]
    markers = [point.get_marker() for point in points]
    assert markers == ["o", "D", "x", "x"]
    assert to_rgba(points[1].get_markerfacecolor()) == to_rgba("white")  # no difference shown
    assert to_rgba(points[0].get_markerfacecolor()) != to_rgba("white")


def test_machines_stand_side_by_side(document, tmp_path):
    other, third = copy.deepcopy(document), copy.deepcopy(document)
    other["conditions"] |= {"machine": "h200", "device": "cuda"}
    other["decisions"][1]["pass"]["ratio"] = {"value": 2.0, "low": 1.9, "high": 2.1}
    del third["decisions"][1]
    figure = plots.decisions_chart([document, other, third])
    assert [axes.get_title("left") for axes in figure.axes] == [
        "here-2-cores, cpu", "h200, cuda", "here-2-cores, cpu"
    ]  # fmt: skip
    assert len({axes.get_xlim() for axes in figure.axes}) == 1  # one scale, to compare by eye
    assert "not measured" in [text.get_text() for text in figure.axes[2].texts]
    path = plots.plot_decisions([document, other, third], tmp_path / "decisions.png")
    assert path.read_bytes().startswith(PNG)


def test_nothing_is_left_of_a_chart_that_fails(document, tmp_path, monkeypatch):
    def fail(figure, path, **options):
        path.write_bytes(PNG)
        raise KeyboardInterrupt

    monkeypatch.setattr(plots.Figure, "savefig", fail)
    with pytest.raises(KeyboardInterrupt):
        plots.plot_decisions([document], tmp_path / "decisions.png")
    assert not list(tmp_path.iterdir())


def test_the_two_colours_differ_in_print():
    """A contrast of 3 to 1 and more, as WCAG counts it, so that grey copies tell them apart."""

    def luminance(color):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                  for c in to_rgb(color)]  # fmt: skip
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted(map(luminance, (plots.SLATE, plots.CORAL)))
    assert (light + 0.05) / (dark + 0.05) > 3
