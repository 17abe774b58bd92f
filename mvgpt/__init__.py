"""mvGPT: a small GPT-2, and what its time is spent on. Read config.py first, then model.py."""

from mvgpt.cache import KVCache
from mvgpt.checkpoint import load_checkpoint, save_checkpoint
from mvgpt.config import GPTConfig
from mvgpt.device import pick_device
from mvgpt.generate import generate, stream
from mvgpt.model import GPT
from mvgpt.tokenizer import Tokenizer

__all__ = [
    "GPT",
    "GPTConfig",
    "KVCache",
    "Tokenizer",
    "generate",
    "load_checkpoint",
    "pick_device",
    "save_checkpoint",
    "stream",
]
