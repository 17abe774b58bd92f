from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from planted import (
    BY_HAND,
    BY_NAME,
    COMPILE,
    GELU,
    OWN_ATTENTION,
    OWN_GELU,
    checked,
    planted,
    without_mask,
)

import mvgpt.model
from mvgpt import GPT, GPTConfig
from mvgpt.data import random_ids
from mvgpt.errors import InputError
from mvgpt.measure.arms import reason, refer, time_arm
from mvgpt.measure.decisions import BASE, applied, attention
from mvgpt.measure.reading import Reading


def test_patches_are_undone_when_a_later_one_cannot_be_entered():
    patches = [patch("mvgpt.model.gelu", F.gelu), patch("mvgpt.model.no_such_function", F.gelu)]
    with pytest.raises(AttributeError), applied(patches):
        pytest.fail("entered")
    assert mvgpt.model.gelu is OWN_GELU


def test_gelu_as_one_operation_is_24_operations_fewer():
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=300, n_positions=32, n_embd=48)).eval()  # 6 blocks
    arms = {name: checked(BY_NAME[name], model) for name in (BASE, GELU, BY_HAND)}
    assert arms[BASE].calls_per_token - arms[GELU].calls_per_token == 24
    assert arms[BY_HAND].calls_per_token > arms[BASE].calls_per_token
    for arm in arms.values():
        assert arm.valid
        assert arm.argmax_agreement == 1
        assert not arm.skipped
    assert arms[BASE].max_logit_difference == 0
    assert arms[GELU].max_logit_difference > 0  # it was swapped


def test_gelu_of_a_model_that_runs_the_tanh_form_is_skipped(config):
    model = GPT(GPTConfig(**{**vars(config), "activation_function": "gelu_new"})).eval()
    arm = checked(BY_NAME[GELU], model)
    assert "gelu_new, which is one operation as written" in arm.skipped


@pytest.mark.parametrize(("cached", "tokens"), [(0, 1), (0, 17), (0, 256), (9, 1), (9, 17)])
def test_attention_by_hand_is_the_same_function(cached, tokens):
    q, k, v = (torch.randn(1, 2, n, 8) for n in (tokens, cached + tokens, cached + tokens))
    mask = torch.ones(tokens, cached + tokens, dtype=torch.bool).tril(cached) if cached else None
    options = {"attn_mask": mask, "is_causal": mask is None and tokens > 1}
    torch.testing.assert_close(attention(q, k, v, **options), OWN_ATTENTION(q, k, v, **options))


def inverted(q, k, v, attn_mask=None, is_causal=False):
    return attention(q, k, v, None if attn_mask is None else ~attn_mask, is_causal)


def not_a_number(q, k, v, attn_mask=None, is_causal=False):
    return OWN_ATTENTION(q, k, v) * float("nan")


@pytest.mark.parametrize("function", [without_mask, inverted, not_a_number])
def test_another_attention_is_invalid(model, function):
    arm = checked(planted("wrong", "mvgpt.model.F.scaled_dot_product_attention", function), model)
    assert not arm.valid
    assert not arm.skipped
    assert (arm.max_logit_difference is None) == (function is not without_mask)  # NaN


def test_the_tanh_gelu_is_not_the_exact_one_even_untrained():
    """The logits of untrained models are small, and so are their differences."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=300, n_positions=32, n_embd=64, n_layer=2, n_head=4)).eval()
    arm = checked(planted("tanh", "mvgpt.model.gelu", mvgpt.model.gelu_new), model)
    assert arm.max_logit_difference < 1e-3
    assert not arm.valid


def test_logits_that_are_no_numbers_are_refused(model):
    torch.nn.init.constant_(model.ln_f.weight, float("inf"))
    with pytest.raises(InputError, match="not all finite"):
        refer(Reading(model, random_ids(300, 32, 0)))


@pytest.mark.parametrize("tokens", [1, 2, 17, 32])
def test_a_reading_reads_the_same_in_all_ways(model, tokens):
    reading = Reading(model, random_ids(300, tokens, 0))
    whole = reading.one_pass()
    chunks = list(reading.in_chunks())
    torch.testing.assert_close(torch.cat(chunks, dim=1), whole, atol=1e-4, rtol=0)
    for _ in range(3):  # each step finds the cache as it was
        reading.time("token")
        torch.testing.assert_close(reading.step()()[0, 0], whole[0, tokens // 2], atol=1e-4, rtol=0)
    assert reading.cache.position == tokens // 2


def test_what_is_compiled_again_is_counted(model, quick_compiler):
    arm = checked(BY_NAME[COMPILE], model)
    for tokens, recompiles in ((32, 0), (31, 1), (31, 1), (30, 2)):
        time_arm(arm, "pass", Reading(model, random_ids(300, tokens, 0)))
        assert arm.recompiles == recompiles


def test_no_number_for_a_compile_that_did_not_happen(model, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    arm = checked(BY_NAME[COMPILE], model)
    assert "compiled nothing" in arm.skipped
    assert arm.compile_seconds is arm.recompiles is None


def test_reason_is_one_line():
    assert reason(ValueError("first\nsecond")) == "ValueError: first"
    assert reason(ValueError()) == "ValueError: no message"
    assert reason(OSError("C:\\Users\\me\\x.py is 1/2")) == "OSError: (a path) is 1/2"


@pytest.mark.slow
def test_torch_compile_itself(model):
    arm = checked(BY_NAME[COMPILE], model)
    assert arm.skipped is None
    assert arm.valid
    assert arm.compile_seconds > 0
