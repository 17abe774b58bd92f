"""Text to ids and back: byte-level BPE (Sennrich et al. 2016; on bytes, Radford et al. 2019)."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from mvgpt.errors import InputError

END = "<|endoftext|>"  # stands between texts, GPT-2's name for it


class Tokenizer:
    """The 256 bytes, the pairs learned on top of them, and one token that ends a text."""

    def __init__(self, inner: tokenizers.Tokenizer):
        self.inner = inner
        self.inner.encode_special_tokens = True  # END typed by a user is text like any other
        self.end = inner.token_to_id(END)
        if self.end is None:
            raise InputError(f"the tokenizer has no token {END}, which ends a text")

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int = 10_000) -> "Tokenizer":
        """Learn the pairs that make `vocab_size` tokens, END and the 256 bytes included."""
        if vocab_size < 257:
            raise InputError(f"a vocabulary of {vocab_size} has no room for 256 bytes and {END}")
        inner = tokenizers.Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        inner.train_from_iterator(texts, trainer)
        return cls(inner)

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """The tokenizer in a tokenizer.json; an InputError says what is wrong with the file."""
        try:
            return cls(tokenizers.Tokenizer.from_str(Path(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise InputError(f"there is no {path}") from None
        except InputError:
            raise
        except Exception as error:  # the library raises nothing narrower
            raise InputError(f"{path} is not a tokenizer.json: {error}") from None

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json, which `tokenizers` and `transformers` read too."""
        Path(path).write_text(self.inner.to_str(pretty=True), encoding="utf-8")

    @property
    def vocab_size(self) -> int:
        return self.inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Text to ids. A lone surrogate, which is no character, is an InputError."""
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"character {error.start} of the text is the lone surrogate "
                f"U+{ord(text[error.start]):04X}, half of a character; remove it"
            ) from None
        return self.inner.encode(text).ids

    def decode(self, ids: Iterable[int]) -> str:
        """Ids to text; bytes that make no character become U+FFFD."""
        return self.inner.decode(list(ids), skip_special_tokens=False)

    def pieces(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of ids as they come, in whole characters; joined it equals `decode`."""
        waiting = []
        for token in ids:
            waiting.append(token)
            text = self.decode(waiting)
            if not text.endswith("\ufffd"):  # else perhaps the first bytes of a character
                yield text
                waiting = []
        if waiting:
            yield self.decode(waiting)

    def explain(self, text: str) -> list[tuple[str, list[int], list[str]]]:
        """How a text becomes ids: each word, the ids of its tokens, and the tokens as text.

        A token that is a part of a character is shown as its bytes: <f0><9f>.
        """
        words = self.inner.pre_tokenizer.pre_tokenize_str(text)
        rows = []
        for _, (start, stop) in words:
            ids = self.encode(text[start:stop])
            rows.append((text[start:stop], ids, [self.show(token) for token in ids]))
        return rows

    def show(self, token: int) -> str:
        """One token as text, or as <hex> bytes where it is no whole number of characters."""
        text = self.decode([token])
        if "\ufffd" not in text:
            return text
        return "".join(f"<{BYTES[c]:02x}>" for c in self.inner.id_to_token(token))


def byte_characters() -> dict[str, int]:
    """The character that stands for each byte in a byte-level vocabulary, and the byte.

    GPT-2's table: printable bytes stand for themselves, the others for characters from 256 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


BYTES = byte_characters()
