"""A run of decisions.py beside an earlier one of the same machine: what has changed?

Times drift from day to day, and with them what a decision seems to be worth. A ratio has changed
where its interval now and its interval then have no value in common, and not otherwise.
"""

import math
import textwrap
from pathlib import Path

from mvgpt.config import SIZES
from mvgpt.errors import InputError
from mvgpt.files import read_json
from mvgpt.measure import report
from mvgpt.measure.decisions import BASE
from mvgpt.measure.reading import SHARES
from mvgpt.measure.timing import INVALID

ALIKE = ("machine", "device", "threads", "usable_cores", "dtype")  # else nothing can be compared
SAID = ("torch", "os", "python", "step")  # what may differ, and then is said
MODEL = (*SIZES, "activation_function")
CHANGED, NO_CHANGE = "changed", "no change shown"


def read_earlier(path: Path, results: dict) -> dict:
    """What an earlier run found: `conditions`, and of each decision the units that were timed.

    A file that is no such results, or that was measured under other conditions than the head of
    these results says, is an InputError that names both.
    """
    file = read_json(path)
    try:
        if file["script"] != "decisions" or file["schema"] != 1:
            raise ValueError
        conditions = {key: file["conditions"][key] for key in (*ALIKE, *SAID)}
        sizes = {key: file["model"][key] for key in MODEL}
        rows = {row["name"]: {unit: timed(row[unit]) for unit in SHARES}
                for row in file["decisions"]}  # fmt: skip
        rows[BASE]["pass"]["ratio"]  # noqa: B018
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"{path} does not hold the results of decisions.py") from None
    there, here = conditions | sizes, results["conditions"] | results["model"]
    if others := [key for key in (*ALIKE, *MODEL) if there[key] != here[key]]:
        then, now = (", ".join(f"{key} {found[key]}" for key in others) for found in (there, here))
        raise InputError(f"{path} was measured with {then}, and this run would be with {now}: "
                         "times of the two say nothing of each other")  # fmt: skip
    return {"conditions": conditions, "decisions": rows}


def timed(found: dict | None) -> dict | None:
    """A unit's time, its ratio and its verdict, with nothing but numbers where they belong."""
    if found is None:
        return None
    spread = numbers(found["milliseconds"], "median", "n")
    return {"milliseconds": spread, "ratio": numbers(found["ratio"], "value"),
            "verdict": found["verdict"]}  # fmt: skip


def numbers(found: dict, *needed: str) -> dict:
    """The finite numbers of these names, and the interval's, which may be null."""
    values = {key: found[key] for key in (*needed, "low", "high")}
    ends = [value for key, value in values.items() if key in needed or value is not None]
    if not all(map(math.isfinite, ends)):
        raise ValueError
    return values


def set_beside(earlier: dict, results: dict) -> dict:
    """The `against` of the results: the conditions then, and each decision then and now.

    Of "as written" its time, of the others their ratio to it; null where one of the runs has none.
    """
    rows = []
    for row in results["decisions"]:
        key = "milliseconds" if row["name"] == BASE else "ratio"
        before = earlier["decisions"].get(row["name"], dict.fromkeys(SHARES))
        units = {unit: both(before[unit], row[unit], key) for unit in SHARES}
        rows.append({"name": row["name"], "compared": key, **units})
    return {"conditions": earlier["conditions"], "decisions": rows}


def both(then: dict | None, now: dict | None, key: str) -> dict | None:
    if then is None or now is None:
        return None
    change = judge(then[key], now[key])
    if INVALID in (then["verdict"], now["verdict"]):
        change = INVALID
    return {"then": then[key], "now": now[key], "change": change}


def judge(then: dict, now: dict) -> str:
    """Changed where the intervals have no value in common."""
    if None in (then["low"], now["low"]):
        return NO_CHANGE
    apart = then["high"] < now["low"] or now["high"] < then["low"]
    return CHANGED if apart else NO_CHANGE


def render(results: dict) -> str:
    """The tables of then and now, and what differs between the runs that may."""
    found, now = results["against"], results["conditions"]
    others = [f"{key} {found['conditions'][key] or 'unknown'} then, {now[key] or 'unknown'} now"
              for key in SAID if found["conditions"][key] != now[key]]  # fmt: skip
    said = "Then and now differ in: " + "; ".join(others) if others else ""
    return "\n".join([
        "Beside an earlier run on this machine (as written in ms, the others as ratios to it)",
        *textwrap.wrap(said, report.WIDTH),
        *(line for unit in SHARES for line in ("", table(unit, found["decisions"]))),
    ])  # fmt: skip


def table(unit: str, rows: list[dict]) -> str:
    columns = ["decision", "then", "now", "change"]
    cells = [[row["name"], *then_and_now(row[unit], row["compared"])] for row in rows]
    return report.text_table(f"A {unit}", columns, cells)


def then_and_now(found: dict | None, compared: str) -> list[str]:
    if found is None:
        return ["-", "-", "not in both"]
    show = report.show_spread if compared == "milliseconds" else report.show_ratio
    return [show(found["then"]), show(found["now"]), found["change"]]
