"""What a decision should save, said before it is timed, from costs and roofs alone.

A run takes at least what the roofs allow each of its operations, and what handing them over takes:
one after the other on the CPU, at the same time on a device that works apart. What a decision
changes of it is its prediction. The rest of a run's time is taken to stay as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mvgpt.measure.arms import Arm, reason
from mvgpt.measure.costs import node_costs, total
from mvgpt.measure.decisions import applied
from mvgpt.measure.graph import Step, export_pass, step_inputs
from mvgpt.measure.prices import Roofs, priced
from mvgpt.measure.reading import SHARES, Reading
from mvgpt.progress import progress

COMPILED = "what the compiler fuses is not known before it compiles"
UNMEASURED = "the machine's roofs were not measured"


@dataclass(frozen=True)
class Estimate:
    """What a run costs, and the milliseconds that it takes at least."""

    milliseconds: float
    operations: int
    bytes: int
    flops: int

    def less(self, other: "Estimate") -> dict:
        """The change from the other, as the results hold it."""
        return {key: value - getattr(other, key) for key, value in vars(self).items()}


def predict(arms: Sequence[Arm], reading: Reading, roofs: Roofs | None) -> None:
    """Note in each arm the change from "as written" that is to be expected, or why there is none.

    `predicted` of a "pass" and of a "token": changes of milliseconds, operations, bytes and FLOPs.
    """
    arms = [arm for arm in arms if not arm.skipped]
    base = None
    for arm in progress(arms, "decisions predicted"):
        if arm.decision.compiles or roofs is None:
            arm.reasons["predicted"] = COMPILED if arm.decision.compiles else UNMEASURED
            continue
        try:
            base = base or estimates(reading, roofs)
            with applied(arm.patches):
                found = estimates(reading, roofs) if arm.patches else base
            arm.predicted = {unit: found[unit].less(base[unit]) for unit in SHARES}
        except Exception as error:  # of torch.export: the decision can be timed all the same
            arm.reasons["predicted"] = reason(error)


def estimates(reading: Reading, roofs: Roofs) -> dict[str, Estimate]:
    """Of a pass and of a token."""
    return {unit: estimate(unit, reading, roofs) for unit in SHARES}


def estimate(unit: str, reading: Reading, roofs: Roofs) -> Estimate:
    """A pass over the text, or the step of its token, as the model is patched now."""
    if unit == "pass":
        module, inputs = reading.model, (reading.ids,)
    else:
        module = Step(reading.model)
        inputs = step_inputs(reading.model, reading.cached + 1, seed=0)
    costs = node_costs(export_pass(module, *inputs), *inputs)
    attainable = sum(p["attainable_milliseconds"] for p in priced(costs, roofs).values())
    together = sum if reading.device.type == "cpu" else max
    milliseconds = together((attainable, len(costs) * roofs.hand_over))
    whole = total(costs)
    return Estimate(milliseconds, len(costs), whole.bytes, whole.flops)
