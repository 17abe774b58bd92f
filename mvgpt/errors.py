"""Bad input is answered with one sentence, not with a traceback."""

import os
import sys
from collections.abc import Callable


class InputError(ValueError):
    """What was wrong with what the user gave, with the values, and what to do."""


def run(main: Callable[[], int | None]) -> None:
    """Run a script's main() and exit: 2 after an InputError, 130 after Ctrl-C."""
    sys.stdout.reconfigure(errors="replace")  # a console that cannot print a character prints "?"
    try:
        status = main()
        sys.stdout.flush()
        sys.exit(status)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone: head, or a closed pager
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
