"""What was measured where: the conditions that travel with every result."""

import os
import platform
import re
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]  # the repository


def conditions(
    device: torch.device, dtype: torch.dtype, seed: int, machine: str | None = None
) -> dict:
    """What a result depends on besides the code. No path, no user's name, no host's name."""
    return {
        "machine": machine or machine_name(device),
        "device": device.type,
        "threads": torch.get_num_threads(),
        "usable_cores": usable_cores(),
        "dtype": str(dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "os": platform.system(),
        "python": platform.python_version(),
        "step": step(),
        "load_average": load_average(),
        "seed": seed,
    }


def machine_name(device: torch.device) -> str:
    """A short name of what computes: the GPU's, else the processor's and its cores."""
    if device.type == "cuda":
        return slug(torch.cuda.get_device_name(device))
    return f"{slug(processor())}-{usable_cores()}-cores"


def slug(name: str) -> str:
    """Lower-case words joined by dashes, without trademarks, clock rates and core counts."""
    name = re.sub(r"\((?:r|tm)\)|@.*|\bcpu\b|\bprocessor\b|\b\d+-core\b", " ", name.lower())
    return "-".join(re.findall(r"[a-z0-9]+", name)) or "unknown"


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        if platform.system() == "Darwin":
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return re.search(r"model name\s*: (.*)", text)[1]
    except (OSError, subprocess.CalledProcessError, TypeError):
        return platform.processor() or platform.machine()


def usable_cores() -> int:
    """The cores that this process may run on, as far as its affinity says."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_average() -> float | None:
    """Of the last minute; null where the system keeps none."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def step() -> str | None:
    """The step of the history that runs: "ep06.3", with "+" when mvgpt/ or a script differs.

    Null outside a git checkout of this repository. Housekeeping (steps 00) is no such step.
    """
    if git("rev-parse", "--show-prefix") != "":  # not a repository, or not its top
        return None
    trailers = git("log", "--first-parent", "--format=%H %(trailers:key=Step,valueonly)") or ""
    found = re.search(r"^(\w{40}) ((?!00)\d\d\.\d+)", trailers, re.MULTILINE)
    if not found:
        return None
    code = ("--", "mvgpt", ":(glob)*.py")
    changed = git("diff", "--stat", found[1], *code)
    changed = changed or git("ls-files", "--others", "--exclude-standard", *code)
    return f"ep{found[2]}" + ("+" if changed else "")


def git(*args: str) -> str | None:
    """What git prints, stripped; None where it fails or is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *args], capture_output=True, encoding="utf-8", check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def misfit(threads: int, cores: int) -> str | None:
    """A warning where threads and cores do not fit, else None."""
    if threads > cores:
        return (
            f"{threads} threads on {cores} usable cores wait for each other, which can make a "
            f"run many times slower; try --threads {cores}"
        )
    return None


def crowded(threads: int, cores: int, load: float | None) -> str | None:
    """A warning where other programs seem to need the cores too, by the load average; else None."""
    if load is not None and load + threads > 2 * cores:
        return (
            f"the load average of the last minute is {load} on {cores} usable cores: unless a run "
            "of yours has just ended, close what else runs, or times will be noisy"
        )
    return None
