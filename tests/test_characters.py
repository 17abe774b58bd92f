"""Characters a token: a tokenizer cut short, and one trained on the user's own text."""

import json

import pytest
import tokenizers
from conftest import TEXT

from mvgpt import Tokenizer
from mvgpt.errors import InputError
from mvgpt.measure.characters import count_characters, paragraphs, shortened, train_tokenizer
from mvgpt.tokenizer import END


def state(tokenizer):
    return json.loads(tokenizer.inner.to_str())


@pytest.mark.parametrize("size", [257, 258, 260, 275, 299, 300])
def test_cut_short_it_is_what_training_at_that_size_gives(tokenizer, size):
    trained = Tokenizer.train([TEXT], size)
    assert state(shortened(tokenizer, size)) == state(trained)
    assert shortened(tokenizer, size).encode(TEXT) == trained.encode(TEXT)


def test_of_gpt2_the_token_that_ends_a_text_stays_the_last(tokenizer):
    """GPT-2's has it behind the merges, where ours has it first."""
    given = state(tokenizer)
    last = tokenizer.vocab_size - 1
    given["model"]["vocab"] = {token: (i - 1) % (last + 1)
                               for token, i in given["model"]["vocab"].items()}  # fmt: skip
    given["added_tokens"][0]["id"] = last
    theirs = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(given)))
    assert theirs.end == last
    cut = shortened(theirs, 280)
    assert (cut.end, cut.vocab_size) == (last, 280)
    assert [i + 1 for i in cut.encode(TEXT)] == shortened(tokenizer, 280).encode(TEXT)


def test_characters_are_counted_where_the_tokenizer_is_large_enough(tokenizer):
    found = count_characters([260, 300, 301], tokenizer, "a text", TEXT)
    per_token = found["per_token"]
    assert per_token["300"] == len(TEXT) / len(tokenizer.encode(TEXT))
    assert 1 < per_token["260"] < per_token["300"]
    assert per_token["301"] is None
    assert found["reason"] == "the tokenizer has 300 tokens, 43 of them merges"
    assert (found["text"], found["characters"]) == ("a text", len(TEXT))
    assert count_characters([300], tokenizer, "a text", TEXT)["reason"] is None


def test_a_tokenizer_that_merges_nothing_cannot_be_cut_short():
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({END: 0, "a": 1, "?": 2}, "?"))
    found = count_characters([2, 3], Tokenizer(inner), "a text", "a")
    assert found["per_token"] == {"2": None, "3": 1.0}
    assert found["reason"] == "the tokenizer has 3 tokens, 0 of them merges"


def test_without_a_text_there_is_nothing_to_count(tokenizer):
    found = count_characters([300], tokenizer, "a text", "")
    assert found["per_token"] == {"300": None}
    assert "--text" in found["reason"]


def test_paragraphs():
    lines = [f"line {n}" for n in range(20)]
    assert paragraphs("\n".join(lines)) == lines
    assert paragraphs("title\n\n" + "\n".join(lines)) == ["title", *lines]
    wrapped = [f"line {n}\ngoes on" for n in range(20)]
    assert paragraphs("\n \n".join(wrapped)) == wrapped


def test_what_is_counted_on_is_not_trained_on(tmp_path):
    texts = [f"Once there were {n} moles who dug {n * n} tunnels." for n in range(300)]
    paths = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for path, part in zip(paths, (texts[:150], texts[150:]), strict=True):
        path.write_text("\n\n".join(part), encoding="utf-8")
    tokenizer, held_out = train_tokenizer(paths, 320)
    kept = held_out.split("\n")
    assert 10 < len(kept) < 60
    training = [text for text in texts if text not in kept]
    assert len(training) + len(kept) == 300
    assert state(tokenizer) == state(Tokenizer.train(training, 320))
    assert tokenizer.inner.token_to_id(END) == tokenizer.end


@pytest.mark.parametrize(
    ("content", "named"),
    [(None, "cannot read"), ("", "is empty"), ("One line.", "no two different paragraphs"),
     ("Twice.\nTwice.", "no two different paragraphs")],
)  # fmt: skip
def test_a_text_that_is_none_is_one_sentence(content, named, tmp_path):
    path = tmp_path / "book.txt"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=named):
        train_tokenizer([path], 300)
