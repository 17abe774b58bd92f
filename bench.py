"""How long does writing take, with the KV cache and without it?

    python bench.py                             # 5, 50, 100 and 250 tokens after the prompt
    python bench.py --lengths 10 500 --device cpu --threads 1
    python bench.py roofs                       # how fast this machine is at best

Both write the same text, which is checked before a time is printed. They take turns, round by
round, with the cached case listed twice to show the noise. The time until the first token
(prefill) stands apart from the time of each token after it. Writes results/bench-<device>.json.
What else can be measured is asked for by its name, which stands first: `bench.py roofs --help`.
"""

import sys

from mvgpt.bench import cache, roofs
from mvgpt.errors import run
from mvgpt.measure import options, report

MODES = {"roofs": roofs}  # by the first argument; without one of them: writing with the cache


def main() -> None:
    name, mode, args = parse()
    model, tokenizer, device = options.prepare(args)
    results = options.header("bench", args, model, device)
    results |= mode.measure(args, model, tokenizer)
    print(mode.render(results))
    print(f"\nwrote {report.shown(options.save(results, args, f'{name}-{device.type}'))}")


def parse() -> tuple:
    """The name of the results file, the mode's module, and its arguments."""
    name, argv = "bench", sys.argv[1:]
    mode, about = cache, __doc__
    if argv and argv[0] in MODES:
        mode = MODES[argv.pop(0)]
        name, about = f"bench-{mode.__name__.rpartition('.')[2]}", mode.__doc__
    parser = options.parser(about)
    parser.prog += f" {name.removeprefix('bench-')}" * (mode is not cache)
    options.add_device(parser)
    mode.add_options(parser)
    return name, mode, parser.parse_args(argv)


if __name__ == "__main__":
    run(main)
