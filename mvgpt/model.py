"""A GPT-2, to be read from top to bottom.

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners": learned positions,
pre-norm blocks, and the token embedding used once more as the head.

Shapes: B sequences of T tokens, C channels in H heads, V tokens in the vocabulary. P tokens are
in the cache already, if there is one.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from mvgpt.cache import KVCache
from mvgpt.config import GPTConfig
from mvgpt.errors import InputError


def gelu(x: torch.Tensor) -> torch.Tensor:
    """x times the share of a standard normal below x (Hendrycks and Gimpel 2016), exactly."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def gelu_new(x: torch.Tensor) -> torch.Tensor:
    """The tanh approximation of gelu, which OpenAI trained GPT-2 with."""
    return F.gelu(x, approximate="tanh")


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

    def forward(
        self, x: torch.Tensor, cache: KVCache | None = None, layer: int = 0
    ) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)"""
        B, T, C = x.shape
        H = self.n_head
        q = self.query(x).view(B, T, H, C // H).transpose(1, 2)  # (B, H, T, C/H)
        k = self.key(x).view(B, T, H, C // H).transpose(1, 2)  # (B, H, T, C/H)
        v = self.value(x).view(B, T, H, C // H).transpose(1, 2)  # (B, H, T, C/H)
        mask = None
        if cache is not None:
            mask = cache.mask(T, x.device)
            k, v = cache.extend(layer, k, v)  # (B, H, P + T, C/H)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=T > 1 and mask is None
        )  # (B, H, T, C/H)
        y = y.transpose(1, 2).reshape(B, T, C)
        return self.dropout(self.c_proj(y))


class MLP(nn.Module):
    """Each token by itself, through a layer four times as wide."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        C = config.n_embd
        self.exact = config.activation_function == "gelu"
        self.c_fc = nn.Linear(C, 4 * C)
        self.c_proj = nn.Linear(4 * C, C)
        self.dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)"""
        x = self.c_fc(x)  # (B, T, 4C)
        x = gelu(x) if self.exact else gelu_new(x)
        return self.dropout(self.c_proj(x))  # (B, T, C)


class Block(nn.Module):
    """Attention, then the MLP, each added to what it read (pre-norm)."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.mlp = MLP(config)

    def forward(
        self, x: torch.Tensor, cache: KVCache | None = None, layer: int = 0
    ) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)"""
        x = x + self.attn(self.ln_1(x), cache, layer)
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    """Token ids in, and for each a score of every token that might come next."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.dropout = nn.Dropout(config.embd_pdrop)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd, eps=config.layer_norm_epsilon)
        self.apply(self.init_weights)

    def init_weights(self, module: nn.Module) -> None:
        """GPT-2's start: normal weights, smaller where 2 * n_layer of them add up in a row."""
        std = self.config.initializer_range
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        if isinstance(module, Attention | MLP):
            nn.init.normal_(module.c_proj.weight, std=std / math.sqrt(2 * self.config.n_layer))

    def forward(self, ids: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        """ids (B, T) -> logits (B, T, V).

        With a cache the ids go on from those it holds, and it holds them too afterwards. More
        tokens than the window, those in the cache included, is an InputError.
        """
        B, T = ids.shape
        P = cache.position if cache is not None else 0
        if P + T > self.config.n_positions:
            raise InputError(f"{P + T} tokens do not fit the window of {self.config.n_positions}")
        positions = torch.arange(P, P + T, device=ids.device)
        x = self.dropout(self.wte(ids) + self.wpe(positions))  # (B, T, C)
        for layer, block in enumerate(self.h):
            x = block(x, cache, layer)
        if cache is not None:
            cache.advance(T)
        return F.linear(self.ln_f(x), self.wte.weight)  # (B, T, V); the head is the embedding
