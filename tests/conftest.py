"""Tiny random models: the same operations, almost no work."""

import pytest

from mvgpt import GPTConfig


@pytest.fixture
def config():
    return GPTConfig(vocab_size=300, n_positions=32, n_embd=64, n_layer=2, n_head=4)
