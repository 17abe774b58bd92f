import math

import torch

from mvgpt.model import Attention


def attention_by_arithmetic(layer, x):
    """softmax(q k^T / sqrt(d)) v of one sequence, a number at a time."""
    T, C = x.shape
    d = C // layer.n_head
    q, k, v = layer.query(x), layer.key(x), layer.value(x)
    y = torch.zeros(T, C)
    for h in range(layer.n_head):
        at = slice(h * d, (h + 1) * d)
        for t in range(T):
            scores = [float(q[t, at] @ k[s, at]) / math.sqrt(d) for s in range(t + 1)]
            weights = [math.exp(score - max(scores)) for score in scores]
            for s, weight in enumerate(weights):
                y[t, at] += weight / sum(weights) * v[s, at]
    return layer.c_proj(y)


@torch.no_grad()
def test_attention_is_the_formula(config):
    layer = Attention(config)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # so that the weights differ between tokens
    x = torch.randn(7, 64)
    torch.testing.assert_close(layer(x[None])[0], attention_by_arithmetic(layer, x))


@torch.no_grad()
def test_no_token_sees_a_later_one(config):
    layer, x = Attention(config), torch.randn(1, 12, 64)
    changed = x.clone()
    changed[0, 8] += 1
    difference = (layer(x) - layer(changed)).abs().amax(-1)[0]
    assert (difference[:8] == 0).all()
    assert (difference[8:] > 0).all()


def test_the_formula_is_one_operation(config):
    layer = Attention(config)
    exported = torch.export.export(layer, (torch.randn(1, 12, 64),))
    names = [node.name for node in exported.graph.nodes if node.op == "call_function"]
    assert names.count("scaled_dot_product_attention") == 1
    assert not any(name.startswith(("softmax", "matmul")) for name in names)
