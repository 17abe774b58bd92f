import pytest
import torch
from conftest import TEXT

from mvgpt.data import (
    Batches,
    encode_documents,
    hold_out,
    is_held_out,
    read_documents,
    read_texts,
)
from mvgpt.errors import InputError


def test_documents_stand_in_a_row_each_with_an_end(tokenizer):
    ids = encode_documents(tokenizer, ["Mira dug.", "The sea!"]).tolist()
    assert ids.count(tokenizer.end) == 2
    assert ids[-1] == tokenizer.end
    assert tokenizer.decode(ids) == "Mira dug.<|endoftext|>The sea!<|endoftext|>"


def test_targets_are_the_next_ids():
    inputs, targets = Batches(torch.arange(1000), 16, 4, seed=0)[3]
    assert inputs.shape == targets.shape == (4, 16)
    assert torch.equal(targets, inputs + 1)


def test_an_epoch_reads_each_place_once_and_the_next_differs():
    batches = Batches(torch.arange(1000), 16, 4, seed=0)
    epochs = [
        torch.cat([batches[step][0].flatten() for step in range(start, start + batches.steps)])
        for start in (0, batches.steps)
    ]
    for ids in epochs:
        assert len(ids.unique()) == len(ids) == batches.steps * 64
    assert not torch.equal(*epochs)


def test_a_step_depends_on_seed_and_number_alone():
    ids = torch.arange(1000)
    assert torch.equal(Batches(ids, 16, 4, 1)[9][0], Batches(ids, 16, 4, 1)[9][0])
    assert not torch.equal(Batches(ids, 16, 4, 1)[9][0], Batches(ids, 16, 4, 2)[9][0])


@pytest.mark.parametrize("size", range(65, 200, 7))
def test_every_batch_is_full(size):
    batches = Batches(torch.arange(size + 16), 16, 4, seed=size)
    for step in range(3 * batches.steps):
        assert batches[step][0].shape == (4, 16)


def test_too_few_tokens_are_refused():
    with pytest.raises(InputError, match="60 tokens are too few"):
        Batches(torch.arange(60), 16, 4, seed=0)


def test_about_one_in_fifty_is_held_out():
    held_out = sum(is_held_out(f"document {number}", 50) for number in range(5000))
    assert 60 < held_out < 140


def test_what_is_held_out_is_not_trained_on():
    documents = [f"document {number}" for number in range(500)]
    kept, held_out = hold_out(documents)
    assert sorted(kept + held_out) == sorted(documents)
    assert 0 < len(held_out) < 30
    few = [text for text in documents if not is_held_out(text, 50)][:3]
    assert hold_out(few) == (few[:2], few[2:])


def test_of_a_text_in_one_piece_the_end_can_be_held_out(tmp_path):
    path = tmp_path / "notes.txt"
    lines = [f"This is line {number} of it." for number in range(200)]
    path.write_text("\n".join(lines), encoding="utf-8")
    (text, end), kept = read_documents([path])
    assert text + end == "\n".join(lines)
    assert 0.02 * len(text) < len(end) < 0.05 * len(text)
    assert end.startswith("This is line")
    assert kept == 1


def test_files(tmp_path):
    good, latin, empty = (tmp_path / name for name in ("good.txt", "latin.txt", "empty.txt"))
    good.write_text(TEXT, encoding="utf-8")
    latin.write_bytes("café".encode("latin-1"))
    empty.write_text("\n", encoding="utf-8")
    assert read_texts([good]) == [TEXT]
    for path, reason in ((latin, "not UTF-8"), (empty, "empty"), (tmp_path / "none.txt", "none"),
                         (tmp_path, "cannot read")):  # fmt: skip
        with pytest.raises(InputError, match=reason):
            read_texts([path])
