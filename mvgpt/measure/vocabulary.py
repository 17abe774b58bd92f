"""What a larger vocabulary costs: untrained models that are alike but for it, taking turns.

A larger one makes each token slower, and texts shorter in tokens; so each is weighed by the
character of text too. The model's own size is there twice, to show the noise.
"""

import textwrap
from dataclasses import dataclass, replace
from functools import partial

import torch

from mvgpt import GPT, GPTConfig
from mvgpt.data import random_ids
from mvgpt.measure import report
from mvgpt.measure.reading import SHARES, Reading
from mvgpt.measure.timing import (
    FASTER,
    Clock,
    Ratio,
    Round,
    as_json,
    compare,
    perf_counter,
    run_rounds,
    spread,
    verdict,
)
from mvgpt.progress import progress


def compare_vocabularies(
    config: GPTConfig,
    characters: dict,
    device: torch.device,
    seed: int,
    budget: float,
    clock: Clock = perf_counter,
) -> dict:
    """`vocabulary`, a row for each size, and `characters` of the results.

    `characters` is what count_characters says of the sizes, of which the config's own is one.
    `budget` is the seconds of rounds; 10 rounds of each are run in any case.
    """
    sizes = list(map(int, characters["per_token"]))
    own = str(config.vocab_size)
    names = {str(size): size for size in sizes} | {again(own): config.vocab_size}
    readings = {name: untrained(config, size, device, seed) for name, size in names.items()}
    rounds = {}
    for unit, share in SHARES.items():
        cases = {name: partial(reading.time_warm, unit, clock)
                 for name, reading in readings.items()}  # fmt: skip
        timed = run_rounds(cases, seed=seed, base=own, budget=share * budget, clock=clock)
        rounds[unit] = list(progress(timed, f"vocabularies, rounds of a {unit}"))
    found = Vocabularies(config, characters["per_token"], rounds)
    return {
        "vocabulary": [found.row(size) for size in sizes],
        "characters": {**characters, "quickest": {unit: found.quickest(unit) for unit in SHARES}},
    }


def untrained(config: GPTConfig, vocab_size: int, device: torch.device, seed: int) -> Reading:
    """A full window of random ids, and a model with random weights to read it."""
    model = GPT(replace(config, vocab_size=vocab_size)).to(device).eval()
    return Reading(model, random_ids(vocab_size, config.n_positions, seed))


def again(own: str) -> str:
    return f"{own}, again"


def work(config: GPTConfig, vocab_size: int) -> dict[str, int]:
    """What time should follow: the FLOPs of a pass, and the weights that a token is multiplied
    with, which bring nearly all of its bytes.
    """
    T, C, layers = config.n_positions, config.n_embd, config.n_layer
    weights = 12 * layers * C**2 + vocab_size * C  # of the blocks and of the head
    return {"pass": 2 * T * weights + 4 * layers * T**2 * C, "token": weights}


@dataclass(frozen=True)
class Vocabularies:
    """The rounds of each unit by the name of the size, and the characters a token of each."""

    config: GPTConfig
    per_token: dict[str, float | None]
    rounds: dict[str, list[Round]]

    def row(self, size: int) -> dict:
        """Times, their ratios to the model's own size, those predicted, and times a character."""
        own, ours = self.config.vocab_size, work(self.config, size)
        theirs = work(self.config, own)
        each = self.per_token[str(size)]
        ratios = {unit: as_json(compare(self.rounds[unit], str(size), str(own))) for unit in SHARES}
        covered = each and {"pass": each * self.config.n_positions, "token": each}
        return {
            "vocab_size": size,
            **{unit: self.spread(size, unit, 1000) for unit in SHARES},
            "head_weights": size * self.config.n_embd,
            "ratio": ratios,
            "predicted": {unit: ours[unit] / theirs[unit] for unit in SHARES},
            "characters_per_token": each,
            "milliseconds_per_character": each
            and {unit: self.spread(size, unit, 1000 / covered[unit]) for unit in SHARES},
        }

    def spread(self, size: int, unit: str, scale: float) -> dict:
        return as_json(spread([seconds[str(size)] for seconds in self.rounds[unit]], scale))

    def quickest(self, unit: str) -> int | None:
        """The size that is shown to read a character in less time than each of the others."""
        rounds, own = self.rounds[unit], str(self.config.vocab_size)
        sizes = [size for size, each in self.per_token.items() if each]
        noise = compare(rounds, again(own), own)
        for size in sizes:
            ratios = [self.per_character(unit, size, other) for other in sizes if other != size]
            if ratios and all(verdict(ratio, noise) == FASTER for ratio in ratios):
                return int(size)
        return None

    def per_character(self, unit: str, size: str, other: str) -> Ratio:
        """The time a character over that of another size, round by round."""
        ratio = compare(self.rounds[unit], size, other)
        scale = self.per_token[other] / self.per_token[size]
        return Ratio(*(end and end * scale for end in (ratio.value, ratio.low, ratio.high)))


def render(results: dict) -> str:
    """The tables: a function of the results file alone."""
    rows, found = results["vocabulary"], results["characters"]
    own = results["model"]["vocab_size"]
    cells = [[f"{row['vocab_size']:,}", f"{row['head_weights']:,}",
              show(row["characters_per_token"])] for row in rows]  # fmt: skip
    columns = ["vocabulary", "head's weights", "characters a token"]
    note = f"characters: the {found['characters']:,} of {found['text']}"
    if missing := [f"{int(size):,}" for size, each in found["per_token"].items() if each is None]:
        note += f"; none for {', '.join(missing)}, since {found['reason']}"
    return "\n".join([
        report.text_table("The vocabulary: untrained models, alike but for it", columns, cells),
        *textwrap.wrap(note, report.WIDTH),
        *(line for unit in SHARES for line in ("", times_table(unit, rows, own),
                                               conclusion(unit, found))),
    ])  # fmt: skip


def show(each: float | None) -> str:
    return "-" if each is None else f"{each:.3f}"


def times_table(unit: str, rows: list[dict], own: int) -> str:
    columns = ["vocabulary", f"{unit}, ms", f"of {own:,}", "predicted", "ms a character"]
    cells = [times(unit, row, own) for row in rows]
    return report.text_table(f"A {unit}, by vocabulary", columns, cells)


def times(unit: str, row: dict, own: int) -> list[str]:
    itself, each = row["vocab_size"] == own, row["milliseconds_per_character"]
    return [
        f"{row['vocab_size']:,}",
        report.show_spread(row[unit]),
        "1" if itself else report.show_ratio(row["ratio"][unit]),
        "-" if itself else f"{row['predicted'][unit]:.2f}",
        report.show_spread(each[unit]) if each else "-",
    ]


def conclusion(unit: str, found: dict) -> str:
    """Which size is the quickest by the character, of those that were counted."""
    quickest = found["quickest"][unit]
    best = "none is shown to be" if quickest is None else f"{quickest:,} is"
    sizes = " and ".join(f"{int(size):,}" for size, each in found["per_token"].items() if each)
    return f"by the character of text {best} the quickest in a {unit}, of {sizes or 'none'}"
