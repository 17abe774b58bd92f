"""A decision on a model: do the same logits come out, and in how many operations?

A decision that computes something else is "invalid", however fast it is. The referee is the code
as written in float64: how far a decision's logits are off from its logits, over how far those of
the code as written are, is the decision's error ratio. The same arithmetic in another order has
about 1; GELU's tanh form in place of the exact one a hundred. A limit on the differences
themselves would fit one model alone: rounding grows with the logits and the layers before them.
"""

import copy
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from mvgpt.errors import InputError
from mvgpt.measure.decisions import BASE, Decision, NotHere, Patches, applied, compiled_graphs
from mvgpt.measure.reading import Reading
from mvgpt.measure.timing import Clock, perf_counter, time_call

TIMES_ROUNDING = 10  # the largest error ratio of what still counts as the same
GROWING = "with a cache that grows it would compile at each length"
NOT_FINITE = "its logits are not all finite numbers"
PATHS = re.compile(r"""(['"])(?:\w:)?[\\/~].*?\1|(?<![\w.<])(?:\w:)?[\\/~][^\s'",;:)]+""")


@dataclass
class Arm:
    """A decision on a model: its patches, made once, and what was found besides the times."""

    decision: Decision
    patches: Patches = ()
    valid: bool = False
    calls_per_token: int | None = None
    max_logit_difference: float | None = None
    error_ratio: float | None = None
    argmax_agreement: float | None = None
    greedy_tokens: int | None = None
    first_difference: int | None = None  # of these, from 1; None where all are equal
    compile_seconds: float | None = None
    recompiles: int | None = None
    skipped: str | None = None
    predicted: dict[str, dict] | None = None
    reasons: dict[str, str] = field(default_factory=dict)  # of what there is none, by its name

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
    """What comes out as written: logits, of the pass and in chunks, those in float64, and ids."""

    logits: Sequence[torch.Tensor]
    exact: Sequence[torch.Tensor]
    greedy: list[int]

    @property
    def tolerance(self) -> float:
        """How far off float64 logits may be."""
        return TIMES_ROUNDING * largest_difference(self.logits, self.exact)


def refer(reading: Reading) -> Reference:
    """Read as written, in float32 and in float64; logits that are no numbers are an InputError."""
    logits = [reading.one_pass(), *reading.in_chunks()]
    exact = Reading(copy.deepcopy(reading.model).cpu().double(), reading.ids.cpu())
    reference = Reference(logits, [exact.one_pass(), *exact.in_chunks()], reading.write())
    if not math.isfinite(reference.tolerance):
        raise InputError("the model's logits are not all finite numbers; check its weights")
    return reference


def largest_difference(ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor]) -> float:
    """The largest of the tensors' differences, pair by pair; NaN if one of them is."""
    pairs = zip(ours, theirs, strict=True)
    return float(torch.stack([(a.cpu().double() - b.cpu()).abs().max() for a, b in pairs]).max())


def check(arm: Arm, reading: Reading, reference: Reference, clock: Clock = perf_counter) -> None:
    """Make the patches, compare what comes out, and count the operations or time the compile."""
    with arm.or_skipped():
        arm.patches = arm.decision.patches(reading.model)
        with applied(arm.patches):
            if arm.decision.compiles:
                compile_pass(arm, reading, clock)
                logits = [reading.one_pass()]  # reading in chunks would compile for each of them
            else:
                logits = [reading.one_pass(), *reading.in_chunks()]
                arm.calls_per_token = reading.operations_per_token()
                compare_ids(arm, reading.write(), reference.greedy)
        compare_logits(arm, logits, reference)


def compare_ids(arm: Arm, ids: list[int], written: list[int]) -> None:
    """Where the most likely tokens, one after another, part from those as written."""
    arm.greedy_tokens = len(ids)
    pairs = enumerate(zip(ids, written, strict=True), 1)
    arm.first_difference = next((place for place, (a, b) in pairs if a != b), None)


def compare_logits(arm: Arm, logits: Sequence[torch.Tensor], reference: Reference) -> None:
    """The first of the logits, or all of them, against those as written and those in float64."""
    written, exact = reference.logits[: len(logits)], reference.exact[: len(logits)]
    error, rounding = largest_difference(logits, exact), largest_difference(written, exact)
    ratio = error / rounding if rounding else math.inf if error else 1.0
    arm.valid = ratio <= TIMES_ROUNDING
    found = {"error_ratio": ratio, "max_logit_difference": largest_difference(logits, written)}
    for key, value in found.items():
        if math.isfinite(value):
            setattr(arm, key, value)
        else:
            arm.reasons[key] = NOT_FINITE
    agree = logits[0].argmax(-1) == written[0].argmax(-1)  # (1, T)
    arm.argmax_agreement = float(agree.cpu().double().mean())


def compile_pass(arm: Arm, reading: Reading, clock: Clock) -> None:
    """Take the first pass, which compiles; one that compiles nothing is no compiled pass."""
    before = compiled_graphs()
    seconds = time_call(reading.one_pass, reading.device, clock)
    if compiled_graphs() == before:
        raise NotHere("torch.compile compiled nothing here; it may be switched off")
    arm.compile_seconds, arm.recompiles = seconds, 0
    arm.reasons |= dict.fromkeys(("token", "calls_per_token", "greedy_tokens"), GROWING)


def time_arm(arm: Arm, unit: str, reading: Reading, clock: Clock = perf_counter) -> float | None:
    """The seconds of a pass or a token with the patches entered; None if it fails.

    Entering them leaves the processor's caches cold, so that a function swapped for itself came
    out 3 % slower; the first pass or token after it does not count. What is compiled again does.
    """
    before = compiled_graphs() if arm.decision.compiles else 0
    with arm.or_skipped(), applied(arm.patches):
        seconds = reading.time_warm(unit, clock)
        if arm.decision.compiles:
            arm.recompiles += compiled_graphs() - before
        return seconds
    return None
