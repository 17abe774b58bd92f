import pytest

from mvgpt import GPTConfig
from mvgpt.errors import InputError

GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
        "vocab_size": 50257, "activation_function": "gelu_new", "attn_pdrop": 0.1,
        "n_inner": None, "scale_attn_weights": True, "n_ctx": 1024}  # fmt: skip


def test_reads_a_gpt2_config():
    config = GPTConfig.from_dict(GPT2)
    assert (config.n_embd, config.n_positions, config.activation_function) == (
        768,
        1024,
        "gelu_new",
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_inner", 100),
        ("scale_attn_by_inverse_layer_idx", True),
        ("scale_attn_weights", False),
        ("reorder_and_upcast_attn", True),
        ("add_cross_attention", True),
        ("tie_word_embeddings", False),
        ("activation_function", "relu"),
        ("n_layer", 0),
        ("n_layer", "twelve"),
        ("n_head", 7),
        ("resid_pdrop", 1.0),
    ],
)
def test_what_the_model_lacks_is_refused_by_name(key, value):
    with pytest.raises(InputError, match=key):
        GPTConfig.from_dict(GPT2 | {key: value})


@pytest.mark.parametrize("key", ["n_head", "vocab_size", "activation_function"])
def test_a_missing_size_is_named(key):
    with pytest.raises(InputError, match=f"does not say {key}"):
        GPTConfig.from_dict({name: value for name, value in GPT2.items() if name != key})


def test_n_inner_may_say_what_is_so_anyway():
    GPTConfig.from_dict(GPT2 | {"n_inner": 4 * 768})
