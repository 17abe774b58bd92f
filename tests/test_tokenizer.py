import pytest
from conftest import TEXT

from mvgpt import Tokenizer
from mvgpt.errors import InputError

TEXTS = ["", " ", "a\0b", "\r\n", "a\tb", "five     spaces", "😀 👩\u200d👧", "ሰላም ለዓለም",
         "é e\u0301", "<|endoftext|>", "an <|endoftext|> inside", "\ufffd", TEXT]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_decode_gives_back_what_was_encoded(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text


def test_special_text_typed_by_a_user_stays_text(tokenizer):
    assert tokenizer.end not in tokenizer.encode("<|endoftext|>")


def test_a_lone_surrogate_is_named(tokenizer):
    with pytest.raises(InputError, match=r"character 3 .* U\+D83D"):
        tokenizer.encode("abc\ud83d")


def test_pairs_are_learned(tokenizer):
    assert len(tokenizer.encode("Mira the mole")) < len("Mira the mole") / 2


def test_saved_and_loaded(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode(TEXT + "<|endoftext|>") == tokenizer.encode(TEXT + "<|endoftext|>")


def test_transformers_reads_it(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer.save(tmp_path / "tokenizer.json")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert theirs.encode(TEXT) == tokenizer.encode(TEXT)


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", "not json"])
def test_a_bad_file_is_named(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="tokenizer.json"):
        Tokenizer.load(path)


def test_too_small_a_vocabulary_is_refused():
    with pytest.raises(InputError, match="256 bytes"):
        Tokenizer.train([TEXT], 256)


@pytest.mark.slow
def test_a_vocabulary_of_10_000_on_the_corpus(corpus):
    texts = [path.read_text(encoding="utf-8") for path in sorted(corpus.glob("*-*.txt"))]
    tokenizer = Tokenizer.train(texts)
    assert tokenizer.vocab_size == 10_000
    some = texts[0][:50_000]
    ids = tokenizer.encode(some)
    assert tokenizer.decode(ids) == some
    assert len(some) / len(ids) > 3.5  # characters a token
