"""Train a tokenizer and a model on text files: first on all of them, then on the tales.

    python train.py --text books/*.txt --tales tales/*.txt
    python train.py --text notes.txt --out checkpoints/notes --epochs 20 --dropout 0.1

The books are cut into chapters, the tales into single tales, and about one in fifty is held out
from both stages. Stopped by Ctrl-C or killed, the same command goes on from the last saved state;
there is one every 500 steps.
The result is a folder that `python -m mvgpt --checkpoint FOLDER` and `transformers` load.
"""

import argparse
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import torch
from torch.optim import AdamW

from mvgpt import GPT, GPTConfig, Tokenizer, load_checkpoint, pick_device, save_checkpoint
from mvgpt.arguments import above_zero, positive, seed, threads
from mvgpt.card import held_out_losses, model_card
from mvgpt.checkpoint import WEIGHTS
from mvgpt.data import Batches, encode_documents, hold_out, read_documents
from mvgpt.errors import InputError, run
from mvgpt.files import prepare_folder, replacing
from mvgpt.progress import progress
from mvgpt.training import (
    Recipe,
    evaluate,
    load_state,
    make_optimizer,
    read_state_info,
    save_state,
    train,
)

ROOT = Path(__file__).parent
STATE = "training.safetensors"  # an unfinished training, in the folder it will end in
SAVE_EVERY = 500  # steps
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Stage:
    """What is read: the documents, those held out, how often, and the learning rate."""

    name: str
    documents: list[str]
    held_out: list[str]
    epochs: float
    rate: float


