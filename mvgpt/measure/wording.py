"""Verdicts in words: functions of the results alone."""

import textwrap

from mvgpt.measure import report
from mvgpt.measure.verdict import (
    AND,
    BANDWIDTH,
    BETWEEN,
    COMPUTE,
    EXPLAINED,
    HAND_OVER,
    INSIDE,
    TOO_MUCH,
    WAITING,
    expected,
    reading,
)

BY = {
    COMPUTE: "by compute",
    BANDWIDTH: "by bandwidth",
    HAND_OVER: "by handing over operations",
    WAITING: "by waiting",
    INSIDE: "inside its operations, below their roofs",
}


def describe_verdict(verdict: dict | None, unit: str) -> list[str]:
    """The verdict on a pass or a token in a sentence, and another on each thing that tests it."""
    if verdict is None:  # results of before there were any
        return []
    found = [conclusion(verdict, unit)]
    if verdict["bound"]:
        found.append(outcome(verdict))
    if "hand_over_ratio" in verdict:
        found.append("the last operation was handed over after "
                     f"{report.show_spread(verdict['hand_over_ratio'])} of the time until the "
                     "device was done")  # fmt: skip
    if "device" in verdict:
        found.append(use(verdict["device"]))
    return [line for sentence in found for line in textwrap.wrap(sentence, report.WIDTH)]


def conclusion(verdict: dict, unit: str) -> str:
    """As "a pass is bound by compute: of 53.8 ms its FLOPs explain 43.1, ..."."""
    if verdict["bound"] is None:
        return f"no verdict on a {unit}: {verdict['reason']}"
    by = AND.join(BY[bound] for bound in verdict["bound"].split(AND))
    ms = {part: report.significant(value, 3) for part, value in verdict["milliseconds"].items()}
    worst = f"{excess(verdict['excess'])}; " if verdict["bound"] == INSIDE else ""
    waiting = f", waiting {ms[WAITING]}" if verdict["milliseconds"][WAITING] else ""
    return (
        f"a {unit} is bound {by}: {worst}of {ms['measured']} ms its roofs explain {ms[COMPUTE]} by "
        f"FLOPs and {ms[BANDWIDTH]} by bytes, and handing its operations over {ms[HAND_OVER]}"
        f"{waiting}: {percents(verdict['explained'])}"
    )


def excess(kind: dict | None) -> str:
    """As "37 linears take 5.70 ms where their bytes take 0.95"."""
    if kind is None:
        return "which, only kernels' times could tell"
    work = "FLOPs" if kind["bound"] == COMPUTE else "bytes"
    milliseconds, attainable = (
        report.significant(kind[key], 3) for key in ("milliseconds", "attainable_milliseconds")
    )
    name = report.counted(round(kind["calls"]), kind["name"].removeprefix("aten::"))
    return f"{name} take {milliseconds} ms where their {work} take {attainable}"


def outcome(verdict: dict) -> str:
    """As "tested: twice the batch takes 1.95 (1.93 to 1.98) times as long, ...: which fits"."""
    test = verdict["test"]
    twice, lighter = (report.show_ratio(test[change]) if test[change] else "(cannot be had)"
                      for change in ("batch", "bfloat16"))  # fmt: skip
    unsure = " and ".join(doubt(name, verdict) for name in test["doubts"])
    return (
        f"tested: twice the batch takes {twice} times as long, bfloat16 "
        f"weights {lighter}: {f'unsure, since {unsure}' if unsure else 'which fits'}"
    )


def doubt(name: str, verdict: dict) -> str:
    """What does not fit the verdict, with its figures."""
    if name == "explained":
        return unexplained(verdict["explained"])
    ratio, (limits, _) = verdict["test"][name], expected(verdict["bound"], name)
    value, where = report.significant(ratio["value"], 3), reading(ratio, limits)
    low, high = limits
    if where == BETWEEN:
        return f"{value} is not clearly below {low} or above {high}"
    return f"{value} is {where} {dict(below=low, above=high)[where]}, which does not fit"


def unexplained(share: dict) -> str:
    if share["value"] > TOO_MUCH:
        return f"{percents(share)} is more than all"
    straddles = share["low"] < EXPLAINED <= share["high"]
    return f"{percents(share)} {'may be half or less' if straddles else 'is of too noisy a time'}"


def percents(share: dict) -> str:
    """As "69 (67 to 71) %"."""
    return report.show_ratio({key: 100 * value for key, value in share.items()}) + " %"


def use(device: dict) -> str:
    """What the trace of a GPU says, as "the GPU was busy 92.1 % of the profiled run, ..."."""
    delay = device["launch_delay_microseconds"]
    delay = report.show_spread(delay) if delay else "an unknown number of"
    return (
        f"{device['verdict']}: the GPU was busy {report.percent(device['busy'])} of the profiled "
        f"run, and idle after waits {report.percent(device['idle_after_waits'])}; kernels started "
        f"{delay} microseconds after their launch"
    )
