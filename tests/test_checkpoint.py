import copy
import json
import subprocess
import sys
from dataclasses import replace

import pytest
import safetensors.torch
import torch

from mvgpt import GPT, GPTConfig, generate, load_checkpoint, save_checkpoint
from mvgpt.checkpoint import WEIGHTS
from mvgpt.errors import InputError

IDS = torch.arange(1, 31)[None]


@pytest.fixture
def folder(model, tokenizer, tmp_path):
    save_checkpoint(tmp_path / "model", model, tokenizer, dtype=torch.float32)
    return tmp_path / "model"


def change(folder, edit):
    """Rewrite the weights of a checkpoint after `edit(weights)`."""
    weights = safetensors.torch.load_file(folder / WEIGHTS)
    edit(weights)
    safetensors.torch.save_file(weights, folder / WEIGHTS)


@torch.no_grad()
def test_saved_and_loaded(folder, model, tokenizer):
    again, its_tokenizer = load_checkpoint(folder)
    assert not again.training
    assert again.config == model.config
    assert torch.equal(again(IDS), model(IDS))
    assert its_tokenizer.encode("the sea") == tokenizer.encode("the sea")


@torch.no_grad()
def test_float16_is_what_ships(model, tokenizer, tmp_path):
    save_checkpoint(tmp_path, model, tokenizer)
    weights = safetensors.torch.load_file(tmp_path / WEIGHTS)
    assert {w.dtype for w in weights.values()} == {torch.float16}
    again, _ = load_checkpoint(tmp_path)
    assert again.wte.weight.dtype == torch.float32
    torch.testing.assert_close(again(IDS), model(IDS), atol=0.01, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_transformers_loads_it_as_it_is(config, tokenizer, tmp_path, activation):
    transformers = pytest.importorskip("transformers")
    model = GPT(replace(config, activation_function=activation)).eval()
    save_checkpoint(tmp_path, model, tokenizer, dtype=torch.float32)
    theirs, info = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=torch.float32, output_loading_info=True
    )
    assert not any(info.values())
    torch.testing.assert_close(theirs.eval()(IDS).logits, model(IDS), atol=1e-5, rtol=0)
    assert theirs.config.eos_token_id == theirs.config.bos_token_id == tokenizer.end
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert their_tokenizer.encode("the sea") == tokenizer.encode("the sea")
    assert their_tokenizer.eos_token_id == tokenizer.end


@torch.no_grad()
def test_it_loads_what_transformers_saves(config, tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**vars(config), bos_token_id=0, eos_token_id=0)
    )
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path / "tokenizer.json")
    ours, _ = load_checkpoint(tmp_path)
    torch.testing.assert_close(ours(IDS), theirs.eval()(IDS).logits, atol=1e-5, rtol=0)


def without_prefix(weights):
    for name in list(weights):
        weights[name.removeprefix("transformer.")] = weights.pop(name)


def with_masks(weights):
    weights["transformer.h.0.attn.bias"] = torch.ones(1, 1, 32, 32).tril()
    weights["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e4)


@torch.no_grad()
@pytest.mark.parametrize("edits", [[without_prefix], [with_masks], [with_masks, without_prefix]])
def test_prefix_and_masks_make_no_difference(folder, model, edits):
    for edit in edits:
        change(folder, edit)
    assert torch.equal(load_checkpoint(folder)[0](IDS), model(IDS))


@torch.no_grad()
def test_the_bias_of_c_attn_is_not_taken_for_a_mask(folder, model):
    change(folder, lambda weights: weights["transformer.h.0.attn.c_attn.bias"].add_(1))
    assert not torch.equal(load_checkpoint(folder)[0](IDS), model(IDS))


@torch.no_grad()
def test_a_head_equal_to_the_embedding_is_tied(folder, model):
    def add_head(weights):
        weights["lm_head.weight"] = weights["transformer.wte.weight"].clone()

    change(folder, add_head)
    assert torch.equal(load_checkpoint(folder)[0](IDS), model(IDS))


def misspell(weights):
    weights["transformer.h.1.mlp.c_fcc.weight"] = weights.pop("transformer.h.1.mlp.c_fc.weight")


def drop_a_layer(weights):
    for name in [name for name in weights if ".h.1." in name]:
        del weights[name]


def misshape(weights):
    weights["transformer.wpe.weight"] = torch.zeros(31, 64)


def another_head(weights):
    weights["lm_head.weight"] = weights["transformer.wte.weight"] + 1


def not_a_number(weights):
    weights["transformer.h.1.mlp.c_fc.bias"][3] = float("nan")


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (misspell, r"lacks h\.1\.mlp\.c_fc\.weight"),
        (drop_a_layer, r"lacks h\.1\.attn\.c_attn\.bias"),
        (misshape, r"wpe\.weight has the shape \(31, 64\).* \(32, 64\)"),
        (another_head, r"lm_head\.weight differs"),
        (not_a_number, r"h\.1\.mlp\.c_fc\.bias holds values that are not finite"),
        (lambda weights: weights.update(extra=torch.ones(1)), "unknown extra"),
    ],
)
def test_a_wrong_key_is_named(folder, edit, named):
    change(folder, edit)
    with pytest.raises(InputError, match=named):
        load_checkpoint(folder)


