import pytest
import torch

from mvgpt import GPT, GPTConfig, KVCache
from mvgpt.errors import InputError


def in_chunks(model, ids, sizes):
    cache = KVCache(model.config.n_layer)
    return torch.cat([model(chunk, cache) for chunk in ids.split(sizes, dim=1)], dim=1), cache


@pytest.mark.parametrize("sizes", [[9], [5, 4], [1, 8], [8, 1], [2, 3, 4], [3, 1, 5], [1] * 9])
@torch.no_grad()
def test_any_chunks_give_the_logits_of_one_pass(model, sizes):
    ids = torch.randint(300, (2, 9))
    logits, cache = in_chunks(model, ids, sizes)
    torch.testing.assert_close(logits, model(ids), atol=1e-4, rtol=0)
    assert cache.position == 9
    assert cache.keys[1].shape == cache.values[0].shape == (2, 4, 9, 16)


@torch.no_grad()
def test_is_causal_alone_would_be_wrong_for_a_chunk(model, monkeypatch):
    """The fault that the mask is there for."""
    monkeypatch.setattr(KVCache, "mask", lambda *args: None)
    ids = torch.randint(300, (1, 9))
    logits, _ = in_chunks(model, ids, [5, 4])
    assert (logits - model(ids)).abs().max() > 1e-2


def test_the_window_counts_what_is_in_the_cache(model):
    _, cache = in_chunks(model, torch.zeros(1, 30, dtype=torch.int64), [30])
    with pytest.raises(InputError, match="33 tokens"):
        model(torch.zeros(1, 3, dtype=torch.int64), cache)


def test_the_cache_takes_the_type_of_the_model(model):
    _, cache = in_chunks(model.to(torch.bfloat16), torch.zeros(1, 4, dtype=torch.int64), [3, 1])
    assert cache.keys[0].dtype == torch.bfloat16


def test_a_token_on_the_cache_is_175_operations():
    """12 more than a pass: each block appends its keys and its values."""
    model = GPT(GPTConfig()).eval()

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, keys, values):
            cache = KVCache(6)
            cache.keys, cache.values, cache.position = list(keys), list(values), 10
            return self.model(ids, cache)

    past = [torch.zeros(1, 6, 10, 64) for _ in range(6)]
    exported = torch.export.export(Step(), (torch.zeros(1, 1, dtype=torch.int64), past, past))
    assert sum(node.op == "call_function" for node in exported.graph.nodes) == 175
