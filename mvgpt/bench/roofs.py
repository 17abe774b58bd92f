"""How fast does this machine multiply, move bytes and hand over operations, at best?

    python bench.py roofs                       # in the model's shapes and dtype, some ten seconds
    python bench.py roofs --device cpu --threads 1

Matrix products in the model's shapes and in squares; reading, and reading and writing, data of
0.4 to 230 MB; and the model's twin: the same operations with almost no work in them. No operation
of the model can be faster than these roofs. Writes results/bench-roofs-<device>.json, which the
other scripts use again where the conditions are the same.
"""

import argparse

from mvgpt import GPT, Tokenizer
from mvgpt.measure import report
from mvgpt.measure.roofs import measure_roofs


def add_options(parser: argparse.ArgumentParser) -> None:
    """It has none of its own."""


def measure(args: argparse.Namespace, model: GPT, tokenizer: Tokenizer) -> dict:
    """The results' own keys: `roofs`."""
    return {"roofs": measure_roofs(model, args.seed)}


def render(results: dict) -> str:
    """What is printed: a function of the results file alone."""
    roofs = results["roofs"]
    products = [[" x ".join(map(str, row["shape"])), report.show_spread(row["gflops"])]
                for row in roofs["products"]]  # fmt: skip
    moves = [[f"{row['megabytes']:g}", *(report.show_spread(row[key]) for key in ("read",
              "read_write"))] for row in roofs["bandwidth"]]  # fmt: skip
    one = roofs["hand_over"]
    return "\n".join([
        report.describe(results["conditions"]),
        "",
        report.text_table("Matrix products", ["M x K x N", "GFLOP/s"], products),
        f"the peak: {report.show_spread(roofs['peak'])} GFLOP/s",
        "",
        report.text_table("Bandwidth, by the size of the data", ["MB", "reading, GB/s",
                          "reading and writing, GB/s"], moves),
        "",
        f"handing over an operation: {report.show_spread(one['microseconds'])} us, the mean of the "
        f"{one['operations']} of the twin's pass",
        *report.noise_note(roofs["peak"], one["microseconds"]),
    ])  # fmt: skip
