"""Text files to batches of ids."""

import zlib
from collections.abc import Iterable
from pathlib import Path

import torch

from mvgpt.documents import split_documents
from mvgpt.errors import InputError
from mvgpt.tokenizer import Tokenizer


def read_documents(paths: Iterable[str | Path]) -> tuple[list[str], float]:
    """The tales or chapters in files, and the share of the characters that they keep.

    A text that is one document is cut once more, so that its last fiftieth can be held out.
    """
    texts, documents = read_texts(paths), []
    for text in texts:
        found = split_documents(text)
        documents += found if len(found) > 1 else cut_end(found[0])
    return documents, sum(map(len, documents)) / sum(map(len, texts))


def cut_end(text: str) -> list[str]:
    """The text and, apart, its last fiftieth or a little more, from the start of a line."""
    place = text.rfind("\n", 0, len(text) - len(text) // 50) + 1
    return [text[:place], text[place:]] if 0 < place else [text]


def read_texts(paths: Iterable[str | Path]) -> list[str]:
    """The texts of UTF-8 files; one that is missing, empty or in another encoding is named."""
    texts = []
    for path in paths:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 text (byte {error.start})") from None
        if not text.strip():
            raise InputError(f"{path} is empty")
        texts.append(text)
    return texts


def is_held_out(document: str, every: int) -> bool:
    """Whether a tale or chapter is kept for the held-out loss: about one in `every`.

    Its own bytes decide, so that it stays held out whichever files it comes with.
    """
    return zlib.crc32(document.encode("utf-8")) % every == 0


def hold_out(documents: list[str], every: int = 50) -> tuple[list[str], list[str]]:
    """The documents to train on and, about one in `every`, those held out; of a few, none of
    which is, the last one.
    """
    held_out = [document for document in documents if is_held_out(document, every)]
    if not 0 < len(held_out) < len(documents):
        held_out = documents[-1:]
    apart = set(held_out)
    return [document for document in documents if document not in apart], held_out


def encode_documents(tokenizer: Tokenizer, documents: Iterable[str]) -> torch.Tensor:
    """All documents in a row, each followed by the token that ends a text: ids (N,), int64."""
    ids = []
    for document in documents:
        ids += tokenizer.encode(document)
        ids.append(tokenizer.end)
    return torch.tensor(ids, dtype=torch.int64)


class Batches:
    """The windows of a row of ids, as many as fill whole batches, in an order drawn every epoch.

    The cuts start at another place in each epoch. What a step reads depends on the seed and the
    step alone, so that a resumed run reads on where it was interrupted.
    """

    def __init__(self, ids: torch.Tensor, window: int, batch_size: int, seed: int):
        self.ids, self.window, self.batch_size, self.seed = ids, window, batch_size, seed
        self.steps = (len(ids) - window) // (window * batch_size)  # an epoch's
        if self.steps < 1:
            raise InputError(
                f"{len(ids)} tokens are too few for one batch of {batch_size} windows of {window}"
            )

    def __getitem__(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The inputs and the targets of a step, each (batch_size, window)."""
        epoch, step = divmod(step, self.steps)
        generator = torch.Generator().manual_seed(self.seed + epoch)
        shift = int(torch.randint(self.window, (1,), generator=generator))
        count = (len(self.ids) - 1 - shift) // self.window
        order = torch.randperm(count, generator=generator)
        chosen = order[step * self.batch_size : (step + 1) * self.batch_size]
        starts = shift + chosen * self.window
        places = starts[:, None] + torch.arange(self.window + 1)  # (batch_size, window + 1)
        rows = self.ids[places]
        return rows[:, :-1], rows[:, 1:]


def random_ids(vocab_size: int, tokens: int, seed: int) -> torch.Tensor:
    """Ids (1, tokens) that say nothing, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (1, tokens), generator=generator)
