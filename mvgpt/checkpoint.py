"""A Hugging Face GPT-2 folder, in and out: `transformers` loads what is saved here as it is."""

import re
from dataclasses import asdict
from pathlib import Path

import safetensors
import safetensors.torch
import torch

from mvgpt.config import FIXED, GPTConfig
from mvgpt.errors import InputError
from mvgpt.files import read_json, replacing, write_json
from mvgpt.model import GPT
from mvgpt.tokenizer import END, Tokenizer

STORIES = Path(__file__).parents[1] / "checkpoints" / "stories"  # the model that ships
WEIGHTS = "model.safetensors"
FILES = (
    WEIGHTS,
    "tokenizer.json",
    "config.json",
    "tokenizer_config.json",
    "generation_config.json",
    "README.md",
)
PREFIX = "transformer."  # of every key in a file that has the head too
# GPT-2 stores these four matrices as x @ W, inputs first; nn.Linear stores them outputs first.
CONV1D = re.compile(r"h\.\d+\.(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight")
MASKS = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")  # GPT-2's causal masks, not weights


def load_checkpoint(
    folder: str | Path, device: str | torch.device = "cpu"
) -> tuple[GPT, Tokenizer]:
    """The model (float32, in eval mode) and the tokenizer in a GPT-2 folder.

    Anything amiss with the folder is an InputError that names the file, the key or the value.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no checkpoint folder {folder}")
    config = GPTConfig.from_dict(read_json(folder / "config.json"))
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    if tokenizer.vocab_size > config.vocab_size:
        raise InputError(
            f"the tokenizer in {folder} has {tokenizer.vocab_size} tokens, "
            f"the model only {config.vocab_size}"
        )
    with torch.device("meta"):
        model = GPT(config)
    model.load_state_dict(from_gpt2(read_weights(folder / WEIGHTS), model), assign=True)
    return model.to(device).eval(), tokenizer


def save_checkpoint(
    folder: str | Path,
    model: GPT,
    tokenizer: Tokenizer,
    card: str = "A GPT-2 of mvGPT.\n",
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write the model, the tokenizer and a model card (Markdown) as a GPT-2 folder.

    All files are written beside the old ones before the first of them is replaced.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    ids = {"bos_token_id": tokenizer.end, "eos_token_id": tokenizer.end}
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.0}
    config |= asdict(model.config) | FIXED | ids | {"dtype": str(dtype).removeprefix("torch.")}
    json_files = {
        "config.json": config,
        "generation_config.json": ids,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": model.config.n_positions,
            "bos_token": END,
            "eos_token": END,
            "clean_up_tokenization_spaces": False,
        },
    }
    weights = {PREFIX + name: w.to(dtype) for name, w in to_gpt2(model.state_dict()).items()}
    with replacing(*(folder / name for name in FILES)) as paths:
        new = dict(zip(FILES, paths, strict=True))
        safetensors.torch.save_file(weights, new[WEIGHTS], {"format": "pt"})
        tokenizer.save(new["tokenizer.json"])
        for name, values in json_files.items():
            write_json(new[name], values)
        new["README.md"].write_text(card, encoding="utf-8")


def from_gpt2(weights: dict[str, torch.Tensor], model: GPT) -> dict[str, torch.Tensor]:
    """GPT-2's names and layouts to the model's state dict, in float32.

    A missing, unknown or misshapen key, one with values that are not finite numbers, and a head
    that is not the embedding are InputErrors.
    """
    weights = {name.removeprefix(PREFIX): w for name, w in weights.items()}
    weights = {name: w for name, w in weights.items() if not MASKS.fullmatch(name)}
    head = weights.pop("lm_head.weight", None)
    expected = to_gpt2(model.state_dict())
    refuse_keys("lacks", expected.keys() - weights.keys())
    refuse_keys("has the unknown", weights.keys() - expected.keys())
    for name, w in weights.items():
        if w.shape != expected[name].shape:
            raise InputError(
                f"{name} has the shape {tuple(w.shape)}, but the config asks for "
                f"{tuple(expected[name].shape)}"
            )
        if not w.isfinite().all():
            raise InputError(
                f"{name} holds values that are not finite numbers: the file is damaged, or its "
                "training diverged; fetch it again, or train it with a lower rate"
            )
    if head is not None and not torch.equal(head, weights["wte.weight"]):
        raise InputError("lm_head.weight differs from wte.weight; this model's head is tied to it")
    state = {}
    for name, w in weights.items():
        w = w.float().t() if CONV1D.fullmatch(name) else w.float()  # nn.Linear: out x in
        if ".c_attn." in name:
            parts = zip(("query", "key", "value"), w.chunk(3), strict=True)
            state |= {name.replace("c_attn", part): p.contiguous() for part, p in parts}
        else:
            state[name] = w.contiguous()
    return state


def to_gpt2(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The model's state dict under GPT-2's names and in its layouts; the inverse of from_gpt2."""
    weights = {}
    for name, w in state.items():
        if ".attn.key." in name or ".attn.value." in name:
            continue
        if ".attn.query." in name:
            parts = (state[name.replace("query", part)] for part in ("query", "key", "value"))
            name, w = name.replace("query", "c_attn"), torch.cat(list(parts))
        w = w.t() if CONV1D.fullmatch(name) else w
        weights[name] = w.contiguous()
    return weights


def refuse_keys(problem: str, names: set[str]) -> None:
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise InputError(f"the checkpoint {problem} {', '.join(sorted(names)[:3])}{more}")


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file; what is there in its stead is said in an InputError."""
    if not path.exists():
        raise InputError(f"there are no weights in {path.parent}: {path.name} is missing")
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(40)
    if start.startswith(b"version https://git-lfs"):
        raise InputError(
            f"{path} ({size} bytes) is a git-lfs pointer, not the weights; run `git lfs pull`"
        )
    if not size:
        raise InputError(f"{path} is empty (0 bytes); fetch it again")
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(
            f"{path} ({size} bytes) is cut off or not safetensors; fetch it again ({error})"
        ) from None
