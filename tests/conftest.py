"""Tiny random models: the same operations, almost no work."""

from pathlib import Path

import pytest
import torch

from mvgpt import GPT, GPTConfig, Tokenizer, save_checkpoint

SHARED = Path(__file__).parents[2] / "shared"
STORIES = Path(__file__).parents[1] / "checkpoints" / "stories"
TEXT = (
    "Mira the mole dug a tunnel under the old mill. She counted roots, and stones, and drops. "
    "At the end of it sat a beetle with a lamp, who asked her the way to the sea!\n"
) * 20


def but_for_load(stderr):
    """What a script wrote to stderr, without its warning that other programs are running."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("warning: the load average"))


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


@pytest.fixture(scope="session")
def tokenizer():
    return Tokenizer.train([TEXT], 300)


@pytest.fixture
def checkpoint(tmp_path, model, tokenizer):
    """A folder with the tiny model in it."""
    save_checkpoint(tmp_path / "tiny", model, tokenizer)
    return tmp_path / "tiny"


@pytest.fixture(scope="session")
def corpus():
    folder = SHARED / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus of old children's books is not here")
    return folder


@pytest.fixture(scope="session")
def stories():
    if not (STORIES / "model.safetensors").exists():
        pytest.skip("the trained model, checkpoints/stories, is not here")
    return STORIES


@pytest.fixture
def quick_compiler(monkeypatch):
    """torch.compile as it is but for Inductor: the graph is captured and run eagerly."""
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, **options: compiler(f, backend="eager",
                                                                       **options))  # fmt: skip
