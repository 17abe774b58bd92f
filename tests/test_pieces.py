import pytest


def test_all_bytes_are_in_the_vocabulary(tokenizer):
    assert tokenizer.vocab_size == 300
    shown = {tokenizer.show(i) for i in range(300)}
    assert {f"<{byte:02x}>" for byte in range(0x80, 0x100)} <= shown
    assert {chr(byte) for byte in range(0x80)} <= shown


def test_pieces_are_whole_characters(tokenizer):
    ids = tokenizer.encode("a😀b")
    assert list(tokenizer.pieces(ids)) == ["a", "😀", "b"]


@pytest.mark.parametrize("text", ["😀", "😀😀", "ab😀", "ሰላም"])
def test_pieces_joined_are_the_text_wherever_it_is_cut(tokenizer, text):
    ids = tokenizer.encode(text)
    for start in range(len(ids)):
        for stop in range(start, len(ids) + 1):
            part = ids[start:stop]
            assert "".join(tokenizer.pieces(part)) == tokenizer.decode(part)


def test_explain(tokenizer):
    rows = tokenizer.explain("the 😀")
    assert [word for word, _, _ in rows] == ["the", " 😀"]
    assert [i for _, ids, _ in rows for i in ids] == tokenizer.encode("the 😀")
    assert rows[1][2][-4:] == ["<f0>", "<9f>", "<98>", "<80>"]