def test_a_compiled_model_saves_clean_keys(model, tokenizer, tmp_path):
    save_checkpoint(tmp_path, torch.compile(model), tokenizer)
    names = safetensors.torch.load_file(tmp_path / WEIGHTS)
    assert not any("_orig_mod" in name for name in names)
    assert "lm_head.weight" not in names
    code = f"from mvgpt import load_checkpoint; load_checkpoint({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)


def damage(folder, content):
    path = folder / WEIGHTS
    path.write_bytes(content(path.read_bytes()))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (
            lambda b: b"version https://git-lfs.github.com/spec/v1\noid",
            r"46 bytes.* git-lfs",
        ),
        (lambda b: b"", "empty"),
        (lambda b: b[: int(0.9 * len(b))], "cut off"),
        (lambda b: b"<html>not found</html>", "not safetensors"),
    ],
)
def test_damaged_weights_are_named(folder, content, named):
    damage(folder, content)
    with pytest.raises(InputError, match=named):
        load_checkpoint(folder)


def test_missing_parts_are_named(folder, tmp_path):
    with pytest.raises(InputError, match="no checkpoint folder"):
        load_checkpoint(tmp_path / "none")
    for name in (WEIGHTS, "tokenizer.json", "config.json"):
        (folder / name).unlink()
        with pytest.raises(InputError, match=name):
            load_checkpoint(folder)


def test_a_config_that_does_not_fit_the_weights(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"n_embd": 32}), encoding="utf-8")
    with pytest.raises(InputError, match="shape"):
        load_checkpoint(folder)


def test_a_vocabulary_padded_past_the_tokenizers(config, tokenizer, tmp_path):
    model = GPT(replace(config, vocab_size=348)).eval()
    save_checkpoint(tmp_path, model, tokenizer)
    model, tokenizer = load_checkpoint(tmp_path)
    generator = torch.Generator().manual_seed(0)
    ids = generate(model, [1], 500, temperature=2, top_k=20_000, vocab=tokenizer.vocab_size,
                   generator=generator)  # fmt: skip
    assert max(ids) < 300


def test_a_tokenizer_larger_than_the_model_is_refused(config, tokenizer, tmp_path):
    save_checkpoint(tmp_path, GPT(replace(config, vocab_size=299)), tokenizer)
    with pytest.raises(InputError, match="300 tokens"):
        load_checkpoint(tmp_path)


def test_an_interrupted_save_destroys_nothing(folder, model, tokenizer, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def interrupt(*args):
        raise KeyboardInterrupt

    other = copy.deepcopy(model)
    torch.nn.init.zeros_(other.wte.weight)
    monkeypatch.setattr(type(tokenizer), "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(folder, other, tokenizer)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@torch.no_grad()
def test_the_model_that_ships(stories):
    transformers = pytest.importorskip("transformers")
    model, tokenizer = load_checkpoint(stories)
    assert model.config == GPTConfig()
    text = (stories / "story.txt").read_text(encoding="utf-8")
    ids = torch.tensor([tokenizer.encode(text)[:256]])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(stories, dtype=torch.float32)
    torch.testing.assert_close(model(ids), theirs.eval()(ids).logits, atol=1e-3, rtol=0)
    card = (stories / "README.md").read_text(encoding="utf-8")
    assert "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n")) in card
