"""Long work is counted on stderr, where that is a terminal."""

import sys
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


def progress(items: Iterable, description: str, done: int = 0) -> Iterator:
    """The items, counted from `done` on; nothing is drawn when stderr is piped.

    It draws between the items alone, never beside what may be timed.
    """
    console = Console(stderr=True)
    text = TextColumn("{task.description}: {task.completed}")
    columns = SpinnerColumn(), text, TimeElapsedColumn()
    with Progress(
        *columns,
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=sys.stdout.isatty(),  # else what is printed would go to stderr too
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(description, total=None, completed=done)
        for item in items:
            yield item
            bar.advance(task)
            bar.refresh()
