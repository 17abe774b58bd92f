"""Tiny random models: the same operations, almost no work."""

import pytest
import torch

from mvgpt import GPT, GPTConfig


@pytest.fixture
def config():
    return GPTConfig(vocab_size=300, n_positions=32, n_embd=64, n_layer=2, n_head=4)


@pytest.fixture
def model(config):
    """In eval mode, with large position embeddings, so that a position fault shows."""
    torch.manual_seed(0)
    model = GPT(config).eval()
    torch.nn.init.normal_(model.wpe.weight, std=0.5)
    return model
