"""mvGPT: a small GPT-2, and what its time is spent on. Read config.py first, then model.py."""

from mvgpt.config import GPTConfig

__all__ = ["GPTConfig"]
