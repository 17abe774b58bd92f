"""What the scripts share on the command line, and the model that they measure."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from mvgpt import GPT, Tokenizer, load_checkpoint, pick_device
from mvgpt.arguments import seed, short_name, threads
from mvgpt.checkpoint import STORIES
from mvgpt.files import prepare_folder, write_json
from mvgpt.generate import PROMPT, check, fit
from mvgpt.measure.conditions import (
    ROOT,
    conditions,
    crowded,
    load_average,
    misfit,
    usable_cores,
)


def parser(description: str) -> argparse.ArgumentParser:
    """A parser of the options that every measuring script takes but --device."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("checkpoint", nargs="?", type=Path, default=STORIES,
        help="a GPT-2 folder (checkpoints/stories)")  # fmt: skip
    add("--threads", type=threads, help="threads of the CPU (PyTorch's choice)")
    add("--seed", type=seed, default=0, help="of the order of the rounds and of the texts (0)")
    add("--machine", type=short_name,
        help="a short name for this machine in the results (its processor)")  # fmt: skip
    add("--out", type=Path, default=ROOT / "results", help="the folder to write to (results)")
    return parser


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (auto)")


def add_plot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plot", action="store_true", help="write charts beside the results")


def add_prompt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prompt", default=PROMPT, help=f'what writing goes on from ("{PROMPT}")')


def prepare(args: argparse.Namespace) -> tuple[GPT, Tokenizer, torch.device]:
    """Check device, results folder and threads, then load the model: all before a long run."""
    device = pick_device(getattr(args, "device", "cpu"))
    prepare_folder(args.out)
    if args.threads:
        torch.set_num_threads(args.threads)
    threads, cores = torch.get_num_threads(), usable_cores()
    for warning in misfit(threads, cores), crowded(threads, cores, load_average()):
        if warning and device.type == "cpu":
            print(f"warning: {warning}", file=sys.stderr)
    torch.manual_seed(args.seed)
    model, tokenizer = load_checkpoint(args.checkpoint, device)
    return model, tokenizer, device


def read_prompt(
    args: argparse.Namespace, model: GPT, tokenizer: Tokenizer, tokens: int
) -> list[int]:
    """The prompt's ids, checked, for writing so many tokens; of a long one those that fit."""
    ids = tokenizer.encode(args.prompt)
    check(model, ids, tokens, tokenizer.vocab_size)
    ids, note = fit(ids, model.config.n_positions)
    if note:
        print(note, file=sys.stderr)
    return ids


def header(script: str, args: argparse.Namespace, model: GPT, device: torch.device) -> dict:
    """What every results file begins with."""
    parameters = sum(p.numel() for p in model.parameters())
    dtype = model.wte.weight.dtype
    return {
        "script": script,
        "schema": 1,
        "conditions": conditions(device, dtype, args.seed, args.machine),
        "model": {"name": args.checkpoint.resolve().name, **asdict(model.config),
                  "parameters": parameters},
    }  # fmt: skip


def save(results: dict, args: argparse.Namespace, name: str) -> Path:
    """Write a results file and return its path."""
    path = args.out / f"{name}.json"
    write_json(path, results)
    return path
