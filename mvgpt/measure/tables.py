"""The tables of decisions.py: functions of its results alone."""

import textwrap

from mvgpt.measure import report
from mvgpt.measure.arms import TIMES_ROUNDING
from mvgpt.measure.reading import GREEDY
from mvgpt.measure.timing import FASTER, INVALID, NO_DIFFERENCE

MISSING = {
    "token": "token",
    "calls_per_token": "count of operations",
    "greedy_tokens": "greedy tokens",
    "predicted": "prediction",
    "max_logit_difference": "largest difference",
    "error_ratio": "error ratio",
}


def outputs(results: dict) -> str:
    """What comes out of each, and in how many operations."""
    columns = ["decision", "logits differ by", "error ratio", "same likeliest",
               f"{GREEDY} greedy tokens", "operations"]  # fmt: skip
    title = (f"Logits on {results['text']}: how far from those as written; their error against\n"
             f"float64, over that of as written (invalid above {TIMES_ROUNDING}); "
             "and the operations of a token")  # fmt: skip
    return report.text_table(title, columns, [output(row) for row in results["decisions"]])


def output(row: dict) -> list[str]:
    if row["skipped"]:
        return [row["name"], "skipped", "", "", "", ""]
    difference, ratio, calls = (
        row[key] for key in ("max_logit_difference", "error_ratio", "calls_per_token")
    )
    return [
        row["name"],
        "not a number" if difference is None else f"{difference:.1e}" if difference else "0",
        "not a number" if ratio is None else report.significant(ratio, 3),
        report.percent(row["argmax_agreement"]),
        greedy(row),
        "-" if calls is None else str(calls),
    ]


def greedy(row: dict) -> str:
    if row["greedy_tokens"] is None:
        return "-"
    return f"differ from {row['first_difference']}" if row["first_difference"] else "equal"


def times(title: str, unit: str, rows: list[dict]) -> str:
    columns = ["decision", f"{unit}, ms", "of as written", "predicted", "difference"]
    return report.text_table(title, columns, [time(row, unit) for row in rows])


def time(row: dict, unit: str) -> list[str]:
    found = row[unit]
    if found is None:
        return [row["name"], "-", "-", "-", "not timed"]
    milliseconds = report.show_spread(found["milliseconds"])
    if found["verdict"] is None:  # as written itself
        return [row["name"], milliseconds, "1", "-", "-"]
    return [
        row["name"],
        milliseconds,
        report.show_ratio(found["ratio"]),
        f"{row['predicted'][unit]['ratio']:.2f}" if row["predicted"] else "-",
        "none shown" if found["verdict"] == NO_DIFFERENCE else found["verdict"],
    ]


def notes(rows: list[dict]) -> list[str]:
    """Below the tables: what was skipped and why, what is invalid, what compiling took."""
    lines = [f"{row['name']} is skipped: {row['skipped']}" for row in rows if row["skipped"]]
    lines += [f"{row['name']} is invalid: it computes something else" for row in rows
              if row["pass"] and row["pass"]["verdict"] == INVALID]  # fmt: skip
    lines += [f"{row['name']} has no {what}: {why}" for row in rows for what, why in missing(row)]
    lines += [compiling(row, rows[0]) for row in rows if row["compile_seconds"] is not None]
    return [part for line in lines for part in textwrap.wrap(line, report.WIDTH)]


def missing(row: dict) -> list[tuple[str, str]]:
    """What a row has not, as "token, greedy tokens", and why."""
    names: dict[str, list[str]] = {}
    for key, why in row["reasons"].items():
        names.setdefault(why, []).append(MISSING[key])
    return [(", ".join(found), why) for why, found in names.items()]


def compiling(row: dict, base: dict) -> str:
    """The seconds that compiling took, and after how many passes they are won back."""
    text = f"{row['name']}: compiling took {row['compile_seconds']:.0f} s (n = 1), "
    if not row["pass"] or row["pass"]["verdict"] != FASTER:
        text += "which no number of passes is shown to win back"
    else:
        ratio, milliseconds = row["pass"]["ratio"], base["pass"]["milliseconds"]["median"]
        passes = (1000 * row["compile_seconds"] / (milliseconds * (1 - ratio[key]))
                  for key in ("value", "low", "high"))  # fmt: skip
        text += "won back after {:,.0f} passes ({:,.0f} to {:,.0f})".format(*passes)
    return f"{text}; compiled again {row['recompiles']} times since"
