"""Write a story: python -m mvgpt "Once upon a time" """

import argparse
import sys
from pathlib import Path

import torch

from mvgpt import load_checkpoint, pick_device, stream
from mvgpt.arguments import seed
from mvgpt.checkpoint import STORIES
from mvgpt.errors import run
from mvgpt.generate import PROMPT, TEMPERATURE, TOP_K, fit

LENGTH = 600  # tokens


def main() -> None:
    args = parse()
    device = pick_device(args.device)
    model, tokenizer = load_checkpoint(args.checkpoint, device)
    ids, note = fit(tokenizer.encode(args.prompt), model.config.n_positions)
    if note:
        print(note, file=sys.stderr)
    generator = torch.Generator(device)
    generator.seed() if args.seed is None else generator.manual_seed(args.seed)
    story = stream(
        model,
        ids,
        args.tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        generator=generator,
        vocab=tokenizer.vocab_size,
        stop=tokenizer.end,
    )
    print(args.prompt, end="", flush=True)
    for piece in tokenizer.pieces(story):
        print(piece, end="", flush=True)
    print()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m mvgpt", description="Write a story that begins with the prompt."
    )
    add = parser.add_argument
    add("prompt", nargs="?", default=PROMPT, help=f'the beginning ("{PROMPT}")')
    add("--checkpoint", type=Path, default=STORIES,
        help="a GPT-2 folder (checkpoints/stories)")  # fmt: skip
    add("--tokens", type=int, default=LENGTH, help=f"to write at most ({LENGTH})")
    add("--temperature", type=float, default=TEMPERATURE,
        help=f"0 takes the likeliest token; the higher, the bolder ({TEMPERATURE})")  # fmt: skip
    add("--top-k", type=int, default=TOP_K, help=f"how many tokens to draw from ({TOP_K})")
    add("--seed", type=seed, help="the same seed writes the same story (another each time)")
    add("--device", default="auto", help="auto, cpu, cuda or mps (auto)")
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
