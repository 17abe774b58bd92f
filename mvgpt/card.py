"""What a checkpoint says of itself: its texts, its losses, and what it writes."""

import math

import torch

from mvgpt.generate import PROMPT, TEMPERATURE, TOP_K, generate
from mvgpt.model import GPT
from mvgpt.tokenizer import Tokenizer
from mvgpt.training import evaluate

STORY_TOKENS = 400


def held_out_losses(model: GPT, tokenizer: Tokenizer, held_out: torch.Tensor) -> dict:
    """The held-out loss in nats per token, and in bits per byte of the text."""
    loss = evaluate(model, held_out)
    ids = [i for i in held_out.tolist() if i != tokenizer.end]
    size = len(tokenizer.decode(ids).encode("utf-8"))
    bits = loss / math.log(2) * len(held_out) / size
    return {"held_out_tokens": len(held_out), "held_out_loss": loss, "bits_per_byte": bits}


def model_card(
    model: GPT, tokenizer: Tokenizer, sources: list[str], log: list[dict], seed: int
) -> str:
    """The README of a checkpoint: what it was trained on, its losses, and what it writes.

    `sources` are the names of the texts, `log` what `run_stage` of train.py tells of each stage.
    """
    rows = [
        f"| {e['stage']} | {e['epochs']:g} x {e['training_tokens']:,} | {e['training_loss']:.3f} "
        f"| {e['held_out_loss']:.3f} | {e['bits_per_byte']:.3f} | {e['held_out_tokens']:,} |"
        for e in log
    ]
    stories = [write_story(model, tokenizer, seed + number) for number in range(3)]
    quoted = ["\n".join(f"> {line}".rstrip() for line in s.split("\n")) for s in stories]
    parameters = sum(p.numel() for p in model.parameters())
    return "\n".join([
        "---", "library_name: transformers", "---", "",
        f"A GPT-2 of {parameters:,} parameters, trained by `train.py` of mvGPT.", "",
        f"Trained on {len(sources)} texts: {', '.join(sources)}.", "",
        "| stage | training tokens | training loss | held-out loss | bits per byte | held out |",
        "|---|---|---|---|---|---|", *rows, "",
        "Losses in nats per token; the training loss is the mean of the last 100 steps. The texts "
        "held out were read in neither stage.", "",
        f'Three stories as it wrote them, {STORY_TOKENS} tokens at most, after "{PROMPT}", at '
        f"temperature {TEMPERATURE} with top-k {TOP_K}, seeds {seed} to {seed + 2}:", "",
        "\n\n---\n\n".join(quoted), "",
    ])  # fmt: skip


def write_story(model: GPT, tokenizer: Tokenizer, seed: int) -> str:
    """The story that the model writes after PROMPT with this seed, the prompt included."""
    generator = torch.Generator(model.wte.weight.device).manual_seed(seed)
    ids = tokenizer.encode(PROMPT)
    options = {"generator": generator, "vocab": tokenizer.vocab_size, "stop": tokenizer.end}
    return tokenizer.decode(ids + generate(model.eval(), ids, STORY_TOKENS, **options))
