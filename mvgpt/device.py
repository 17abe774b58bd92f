"""Where the model runs, and waiting for it."""

import torch

from mvgpt.errors import InputError

DEVICES = ("auto", "cpu", "cuda", "mps")


def pick_device(name: str = "auto") -> torch.device:
    """The device of that name; "auto" is CUDA where there is one, else MPS, else the CPU.

    A device that this machine or this build of PyTorch does not have is an InputError.
    """
    if name not in DEVICES:
        raise InputError(f"there is no device {name!r}; choose one of {', '.join(DEVICES)}")
    present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(device for device, there in present.items() if there)
    if not present[name]:
        raise InputError(
            f"PyTorch {torch.__version__} finds no {name} device here; use --device cpu, or "
            "install the build for your machine (https://pytorch.org/get-started/locally/)"
        )
    return torch.device(name)


def sync(device: torch.device) -> None:
    """Wait until the device has done all that it was handed; on the CPU that is always so."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
