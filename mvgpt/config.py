"""The sizes of the model, under the names that GPT-2's config.json gives them."""

from dataclasses import dataclass, fields

from mvgpt.errors import InputError

# What GPT-2's config can say and this model does not do: the only value it accepts for each.
FIXED = {
    "add_cross_attention": False,
    "reorder_and_upcast_attn": False,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "tie_word_embeddings": True,
}
SIZES = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
ACTIVATIONS = ("gelu", "gelu_new")


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a GPT; the defaults are the model that ships.

    `activation_function` is "gelu" (the exact one) or "gelu_new" (GPT-2's tanh form). The two
    dropouts are probabilities, used in training only.
    """

    vocab_size: int = 10_000
    n_positions: int = 256  # the window: how many tokens the model sees at once
    n_embd: int = 384  # channels
    n_layer: int = 6  # blocks
    n_head: int = 6
    activation_function: str = "gelu"
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02
    embd_pdrop: float = 0.0
    resid_pdrop: float = 0.0

    def __post_init__(self):
        for name in SIZES:
            size = getattr(self, name)
            if not isinstance(size, int) or size < 1:
                raise InputError(f"{name} is {size!r}; it must be a whole number from 1")
        if self.n_embd % self.n_head:
            raise InputError(
                f"n_embd is {self.n_embd}, which n_head {self.n_head} does not divide; "
                "each head takes an equal share of the channels"
            )
        if self.activation_function not in ACTIVATIONS:
            raise InputError(
                f"activation_function is {self.activation_function!r}; "
                f"this model knows {' and '.join(ACTIVATIONS)}"
            )
        for name in ("embd_pdrop", "resid_pdrop"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)!r}; it must be in [0, 1)")

    @classmethod
    def from_dict(cls, values: dict) -> "GPTConfig":
        """The config in a GPT-2 config.json.

        Keys that say nothing about the computation are passed over, and so is `attn_pdrop`, which
        matters in training only. A size that is missing, or a value that asks for a computation
        this model does not have, is an InputError that names it.
        """
        for name in (*SIZES, "activation_function"):
            if name not in values:
                raise InputError(f"the config does not say {name}")
        for name, only in FIXED.items():
            if values.get(name, only) != only:
                raise InputError(f"{name} is {values[name]!r}; this model has only {only!r}")
        config = cls(**{f.name: values[f.name] for f in fields(cls) if f.name in values})
        if values.get("n_inner") not in (None, 4 * config.n_embd):
            raise InputError(
                f"n_inner is {values['n_inner']!r}; this model's MLP is 4 * n_embd = "
                f"{4 * config.n_embd} wide"
            )
        return config
