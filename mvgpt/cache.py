"""The KV cache: what attention needs of the tokens that were read already."""

import torch


class KVCache:
    """The past keys and values of each block, and the position: how many tokens were read.

    Nothing of it is kept on the model, so that any number of texts can be written at once, each
    with its own cache.
    """

    def __init__(self, n_layer: int):
        self.keys: list[torch.Tensor | None] = [None] * n_layer  # each (B, H, P, C/H)
        self.values: list[torch.Tensor | None] = [None] * n_layer  # each (B, H, P, C/H)
        self.position = 0  # P

    def mask(self, T: int, device: torch.device) -> torch.Tensor | None:
        """Which of the P + T tokens each of T new ones sees: (T, P + T), True where it does.

        None in the two cases that need no mask: one token sees all, and on an empty cache
        `is_causal` says the same. (It counts from the top left corner: wrong for other chunks.)
        """
        P = self.position
        if P == 0 or T == 1:
            return None
        return torch.ones(T, P + T, dtype=torch.bool, device=device).tril(P)

    def extend(
        self, layer: int, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append a block's keys and values (B, H, T, C/H); return all: (B, H, P + T, C/H)."""
        if self.position:
            k = torch.cat((self.keys[layer], k), dim=2)
            v = torch.cat((self.values[layer], v), dim=2)
        self.keys[layer], self.values[layer] = k, v
        return k, v

    def advance(self, T: int) -> None:
        """All blocks have read T more tokens."""
        self.position += T
