"""Tables, and numbers with no more digits than their uncertainty supports."""

import io
import math
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 100


def text_table(title: str, columns: list[str], rows: list[list[str]], text_columns: int = 1) -> str:
    """A table of at most WIDTH columns as plain text; numbers, which come last, to the right."""
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        justify = "left" if number < text_columns else "right"
        table.add_column(Text(column), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=WIDTH, file=io.StringIO(), color_system=None)
    console.print(table)
    return "\n".join([title, *(line.rstrip() for line in console.file.getvalue().splitlines())])


def in_red(text: str, alarm: str) -> str:
    """The text with the alarm in it in red, where stdout is a terminal."""
    return text.replace(alarm, f"\033[31m{alarm}\033[0m") if sys.stdout.isatty() else text


def show_spread(spread: dict) -> str:
    """As "52.6 (51.9 to 53.4)", in the spread's unit; below 8 samples as "52.6 (n = 3)"."""
    median, low, high, n = (spread[key] for key in ("median", "low", "high", "n"))
    if low is None:
        return f"{significant(median, 3)} (n = {n})"
    places = decimals((high - low) / 2, median)
    return "{} ({} to {})".format(*(fixed(value, places) for value in (median, low, high)))


def noise_note(*spreads: dict) -> list[str]:
    """A line where a time is known to no better than a tenth; below 8 samples it is unknown."""
    known = [s for s in spreads if s["low"] is not None]
    if all(s["high"] - s["low"] <= 0.2 * s["median"] for s in known):
        return []
    return ["too noisy to conclude from: close what else runs, or try --threads 1"]


def show_ratio(ratio: dict) -> str:
    """As "0.96 (0.95 to 0.97)"."""
    return show_spread({**ratio, "median": ratio["value"], "n": 0})


def decimals(half: float, value: float) -> int:
    """The decimal places that an interval of that half width supports: about a third of it."""
    size = half / 3 if half > 0 else abs(value) / 1000
    return -math.floor(math.log10(size)) if size > 0 else 0


def fixed(value: float, places: int) -> str:
    """A number with so many decimal places; with -1 rounded to tens."""
    return f"{round(value, places):.{max(0, places)}f}"


def significant(value: float, digits: int) -> str:
    """A number with that many significant digits, never in scientific notation."""
    if value == 0:
        return "0"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def counted(number: int, noun: str) -> str:
    """As "1 thread" or "2 threads"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def shown(path: Path) -> str:
    """A path as a user would type it from where they stand."""
    return os.path.relpath(path) if sys.platform != "win32" else str(path)


def roofs_note(roofs: dict | None) -> list[str]:
    """A line where the machine's roofs were not measured in this run, but read from a file."""
    if roofs is None or roofs.get("from", "this run") == "this run":
        return []
    return [f"the machine's roofs are those of {roofs['from']}; bench.py roofs measures them anew"]


def describe(conditions: dict) -> str:
    """One line of conditions to stand over a table."""
    known = conditions["load_average"] is not None
    load = f", load average {conditions['load_average']}" if known else ""
    return (
        f"{conditions['machine']}, {conditions['device']}, "
        f"{counted(conditions['threads'], 'thread')} on "
        f"{counted(conditions['usable_cores'], 'usable core')}, {conditions['dtype']}, "
        f"torch {conditions['torch']}" + load
    )
