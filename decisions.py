"""What is each decision in the model's code worth?

    python decisions.py                         # the model that ships, on the best device here
    python decisions.py --device cpu --threads 1 --budget 120
    python decisions.py path/to/gpt2            # any GPT-2 folder

The model as written against GELU as one operation, attention by hand and torch.compile, over a
full window (a pass) and over one token with half a window in the KV cache. They take turns, round
by round, with "as written" listed twice to show the noise. What comes out is compared first: one
that computes something else is invalid, however fast. Beside them, untrained models with
vocabularies of 5,000, 10,000 and 20,000. Writes results/decisions-<device>.json; with --plot, a
chart.
"""

import argparse
import textwrap

import torch

from mvgpt import Tokenizer
from mvgpt.arguments import above_zero
from mvgpt.data import random_ids
from mvgpt.errors import run
from mvgpt.measure import options, report
from mvgpt.measure.comparison import compare_decisions
from mvgpt.measure.conditions import ROOT
from mvgpt.measure.plots import UNITS, plot_decisions
from mvgpt.measure.timing import FASTER, INVALID
from mvgpt.measure.vocabulary import compare_vocabularies

VOCABULARIES = (5_000, 10_000, 20_000)
STORY = ROOT / "checkpoints" / "stories" / "story.txt"
DECISIONS_SHARE = 0.7  # of the budget; the vocabularies have the rest


def main() -> None:
    args = parse()
    model, tokenizer, device = options.prepare(args)
    results = options.header("decisions", args, model, device)
    text, ids = read_text(tokenizer, model.config.n_positions, args.seed)
    results |= {"text": text, "tokens": ids.size(1)}
    results |= compare_decisions(model, ids, seed=args.seed, budget=DECISIONS_SHARE * args.budget)
    results["vocabulary"] = compare_vocabularies(
        model.config, VOCABULARIES, device,
        seed=args.seed, budget=(1 - DECISIONS_SHARE) * args.budget,
    )  # fmt: skip
    print(render(results))
    path = options.save(results, args, f"decisions-{device.type}")
    print(f"\nwrote {report.shown(path)}")
    if args.plot:
        print(f"wrote {report.shown(plot_decisions([results], path.with_suffix('.png')))}")


def parse() -> argparse.Namespace:
    parser = options.parser(__doc__)
    options.add_device(parser)
    options.add_plot(parser)
    parser.add_argument("--budget", type=above_zero, default=60.0,
                        help="seconds of rounds; 10 of each are run in any case (60)")  # fmt: skip
    return parser.parse_args()


def read_text(tokenizer: Tokenizer, tokens: int, seed: int) -> tuple[str, torch.Tensor]:
    """What is read, in words and as ids (1, tokens): the story, over again where it is short."""
    ids = tokenizer.encode(STORY.read_text(encoding="utf-8")) if STORY.is_file() else []
    if not ids:
        return "random ids", random_ids(tokenizer.vocab_size, tokens, seed)
    over_again = ids * -(-tokens // len(ids))
    return "checkpoints/stories/story.txt", torch.tensor([over_again[:tokens]])


def render(results: dict) -> str:
    """What is printed: a function of the results file alone."""
    rows = results["decisions"]
    titles = {"pass": f"A pass over {results['tokens']} tokens",
              "token": f"One token, after {results['cached']} in the KV cache"}  # fmt: skip
    return "\n".join([
        report.describe(results["conditions"]),
        "",
        outputs_table(results),
        *(note for unit in UNITS for note in ("", times_table(titles[unit], unit, rows))),
        "",
        *notes(rows),
        "",
        vocabulary_table(results["vocabulary"]),
    ])  # fmt: skip


def outputs_table(results: dict) -> str:
    """What comes out of each, and in how many operations."""
    columns = ["decision", "largest logit difference", "same likeliest token",
               "operations a token"]  # fmt: skip
    title = (f"Logits on {results['text']}, called the same where they differ by "
             f"{results['tolerance']:.1e} at most")  # fmt: skip
    return report.text_table(title, columns, [outputs(row) for row in results["decisions"]])


def outputs(row: dict) -> list[str]:
    if row["skipped"]:
        return [row["name"], "skipped", "", ""]
    difference, calls = row["max_logit_difference"], row["calls_per_token"]
    return [
        row["name"],
        "not a number" if difference is None else f"{difference:.1e}" if difference else "0",
        report.percent(row["argmax_agreement"]),
        "-" if calls is None else str(calls),
    ]


def times_table(title: str, unit: str, rows: list[dict]) -> str:
    columns = ["decision", f"{unit}, ms", "of as written", "verdict"]
    return report.text_table(title, columns, [times(row["name"], row[unit]) for row in rows])


def times(name: str, found: dict | None) -> list[str]:
    if found is None:
        return [name, "-", "-", "not timed"]
    milliseconds = report.show_spread(found["milliseconds"])
    if found["verdict"] is None:  # as written itself
        return [name, milliseconds, "1", "-"]
    return [name, milliseconds, report.show_ratio(found["ratio"]), found["verdict"]]


def notes(rows: list[dict]) -> list[str]:
    """Below the tables: what was skipped and why, what is invalid, what compiling took."""
    lines = [f"{row['name']} is skipped: {row['skipped']}" for row in rows if row["skipped"]]
    lines += [f"{row['name']} is invalid: it computes something else" for row in rows
              if row["pass"] and row["pass"]["verdict"] == INVALID]  # fmt: skip
    lines += [f"{row['name']} has no token: with a cache that grows it would compile at each length"
              for row in rows if row["pass"] and not row["token"]]  # fmt: skip
    lines += [compiling(row, rows[0]) for row in rows if row["compile_seconds"] is not None]
    return [part for line in lines for part in textwrap.wrap(line, report.WIDTH)]


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


def vocabulary_table(rows: list[dict]) -> str:
    columns = ["vocabulary", "pass, ms", "token, ms", "head's weights"]
    cells = [[f"{row['vocab_size']:,}", *(report.show_spread(row[unit]) for unit in UNITS),
              f"{row['head_weights']:,}"] for row in rows]  # fmt: skip
    return report.text_table("The vocabulary: untrained models, alike but for it", columns, cells)


if __name__ == "__main__":
    run(main)
