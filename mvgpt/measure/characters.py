"""How much text a token covers: characters a token, for vocabularies of several sizes.

Byte-level BPE learns its merges one by one, the most frequent pair first. So a smaller vocabulary
is a larger one without its last merges, exactly as training at that size would have left it.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from mvgpt import Tokenizer
from mvgpt.data import hold_out, read_texts
from mvgpt.errors import InputError

NO_TEXT = "there is no text; --text gives one"
HELD_OUT = 10  # one paragraph in so many is counted on, and not trained on


def count_characters(sizes: Sequence[int], tokenizer: Tokenizer, name: str, text: str) -> dict:
    """The `characters` of the results: what was encoded, its length, and characters `per_token`
    of each size; null, with the `reason`, for one that the tokenizer cannot have.
    """
    most, merges = tokenizer.vocab_size, len(state_of(tokenizer)["model"].get("merges", []))
    fits = {size: most - merges <= size <= most and bool(text) for size in sizes}
    per_token = {str(size): len(text) / len(shortened(tokenizer, size).encode(text))
                 if fits[size] else None for size in sizes}  # fmt: skip
    reason = f"the tokenizer has {most:,} tokens, {merges:,} of them merges" if text else NO_TEXT
    return {"text": name, "characters": len(text), "per_token": per_token,
            "reason": None if all(fits.values()) else reason}  # fmt: skip


def train_tokenizer(paths: Sequence[Path], size: int) -> tuple[Tokenizer, str]:
    """A tokenizer of up to `size` tokens, trained on the files but for about a tenth of their
    paragraphs, and that tenth. Too short a text is an InputError.
    """
    texts = [part for text in read_texts(paths) for part in paragraphs(text)]
    training, held_out = hold_out(texts, HELD_OUT)
    if not training:
        raise InputError(
            f"the text in {', '.join(map(str, paths))} has no two different paragraphs, one to "
            "train a tokenizer on and one to count on; give more text"
        )
    return Tokenizer.train(training, size), "\n".join(held_out)


def paragraphs(text: str) -> list[str]:
    """What stands between blank lines; where there are hardly any, each line."""
    parts = re.split(r"\n\s*\n", text)
    parts = parts if len(parts) >= HELD_OUT else text.splitlines()
    return [part for part in parts if part.strip()]


def shortened(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """The tokenizer with `size` tokens: its last merges are left out."""
    if size == tokenizer.vocab_size:
        return tokenizer
    state = state_of(tokenizer)
    model = state["model"]
    kept = len(model["merges"]) - (tokenizer.vocab_size - size)
    left_out = {left + right for left, right in model["merges"][kept:]}
    model["merges"] = model["merges"][:kept]
    model["vocab"] = {t: number for t, number in model["vocab"].items() if t not in left_out}
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(state)))


def state_of(tokenizer: Tokenizer) -> dict:
    """What tokenizer.json holds of it."""
    return json.loads(tokenizer.inner.to_str())
