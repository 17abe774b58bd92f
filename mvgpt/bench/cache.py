"""Writing with the KV cache and without it, at several lengths of one text."""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import torch

from mvgpt import GPT, Tokenizer, stream
from mvgpt.arguments import above_zero, positive
from mvgpt.measure import options, report
from mvgpt.measure.timing import (
    FASTER,
    INVALID,
    Round,
    as_json,
    compare,
    run_rounds,
    spread,
    time_steps,
    verdict,
)
from mvgpt.progress import progress

CASES = {"cached": True, "cached, again": True, "uncached": False}  # "again" is the A/A arm
LENGTHS = (5, 50, 100, 250)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What this mode takes on the command line."""
    options.add_prompt(parser)
    parser.add_argument("--lengths", type=positive, nargs="+", default=LENGTHS,
                        metavar="TOKENS", help="how much to write (5 50 100 250)")  # fmt: skip
    parser.add_argument("--budget", type=above_zero, default=90.0,
                        help="seconds of rounds; 10 are run in any case (90)")  # fmt: skip


def measure(args: argparse.Namespace, model: GPT, tokenizer: Tokenizer) -> dict:
    """The results' own keys: `writing`, a row a length."""
    lengths = sorted(set(args.lengths))
    prompt = options.read_prompt(args, model, tokenizer, lengths[-1])
    writing = Writing(model, prompt, lengths[-1], tokenizer.vocab_size, args.seed)
    return {"writing": compare_lengths(writing, lengths, args.budget)}


class Writing:
    """The cases, each of which writes the same text, and what they left: ids and their times."""

    def __init__(self, model: GPT, prompt: list[int], tokens: int, vocab: int, seed: int):
        self.model, self.prompt, self.tokens = model, prompt, tokens
        self.vocab, self.seed = vocab, seed
        self.device = model.wte.weight.device
        self.ids: dict[str, list[int]] = {}  # the last text of each case
        self.laps = defaultdict(list)  # of each case, the seconds until each token, run by run

    def write(self, name: str) -> float:
        """Write once, keep the time of each token, return the seconds of all."""
        generator = torch.Generator(self.device).manual_seed(self.seed)
        ids = stream(self.model, self.prompt, self.tokens, generator=generator, vocab=self.vocab,
                     use_cache=CASES[name])  # fmt: skip
        self.ids[name], laps = time_steps(ids, self.device)
        self.laps[name].append(laps)
        return laps[-1]

    def same(self) -> int:
        """How many ids from the start are the same in all cases."""
        columns = zip(*self.ids.values(), strict=True)
        return next((i for i, column in enumerate(columns) if len(set(column)) > 1), self.tokens)

    def rounds(self, length: int) -> list[Round]:
        """The seconds that the first `length` tokens took, without the warm-up."""
        runs = zip(*(self.laps[name][1:] for name in CASES), strict=True)
        return [{n: laps[length - 1] for n, laps in zip(CASES, run, strict=True)} for run in runs]


def compare_lengths(writing: Writing, lengths: Sequence[int], budget: float) -> list[dict]:
    """The `writing` rows of the results: one text a round serves all lengths.

    `ratio` is the time with the cache over the time without it. Where the ids of the two differ
    the verdict is "invalid", and the row holds no times.
    """
    cases = {name: partial(writing.write, name) for name in CASES}
    rounds = run_rounds(cases, seed=writing.seed, base="cached", budget=budget)
    for _ in progress(rounds, f"rounds of {writing.tokens} tokens"):
        pass
    same = writing.same()
    return [row(writing, length, length <= same) for length in lengths]


def row(writing: Writing, length: int, valid: bool) -> dict:
    if not valid:
        return {"length": length, "cached": None, "uncached": None, "ratio": None,
                "verdict": INVALID}  # fmt: skip
    rounds = writing.rounds(length)
    ratio = compare(rounds, "cached", "uncached")
    return {
        "length": length,
        **{name: side(writing.laps[name][1:], length) for name in ("cached", "uncached")},
        "ratio": as_json(ratio),
        "verdict": verdict(ratio, compare(rounds, "cached, again", "cached")),
    }


def side(runs: list[list[float]], length: int) -> dict:
    """Until the first token, and for each token after it; the latter null where there is none."""
    later = length - 1
    per_token = [1000 * (laps[later] - laps[0]) / later for laps in runs] if later else None
    return {
        "prefill_milliseconds": as_json(spread([laps[0] for laps in runs], 1000)),
        "milliseconds_per_token": as_json(spread(per_token)) if later else None,
    }


def render(results: dict) -> str:
    """What is printed: a function of the results file alone."""
    rows = results["writing"]
    columns = ["tokens", "cached, ms/token", "uncached, ms/token", "cached / uncached",
               "the cache is"]  # fmt: skip
    return "\n".join([
        report.describe(results["conditions"]),
        "",
        report.text_table("Writing with the KV cache and without", columns, list(map(cells, rows))),
        *(f"prefill, to the first token: {first('cached', row)} ms cached, "
          f"{first('uncached', row)} uncached" for row in rows[:1] if row["ratio"]),
        "cached / uncached is of the whole text, prefill included",
        *(f"no gain shown at length {row['length']}" for row in rows
          if row["verdict"] not in (FASTER, INVALID)),
        *(f"with and without the cache the texts differ within {row['length']} tokens"
          for row in rows if row["verdict"] == INVALID),
    ])  # fmt: skip


def first(name: str, row: dict) -> str:
    """The prefill of one side: one text serves all lengths, so that it is the same in each row."""
    return report.show_spread(row[name]["prefill_milliseconds"])


def cells(row: dict) -> list[str]:
    if row["verdict"] == INVALID:
        return [str(row["length"]), "", "", "", INVALID]
    per_token = [row[name]["milliseconds_per_token"] for name in ("cached", "uncached")]
    return [
        str(row["length"]),
        *(report.show_spread(found) if found else "-" for found in per_token),
        report.show_ratio(row["ratio"]),
        row["verdict"],
    ]
