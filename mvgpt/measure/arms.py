"""A decision on a model: do the same logits come out, and in how many operations?

A decision that computes something else is "invalid", however fast it is. What counts as the same
is measured: the logits as written are computed once more in float64, and what the float32 ones
are off from those is their rounding. The same arithmetic in another order is off by about as
much; GELU's tanh form in place of the exact one by a hundred times as much. A fixed limit would
fit one model alone, since rounding grows with the logits and with the layers before them.
"""

import copy
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from mvgpt.errors import InputError
from mvgpt.measure.decisions import BASE, Decision, NotHere, Patches, applied, compiled_graphs
from mvgpt.measure.reading import Reading
from mvgpt.measure.timing import Clock, perf_counter, time_call

TIMES_ROUNDING = 10  # how far apart logits may be and still count as the same
PATHS = re.compile(r"""(['"])(?:\w:)?[\\/~].*?\1|(?<![\w.<])(?:\w:)?[\\/~][^\s'",;:)]+""")


@dataclass
class Arm:
    """A decision on a model: its patches, made once, and what was found besides the times."""

    decision: Decision
    patches: Patches = ()
    valid: bool = False
    calls_per_token: int | None = None
    max_logit_difference: float | None = None
    argmax_agreement: float | None = None
    compile_seconds: float | None = None
    recompiles: int | None = None
    skipped: str | None = None

    @contextmanager
    def or_skipped(self) -> Iterator[None]:
        """Where the block fails the arm is skipped, with the reason, and the others go on."""
        try:
            yield
        except Exception as error:
            if self.decision.name == BASE:  # then there is nothing to compare with
                raise
            self.skipped = reason(error)


def reason(error: Exception) -> str:
    """One line that says what failed, without the paths in it."""
    if isinstance(error, NotHere):
        return str(error)
    error = getattr(error, "inner_exception", error)  # what torch.compile wraps
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {PATHS.sub('(a path)', lines[0])}"


@dataclass(frozen=True)
class Reference:
    """The logits as written, of the pass and in chunks, and how far from them is the same."""

    logits: Sequence[torch.Tensor]
    tolerance: float


def refer(reading: Reading) -> Reference:
    """Read as written, in float32 and in float64; logits that are no numbers are an InputError."""
    logits = [reading.one_pass(), *reading.in_chunks()]
    exact = Reading(copy.deepcopy(reading.model).cpu().double(), reading.ids.cpu())
    rounding = largest_difference(logits, [exact.one_pass(), *exact.in_chunks()])
    if not math.isfinite(rounding):
        raise InputError("the model's logits are not all finite numbers; check its weights")
    return Reference(logits, TIMES_ROUNDING * rounding)


def largest_difference(ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor]) -> float:
    """The largest of the tensors' differences, pair by pair; NaN if one of them is."""
    pairs = zip(ours, theirs, strict=True)
    return float(torch.stack([(a.cpu().double() - b.cpu()).abs().max() for a, b in pairs]).max())


def check(arm: Arm, reading: Reading, reference: Reference, clock: Clock = perf_counter) -> None:
    """Make the patches, compare the logits, and count the operations or time the compile."""
    with arm.or_skipped():
        arm.patches = arm.decision.patches(reading.model)
        with applied(arm.patches):
            if arm.decision.compiles:
                compile_pass(arm, reading, clock)
                logits = [reading.one_pass()]  # reading in chunks would compile for each of them
            else:
                logits = [reading.one_pass(), *reading.in_chunks()]
                arm.calls_per_token = reading.operations_per_token()
        difference = largest_difference(logits, reference.logits[: len(logits)])
        arm.valid = difference <= reference.tolerance
        arm.max_logit_difference = difference if math.isfinite(difference) else None
        agree = logits[0].argmax(-1) == reference.logits[0].argmax(-1)  # (1, T)
        arm.argmax_agreement = float(agree.cpu().double().mean())


def compile_pass(arm: Arm, reading: Reading, clock: Clock) -> None:
    """Take the first pass, which compiles; one that compiles nothing is no compiled pass."""
    before = compiled_graphs()
    seconds = time_call(reading.one_pass, reading.device, clock)
    if compiled_graphs() == before:
        raise NotHere("torch.compile compiled nothing here; it may be switched off")
    arm.compile_seconds, arm.recompiles = seconds, 0


def time_arm(arm: Arm, unit: str, reading: Reading, clock: Clock = perf_counter) -> float | None:
    """The seconds of a pass or a token with the patches entered; None if it fails.

    Entering them leaves the processor's caches cold, so that a function swapped for itself came
    out 3 % slower; the first pass or token after it does not count. What is compiled again does.
    """
    before = compiled_graphs() if arm.decision.compiles else 0
    with arm.or_skipped(), applied(arm.patches):
        _, seconds = reading.time(unit, clock), reading.time(unit, clock)
        if arm.decision.compiles:
            arm.recompiles += compiled_graphs() - before
        return seconds
    return None
