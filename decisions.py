"""What is each decision in the model's code worth?

    python decisions.py                         # the model that ships, on the best device here
    python decisions.py --device cpu --threads 1 --budget 120
    python decisions.py path/to/gpt2            # any GPT-2 folder
    python decisions.py --against results/decisions-cpu.json    # what has changed since
    python decisions.py --text books/*.txt      # vocabularies trained and weighed on your books

The model as written against GELU as one operation, attention by hand and torch.compile, over a
full window (a pass) and over one token with half a window in the KV cache. What comes out is
compared first, with float64 as the referee: one that computes something else is invalid, however
fast. Then what each should save is predicted from its operations and the machine's roofs. Then
they take turns, round by round, with "as written" listed twice to show the noise. Beside them,
untrained models with vocabularies of 5,000, 10,000 and 20,000, by the character of text too.
Writes results/decisions-<device>.json; with --plot, two charts.
"""

import argparse
from pathlib import Path

import torch

from mvgpt import GPT, Tokenizer
from mvgpt.arguments import above_zero
from mvgpt.data import random_ids
from mvgpt.errors import run
from mvgpt.measure import against, options, report, tables, vocabulary
from mvgpt.measure.characters import count_characters, train_tokenizer
from mvgpt.measure.comparison import compare_decisions
from mvgpt.measure.conditions import ROOT
from mvgpt.measure.plots import UNITS, plot_decisions
from mvgpt.measure.prices import Roofs
from mvgpt.measure.rooflines import plot_predictions
from mvgpt.measure.roofs import find_roofs

VOCABULARIES = (5_000, 10_000, 20_000)
STORY = ROOT / "checkpoints" / "stories" / "story.txt"
DECISIONS_SHARE = 0.7  # of the budget; the vocabularies have the rest


def main() -> None:
    args = parse()
    model, tokenizer, device = options.prepare(args)
    results = options.header("decisions", args, model, device)
    earlier = against.read_earlier(args.against, results) if args.against else None
    characters = read_characters(args, model, tokenizer)
    results["roofs"] = find_roofs(results, args.out, model)
    results |= measure_decisions(args, model, tokenizer, Roofs(results["roofs"]))
    results |= vocabulary.compare_vocabularies(
        model.config, characters, device, args.seed, (1 - DECISIONS_SHARE) * args.budget
    )
    if earlier:
        results["against"] = against.set_beside(earlier, results)
    print(render(results))
    path = options.save(results, args, f"decisions-{device.type}")
    print(f"\nwrote {report.shown(path)}")
    if args.plot:
        print(f"wrote {report.shown(plot_decisions([results], path.with_suffix('.png')))}")
        beside = path.with_name(f"{path.stem}-predictions.png")
        print(f"wrote {report.shown(plot_predictions(results, beside))}")


def parse() -> argparse.Namespace:
    parser = options.parser(__doc__)
    options.add_device(parser)
    options.add_plot(parser)
    parser.add_argument("--budget", type=above_zero, default=60.0,
                        help="seconds of rounds; 10 of each are run in any case (60)")  # fmt: skip
    parser.add_argument("--against", type=Path, metavar="FILE",
                        help="results of an earlier run here, to set this one beside")  # fmt: skip
    parser.add_argument("--text", type=Path, nargs="+", metavar="FILE",
                        help="UTF-8 text: vocabularies are trained on nine tenths and weighed on "
                        "one (the model's own, cut short, on the story that ships)")  # fmt: skip
    return parser.parse_args()


def read_characters(args: argparse.Namespace, model: GPT, tokenizer: Tokenizer) -> dict:
    """The characters a token of each size, on the user's own text or on the story."""
    sizes = sorted({*VOCABULARIES, model.config.vocab_size})
    if args.text:
        tokenizer, text = train_tokenizer(args.text, sizes[-1])
        return count_characters(sizes, tokenizer, "the tenth held out of the texts given", text)
    text = STORY.read_text(encoding="utf-8") if STORY.is_file() else ""
    return count_characters(sizes, tokenizer, "checkpoints/stories/story.txt", text)


def measure_decisions(
    args: argparse.Namespace, model: GPT, tokenizer: Tokenizer, roofs: Roofs
) -> dict:
    """What is read, and the results' `decisions`."""
    text, ids = read_text(tokenizer, model.config.n_positions, args.seed)
    budget = DECISIONS_SHARE * args.budget
    found = compare_decisions(model, ids, seed=args.seed, budget=budget, roofs=roofs)
    return {"text": text, "tokens": ids.size(1), **found}


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
        *report.roofs_note(results.get("roofs")),
        "",
        tables.outputs(results),
        *(note for unit in UNITS for note in ("", tables.times(titles[unit], unit, rows))),
        "",
        *tables.notes(rows),
        "",
        vocabulary.render(results),
        *(["", against.render(results)] if "against" in results else []),
    ])  # fmt: skip


if __name__ == "__main__":
    run(main)
