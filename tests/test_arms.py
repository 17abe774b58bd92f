import copy
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
from mvgpt.measure.arms import (
    TIMES_ROUNDING,
    Arm,
    Reference,
    compare_ids,
    compare_logits,
    reason,
    refer,
    time_arm,
)
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
        assert (arm.greedy_tokens, arm.first_difference) == (100, None)
        assert not arm.reasons
    assert arms[BASE].max_logit_difference == 0
    assert arms[BASE].error_ratio == 1
    assert arms[GELU].max_logit_difference > 0  # it was swapped
    assert 0.1 < arms[GELU].error_ratio < TIMES_ROUNDING


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
    found = [arm.max_logit_difference, arm.error_ratio]
    if function is without_mask:
        assert min(found) > 0
    else:  # NaN
        assert found == [None, None]
        assert set(arm.reasons.values()) == {"its logits are not all finite numbers"}


@torch.no_grad()
def test_the_referee_is_the_code_as_written_in_float64(model):
    """The error ratio and the place of the first difference, worked out once more."""
    decision = planted("another sum", "mvgpt.model.gelu", lambda x: -OWN_GELU(x))
    arm, reading = checked(decision, model), Reading(model, random_ids(300, 32, 0))
    whole = copy.deepcopy(model).double()(reading.ids)  # (1, 32, V)
    exact = torch.cat([whole, whole], dim=1)  # of the pass, and in chunks
    written, ids = read(reading)
    with applied(decision.patches(model)):
        ours, our_ids = read(reading)
    error, rounding = (float((logits - exact).abs().max()) for logits in (ours, written))
    assert arm.error_ratio == pytest.approx(error / rounding, rel=1e-3)
    assert arm.error_ratio > TIMES_ROUNDING
    assert not arm.valid
    same = arm.first_difference - 1
    assert ids[:same] == our_ids[:same]
    assert ids[same] != our_ids[same]


def read(reading):
    """The logits of a pass and in chunks, and what is written."""
    return torch.cat([reading.one_pass(), *reading.in_chunks()], dim=1), reading.write()


def test_where_written_ids_part_is_counted_from_1():
    arm = Arm(BY_NAME[BASE])
    for ids, place in (([5, 6, 7], None), ([4, 6, 7], 1), ([5, 6, 8], 3)):
        compare_ids(arm, ids, [5, 6, 7])
        assert (arm.greedy_tokens, arm.first_difference) == (3, place)


def test_writing_goes_on_from_the_first_tokens_of_the_text(model):
    reading = Reading(model, random_ids(300, 32, 0))
    ids = reading.ids[0, :16].tolist()
    for token in reading.write()[:5]:
        assert token == int(model(torch.tensor([ids]))[0, -1].argmax())
        ids.append(token)


def test_without_any_rounding_only_the_same_is_valid(model):
    """Where the embedding is 0 all logits are, in any precision."""
    torch.nn.init.zeros_(model.wte.weight)
    arm = checked(BY_NAME[GELU], model)
    assert (arm.error_ratio, arm.valid) == (1, True)
    arm, zeros = Arm(BY_NAME[GELU]), torch.zeros(1, 32, 300)
    compare_logits(arm, [zeros + 1e-9], Reference([zeros], [zeros], []))
    assert (arm.error_ratio, arm.valid) == (None, False)


def test_the_tanh_gelu_is_not_the_exact_one_even_untrained():
    """The logits of untrained models are small, and so are their differences."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=300, n_positions=32, n_embd=64, n_layer=2, n_head=4)).eval()
    arm = checked(planted("tanh", "mvgpt.model.gelu", mvgpt.model.gelu_new), model)
    assert arm.max_logit_difference < 1e-3
    assert arm.error_ratio > 2 * TIMES_ROUNDING
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
    assert (arm.greedy_tokens, arm.calls_per_token) == (None, None)
    assert set(arm.reasons) == {"token", "calls_per_token", "greedy_tokens"}
    assert arm.error_ratio == 1
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
