"""How long does writing take, with the KV cache and without it?

    python bench.py                             # 5, 50, 100 and 250 tokens after the prompt
    python bench.py --lengths 10 500 --device cpu --threads 1

Both write the same text, which is checked before a time is printed. They take turns, round by
round, with the cached case listed twice to show the noise. The time until the first token
(prefill) stands apart from the time of each token after it. Writes results/bench-<device>.json.
"""

import argparse

from mvgpt.arguments import above_zero, positive
from mvgpt.bench import cache
from mvgpt.errors import run
from mvgpt.measure import options, report

LENGTHS = (5, 50, 100, 250)


def main() -> None:
    args = parse()
    model, tokenizer, device = options.prepare(args)
    lengths = sorted(set(args.lengths))
    prompt = options.read_prompt(args, model, tokenizer, lengths[-1])
    results = options.header("bench", args, model, device)
    writing = cache.Writing(model, prompt, lengths[-1], tokenizer.vocab_size, args.seed)
    results["writing"] = cache.measure(writing, lengths, args.budget)
    print(cache.render(results))
    print(f"\nwrote {report.shown(options.save(results, args, f'bench-{device.type}'))}")


def parse() -> argparse.Namespace:
    parser = options.parser(__doc__)
    options.add_device(parser)
    options.add_prompt(parser)
    parser.add_argument("--lengths", type=positive, nargs="+", default=LENGTHS,
                        metavar="TOKENS", help="how much to write (5 50 100 250)")  # fmt: skip
    parser.add_argument("--budget", type=above_zero, default=90.0,
                        help="seconds of rounds; 10 are run in any case (90)")  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
