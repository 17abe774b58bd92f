import copy
import math

import pytest
import torch
import torch.nn.functional as F

from mvgpt import GPT, GPTConfig
from mvgpt.errors import InputError


def test_default_sizes():
    model = GPT(GPTConfig())
    assert sum(p.numel() for p in model.parameters()) == 14_585_856


def test_a_full_window_is_163_operations():
    model = GPT(GPTConfig()).eval()
    exported = torch.export.export(model, (torch.zeros(1, 256, dtype=torch.int64),))
    names = [n.name for n in exported.graph.nodes if n.op == "call_function"]
    assert len(names) == 163
    assert sum(name.startswith("linear") for name in names) == 37
    assert names[-1] == "linear_36"  # the head


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
@torch.no_grad()
def test_logits_equal_those_of_transformers(activation, config):
    transformers = pytest.importorskip("transformers")
    config = GPTConfig(**{**vars(config), "activation_function": activation})
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**vars(config), bos_token_id=0, eos_token_id=0)
    ).eval()
    ours = GPT(config).eval()
    copy_weights(theirs.transformer, ours)
    ids = torch.randint(300, (2, 32))
    torch.testing.assert_close(ours(ids), theirs(ids).logits, atol=1e-5, rtol=0)


def copy_weights(theirs, ours):
    """GPT-2's modules to ours: query, key, value are one matrix there, stored inputs first."""
    for theirs_module, our_module in ((theirs.wte, ours.wte), (theirs.wpe, ours.wpe),
                                      (theirs.ln_f, ours.ln_f)):  # fmt: skip
        our_module.load_state_dict(theirs_module.state_dict())
    for theirs_block, block in zip(theirs.h, ours.h, strict=True):
        for name in ("ln_1", "ln_2"):
            getattr(block, name).load_state_dict(getattr(theirs_block, name).state_dict())
        attn = theirs_block.attn.c_attn
        parts = (block.attn.query, block.attn.key, block.attn.value)
        for part, w, b in zip(parts, attn.weight.chunk(3, 1), attn.bias.chunk(3), strict=True):
            part.load_state_dict({"weight": w.t(), "bias": b})
        for theirs_linear, linear in (
            (theirs_block.attn.c_proj, block.attn.c_proj),
            (theirs_block.mlp.c_fc, block.mlp.c_fc),
            (theirs_block.mlp.c_proj, block.mlp.c_proj),
        ):
            linear.load_state_dict({"weight": theirs_linear.weight.t(), "bias": theirs_linear.bias})


def test_the_head_stays_the_embedding(config):
    model = copy.deepcopy(GPT(config)).to(torch.float64)
    assert "lm_head.weight" not in model.state_dict()
    ids = torch.randint(300, (1, 4))
    before = model(ids)
    before.sum().backward()
    assert model.wte.weight.grad.abs().sum(1).gt(0).all()  # every row, as the head's
    with torch.no_grad():
        model.wte.weight.mul_(2)
    assert not torch.equal(model(ids), before)


def test_dropout_is_for_training_only(config):
    model = GPT(GPTConfig(**{**vars(config), "embd_pdrop": 0.5, "resid_pdrop": 0.5}))
    ids = torch.randint(300, (1, 8))
    assert not torch.equal(model(ids), model(ids))
    model.eval()
    assert torch.equal(model(ids), model(ids))


@pytest.mark.parametrize("length", [1, 2, 17, 32])
def test_windows(model, length):
    assert model(torch.zeros(2, length, dtype=torch.int64)).shape == (2, length, 300)


def test_more_than_the_window_is_refused(model):
    with pytest.raises(InputError, match="33 tokens do not fit the window of 32"):
        model(torch.zeros(1, 33, dtype=torch.int64))


def test_start_is_that_of_an_untrained_model():
    """All tokens about as likely: a loss of ln V."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(n_layer=2))
    ids = torch.randint(10_000, (2, 64))
    loss = F.cross_entropy(model(ids).flatten(0, 1), torch.randint(10_000, (128,)))
    assert abs(loss.item() - math.log(10_000)) < 0.2
