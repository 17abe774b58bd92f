import math

import torch
import torch.nn.functional as F

from mvgpt.model import MLP, Block, gelu, gelu_new


def test_both_gelus():
    x = torch.linspace(-6, 6, 101, dtype=torch.float64)
    torch.testing.assert_close(gelu(x), F.gelu(x))
    torch.testing.assert_close(
        gelu_new(x), 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    )
    assert (gelu(x) - gelu_new(x)).abs().max() > 1e-4


def test_mlp_is_as_wide_as_gpt2(config):
    assert MLP(config).c_fc.weight.shape == (256, 64)


@torch.no_grad()
def test_a_block_adds_to_what_it_read(config):
    block, x = Block(config), torch.randn(1, 5, 64)
    y = x + block.attn(block.ln_1(x))
    torch.testing.assert_close(block(x), y + block.mlp(block.ln_2(y)))
    for parameter in (*block.attn.c_proj.parameters(), *block.mlp.c_proj.parameters()):
        parameter.zero_()
    torch.testing.assert_close(block(x), x)
