import pytest

from mvgpt.measure import report


@pytest.mark.parametrize(
    ("median", "low", "high", "shown"),
    [
        (52.613, 51.921, 53.412, "52.6 (51.9 to 53.4)"),
        (52.613, 42.0, 63.0, "53 (42 to 63)"),
        (0.95641, 0.95012, 0.96190, "0.956 (0.950 to 0.962)"),
        (7.4, 7.4, 7.4, "7.400 (7.400 to 7.400)"),
        (1234.5, 1100.0, 1400.0, "1230 (1100 to 1400)"),
    ],
)
def test_digits_are_what_the_interval_supports(median, low, high, shown):
    assert report.show_spread({"median": median, "low": low, "high": high, "n": 12}) == shown


def test_few_samples_have_no_interval():
    assert (
        report.show_spread({"median": 52.613, "low": None, "high": None, "n": 3}) == "52.6 (n = 3)"
    )


def test_noise_is_said():
    quiet = {"median": 50.0, "low": 48.0, "high": 53.0, "n": 20}
    assert report.noise_note(quiet, {**quiet, "low": None, "high": None}) == []
    assert "too noisy" in report.noise_note(quiet, {**quiet, "high": 70.0})[0]


def test_tables_fit_and_carry_no_colour():
    text = report.text_table("Title", ["name", "ms"], [["x" * 120, "1"], ["[red]y[/red]", "2"]])
    assert max(map(len, text.splitlines())) <= 100
    assert "[red]y[/red]" in text
    assert "\x1b" not in text
    assert text.startswith("Title\n")


def test_conditions_are_one_line():
    conditions = {"machine": "m", "device": "cpu", "threads": 2, "usable_cores": 4,
                  "dtype": "float32", "torch": "2", "load_average": 0.5}  # fmt: skip
    assert report.describe(conditions).startswith("m, cpu, 2 threads on 4 usable cores")
    assert report.describe(conditions).endswith("load average 0.5")
    assert "load" not in report.describe(conditions | {"load_average": None})
