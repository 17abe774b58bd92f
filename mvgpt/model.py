"""A GPT-2, to be read from top to bottom.

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners": learned positions,
pre-norm blocks, and the token embedding used once more as the head.

Shapes: B sequences of T tokens, C channels in H heads, V tokens in the vocabulary.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

from mvgpt.config import GPTConfig


class Attention(nn.Module):
    """Each token looks at itself and at the tokens before it, in H heads."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        C = config.n_embd
        self.n_head = config.n_head
        self.query = nn.Linear(C, C)
        self.key = nn.Linear(C, C)
        self.value = nn.Linear(C, C)
        self.c_proj = nn.Linear(C, C)
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)"""
        B, T, C = x.shape
        H = self.n_head
        q = self.query(x).view(B, T, H, C // H).transpose(1, 2)  # (B, H, T, C/H)
        k = self.key(x).view(B, T, H, C // H).transpose(1, 2)  # (B, H, T, C/H)
        v = self.value(x).view(B, T, H, C // H).transpose(1, 2)  # (B, H, T, C/H)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)  # (B, H, T, C/H)
        y = y.transpose(1, 2).reshape(B, T, C)
        return self.dropout(self.c_proj(y))
