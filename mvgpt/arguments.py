"""What the scripts accept on the command line: types for argparse, which names a bad value.

They have an upper end too: far beyond what anyone means, where a number stops being a slip and a
sentence says so before PyTorch or the memory does.
"""

import argparse
from collections.abc import Callable

MOST = 10**9  # of what is measured: seconds, passes over the texts, learning rates


def whole(least: int, most: int) -> Callable[[str], int]:
    """A type of argument: a whole number from `least` to `most`."""

    def whole_number(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{number} is not in {least} to {most}")
        return number

    whole_number.__name__ = "whole number"  # argparse says "invalid whole number value"
    return whole_number


positive = whole(1, 1_000_000)
threads = whole(1, 1024)
seed = whole(0, 2**32 - 1)


def above_zero(text: str) -> float:
    """A number above 0, and no larger than anyone can mean."""
    number = float(text)
    if not 0 < number <= MOST:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0 and up to {MOST}")
    return number


def short_name(text: str) -> str:
    """Up to 60 characters that can be printed, so that a results file can hold them."""
    if not text.isprintable() or len(text) > 60:
        raise argparse.ArgumentTypeError(f"{text!a} is not a name of up to 60 printable characters")
    return text
