"""Writing: the model's scores of the next token, a draw from them, and on from there."""

from collections.abc import Iterator
from functools import partial

import torch

from mvgpt.cache import KVCache
from mvgpt.errors import InputError
from mvgpt.model import GPT

PROMPT = "Once upon a time"
TEMPERATURE, TOP_K = 0.8, 40


def stream(
    model: GPT,
    ids: list[int],
    tokens: int,
    *,
    temperature: float = TEMPERATURE,
    top_k: int | None = TOP_K,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
    vocab: int | None = None,
    stop: int | None = None,
) -> Iterator[int]:
    """Yield up to `tokens` new ids that go on from `ids`, one at a time.

    `use_cache` keeps the keys and values of what was read (KVCache) instead of reading it again.
    `temperature` 0 takes the most likely token; `top_k` draws from the k most likely (None: from
    all). Ids from `vocab` on are never drawn, and writing ends before an id equal to `stop`.
    Of a prompt longer than the window the last ids are read. When the window is full, its last
    half is read again. Bad values are an InputError, raised at the call.
    """
    vocab = model.config.vocab_size if vocab is None else vocab
    check(model, ids, tokens, vocab, temperature, top_k)
    draw = partial(sample, temperature=temperature, top_k=top_k, generator=generator)
    return write(model, list(ids), tokens, draw, use_cache, vocab, stop)


def generate(model: GPT, ids: list[int], tokens: int, **options) -> list[int]:
    """The ids that `stream` yields, as a list; it takes the same options."""
    return list(stream(model, ids, tokens, **options))


def fit(ids: list[int], window: int) -> tuple[list[int], str]:
    """Of a prompt longer than the window the ids that are read, and a sentence that says so."""
    if len(ids) <= window:
        return ids, ""
    return ids[-window:], f"the prompt has {len(ids)} tokens; the model reads the last {window}"


def check(
    model: GPT,
    ids: list[int],
    tokens: int,
    vocab: int,
    temperature: float = 0.0,
    top_k: int | None = None,
) -> None:
    """Refuse what `stream` cannot work with: an InputError that names the value."""
    if not ids:
        raise InputError("the prompt is empty; give at least one token to go on from")
    bad = next((i for i in ids if not 0 <= i < model.config.vocab_size), None)
    if bad is not None:
        raise InputError(f"the prompt's id {bad} is not in 0 to {model.config.vocab_size - 1}")
    if tokens < 1:
        raise InputError(f"{tokens} tokens cannot be written; ask for 1 or more")
    if not 0 <= temperature < float("inf"):
        raise InputError(f"the temperature is {temperature}; it must be 0 or more, and finite")
    if top_k is not None and top_k < 1:
        raise InputError(f"top-k is {top_k}; it must be 1 or more")
    if not 1 <= vocab <= model.config.vocab_size:
        raise InputError(f"vocab is {vocab}; the model has {model.config.vocab_size} tokens")


@torch.no_grad()  # around each step of the generator, so that it does not leak to the caller
def write(model, ids, tokens, draw, use_cache, vocab, stop) -> Iterator[int]:
    """The loop of `stream`: read what is unread, draw a token, and so on."""
    window, device = model.config.n_positions, model.wte.weight.device
    ids = ids[-window:]
    cache, unread = None, ids
    for _ in range(tokens):
        if len(ids) > window:
            ids = ids[-max(1, window // 2) :]
            cache, unread = None, ids
        if use_cache and cache is None:
            cache = KVCache(model.config.n_layer)
        logits = model(torch.tensor([unread], device=device), cache)  # (1, T, V)
        token = draw(logits[0, -1, :vocab])
        if token == stop:
            return
        yield token
        ids.append(token)
        unread = [token] if use_cache else ids


def sample(
    logits: torch.Tensor,
    temperature: float,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> int:
    """Draw an id from logits (V,): a softmax over the k largest, sharpened by the temperature."""
    if temperature == 0:
        return int(logits.argmax())
    logits, ids = logits.topk(min(top_k or len(logits), len(logits)))  # (k,), (k,)
    temperature = max(temperature, torch.finfo(logits.dtype).tiny)  # the dtype has 0 below it
    chances = ((logits - logits[0]) / temperature).softmax(-1)  # the largest is 0: no overflow
    return int(ids[torch.multinomial(chances, 1, generator=generator)])