def main() -> None:
    args = parse()
    device = pick_device(args.device)
    if args.threads:
        torch.set_num_threads(args.threads)
    if (args.out / WEIGHTS).exists():
        raise InputError(
            f"{os.path.relpath(args.out)} holds a trained model already; name another with --out"
        )
    torch.manual_seed(args.seed)
    model = GPT(make_config(args)).to(device)
    stages = read_stages(args)
    prepare_folder(args.out)
    tokenizer = make_tokenizer(args, stages[0].documents)
    log = [run_stage(args, stage, model, tokenizer) for stage in stages]

    save_checkpoint(args.out, model, tokenizer)
    model, _ = load_checkpoint(args.out, device)  # in float16 as it ships, for the card
    sources = sorted({path.stem for path in args.text + args.tales})
    with replacing(args.out / "README.md") as (card,):
        card.write_text(model_card(model, tokenizer, sources, log, args.seed), encoding="utf-8")
    (args.out / STATE).unlink()
    print(f"saved {os.path.relpath(args.out)}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    config = GPTConfig()
    files = {"type": Path, "nargs": "+", "metavar": "FILE"}
    parser.add_argument("--text", required=True, help="UTF-8 text files", **files)
    parser.add_argument("--tales", default=[], help="files to fine-tune on afterwards", **files)
    options = {
        "--out": (Path, ROOT / "checkpoints" / "mine", "the folder to write"),
        "--epochs": (above_zero, 2.0, "passes over all files"),
        "--tale-epochs": (above_zero, 1.0, "passes over the tales"),
        "--lr": (above_zero, 1e-3, "learning rate"),
        "--tale-lr": (above_zero, 3e-4, "learning rate of the fine-tuning"),
        "--batch": (positive, 4, "windows in a step"),
        "--dropout": (float, 0.0, "share of values dropped in training"),
        "--vocab-size": (positive, config.vocab_size, "tokens"),
        "--window": (positive, config.n_positions, "tokens that the model sees at once"),
        "--channels": (positive, config.n_embd, "width of the model"),
        "--layers": (positive, config.n_layer, "blocks"),
        "--heads": (positive, config.n_head, "heads of each attention"),
        "--seed": (seed, 0, "of the weights, the order and the dropout"),
    }
    for name, (kind, default, text) in options.items():
        shown = os.path.relpath(default) if kind is Path else default
        parser.add_argument(name, type=kind, default=default, help=f"{text} ({shown})")
    parser.add_argument("--threads", type=threads, help="threads of the CPU (PyTorch's choice)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (auto)")
    parser.add_argument("--precision", choices=PRECISIONS, default="bfloat16",
                        help="of the matrix products (bfloat16)")  # fmt: skip
    return parser.parse_args()


def read_stages(args: argparse.Namespace) -> list[Stage]:
    """What is read in each stage; a document that is held out is so from both."""
    files = list(dict.fromkeys(args.text + args.tales))  # a file given twice is read once
    documents, kept = read_documents(files)
    print(f"{len(documents)} tales, chapters or texts, {kept:.0%} of the characters kept")
    texts, held_out = hold_out(documents)
    stages = [Stage("pre-training", texts, held_out, args.epochs, args.lr)]
    if args.tales:
        tales = set(read_documents(args.tales)[0])
        chosen = [text for text in texts if text in tales]
        their_own = [text for text in held_out if text in tales]
        stages.append(Stage("fine-tuning", chosen, their_own or held_out,
                            args.tale_epochs, args.tale_lr))  # fmt: skip
    return stages


def make_tokenizer(args: argparse.Namespace, texts: list[str]) -> Tokenizer:
    """The tokenizer of an interrupted run, or one trained on the texts that are not held out."""
    path = args.out / "tokenizer.json"
    if (args.out / STATE).exists():
        return Tokenizer.load(path)
    tokenizer = Tokenizer.train(texts, args.vocab_size)
    with replacing(path) as (beside,):
        tokenizer.save(beside)
    return tokenizer


def make_config(args: argparse.Namespace) -> GPTConfig:
    return GPTConfig(
        vocab_size=args.vocab_size,
        n_positions=args.window,
        n_embd=args.channels,
        n_layer=args.layers,
        n_head=args.heads,
        embd_pdrop=args.dropout,
        resid_pdrop=args.dropout,
    )


def run_stage(args: argparse.Namespace, stage: Stage, model: GPT, tokenizer: Tokenizer) -> dict:
    """Train one stage, from its saved state if there is one; return what the card tells of it."""
    path = args.out / STATE
    ids, held_out = (
        encode_documents(tokenizer, part) for part in (stage.documents, stage.held_out)
    )
    batches = Batches(ids, args.window, args.batch, args.seed)
    recipe = Recipe(max(1, round(stage.epochs * batches.steps)), stage.rate, seed=args.seed)
    optimizer = make_optimizer(model, recipe)
    settings = asdict(recipe) | asdict(model.config) | {"batch": args.batch, "tokens": len(ids)}
    settings |= {"precision": args.precision}
    info = resume(path, stage.name, settings, model, optimizer)
    if stage.name in info["log"]:
        return info["log"][stage.name]
    print(f"{stage.name}: {recipe.steps} steps, {stage.epochs:g} passes over {len(ids):,} tokens",
          flush=True)  # fmt: skip

    start, losses = info["step"], info["losses"]  # of the last 100 steps
    info |= {"stage": stage.name, "settings": settings}
    steps = train(model, optimizer, batches, recipe, start, PRECISIONS[args.precision])
    for step in progress(steps, f"{stage.name}, steps of {recipe.steps}", start):
        losses = [*losses[-99:], step.loss]
        if step.number % SAVE_EVERY == 0:
            save_state(path, model, optimizer, info | {"step": step.number, "losses": losses})
            part = held_out[: 64 * args.window + 1]
            print(f"step {step.number}: training loss {mean(losses):.3f}, "
                  f"held out {evaluate(model, part):.3f} nats per token", flush=True)  # fmt: skip
    entry = {"stage": stage.name, "epochs": stage.epochs, "training_tokens": len(ids),
             "training_loss": mean(losses), "settings": settings}  # fmt: skip
    info["log"][stage.name] = entry | held_out_losses(model, tokenizer, held_out)
    save_state(path, model, optimizer, info | {"step": recipe.steps, "losses": losses})
    return info["log"][stage.name]


def resume(path: Path, name: str, settings: dict, model: GPT, optimizer: AdamW) -> dict:
    """Load the saved state, if there is one; what it says of the stage that is to be run.

    One that was begun with other settings is an InputError.
    """
    info = read_state_info(path) or {"log": {}, "stage": name, "settings": settings, "step": 0,
                                     "losses": []}  # fmt: skip
    done = info["log"].get(name)
    begun = done["settings"] if done else info["settings"] if info["stage"] == name else settings
    for key, value in settings.items():
        if begun.get(key) != value:
            raise InputError(
                f"{path.name} was begun with {key} {begun.get(key)}, not {value}; give the same "
                "options and texts to go on, or another --out to begin anew"
            )
    if info["stage"] != name:  # the one before is done
        load_state(path, model)
        return info | {"step": 0, "losses": []}
    if path.exists():
        load_state(path, model, optimizer)
        print(f"{name}: going on from step {info['step']}")
    return info


if __name__ == "__main__":
    run(main)
