"""The training loop: a generator, so that a script can print, draw and save between its steps."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
import torch
import torch.nn.functional as F

from mvgpt.data import Batches
from mvgpt.errors import InputError
from mvgpt.files import replacing
from mvgpt.model import GPT


@dataclass(frozen=True)
class Recipe:
    """How one stage is trained. Learning rates per step, the rest in the field's terms."""

    steps: int
    learning_rate: float = 1e-3  # after the warm-up, where the cosine begins
    final_rate: float = 0.1  # where the cosine ends, as a share of learning_rate
    warmup: int = 100  # steps
    weight_decay: float = 0.1  # of matrices; not of biases and layer norms
    clip: float = 1.0  # the largest norm of all gradients together
    seed: int = 0


@dataclass(frozen=True)
class Step:
    """One step as it was: loss in nats per token, before the update."""

    number: int  # from 1
    loss: float
    learning_rate: float


def make_optimizer(model: GPT, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2019), decaying matrices and nothing else."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.95), fused=True)


def learning_rate(step: int, recipe: Recipe) -> float:
    """The rate of a step (from 0): a linear warm-up, then half a cosine down to final_rate."""
    warmup = min(recipe.warmup, recipe.steps // 10)
    if step < warmup:
        return recipe.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(1, recipe.steps - warmup)
    low = recipe.final_rate * recipe.learning_rate
    return low + (recipe.learning_rate - low) * 0.5 * (1 + math.cos(math.pi * done))


def train(
    model: GPT,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    recipe: Recipe,
    start: int = 0,
    precision: torch.dtype | None = torch.bfloat16,
) -> Iterator[Step]:
    """Train the steps from `start` on, yielding each when it is done.

    The model and the optimizer are updated in place. Each step draws its dropout from its own
    seed, so that a run that was interrupted goes on as if it had not been. `precision` is what
    matrix products are computed in (None: as the weights are); the weights stay float32.
    """
    device = model.wte.weight.device
    model.train()
    for step in range(start, recipe.steps):
        torch.manual_seed((recipe.seed << 32) + step)
        rate = learning_rate(step, recipe)
        for group in optimizer.param_groups:
            group["lr"] = rate
        inputs, targets = (x.to(device) for x in batches[step])
        with torch.autocast(device.type, precision, enabled=precision is not None):
            logits = model(inputs)  # (B, T, V)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
        if not math.isfinite(loss.item()):
            raise InputError(f"the loss of step {step + 1} is {loss.item()}; try a lower rate")
        yield Step(step + 1, loss.item(), rate)


@torch.no_grad()
def evaluate(model: GPT, ids: torch.Tensor, batch_size: int = 8) -> float:
    """The loss over ids (N,) in nats per token, in windows that do not overlap, without dropout.

    A token is predicted from its own window alone. The model is left in the mode it was found in.
    """
    window = min(model.config.n_positions, len(ids) - 1)
    count = (len(ids) - 1) // window
    device = model.wte.weight.device
    rows = torch.stack([ids[i * window : (i + 1) * window + 1] for i in range(count)])
    training, total = model.training, 0.0
    model.eval()
    for part in rows.to(device).split(batch_size):
        logits = model(part[:, :-1])
        total += F.cross_entropy(
            logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum"
        ).item()
    model.train(training)
    return total / (count * window)


def save_state(path: Path, model: GPT, optimizer: torch.optim.Optimizer, info: dict) -> None:
    """Write an unfinished training: its tensors, and `info` as JSON, as one safetensors file.

    A kill leaves the old one or the new one whole.
    """
    tensors = {f"model.{name}": w for name, w in model.state_dict().items()}
    for number, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
    with replacing(path) as (beside,):
        safetensors.torch.save_file(tensors, beside, {"info": json.dumps(info)})


def read_state_info(path: Path) -> dict | None:
    """The `info` of a saved state, or None where there is none."""
    if not path.exists():
        return None
    try:
        with safetensors.safe_open(path, "pt") as file:
            return json.loads(file.metadata()["info"])
    except safetensors.SafetensorError as error:
        raise InputError(f"{path.name} is damaged; remove it to begin anew ({error})") from None


def load_state(path: Path, model: GPT, optimizer: torch.optim.Optimizer | None = None) -> None:
    """Put a saved state into the model, and into the optimizer where one is given."""
    tensors = safetensors.torch.load_file(path)
    model.load_state_dict(
        {n.removeprefix("model."): w for n, w in tensors.items() if n.startswith("model.")}
    )
    if optimizer is None:
        return
    state = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, number, key = name.split(".")
            state.setdefault(int(number), {})[key] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
