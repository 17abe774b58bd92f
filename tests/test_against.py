"""A run beside an earlier one: what changed, and what is refused."""

import copy
import json
import sys

import pytest

import decisions
from mvgpt.errors import InputError
from mvgpt.files import write_json
from mvgpt.measure.against import CHANGED, NO_CHANGE, judge, read_earlier, render, set_beside
from mvgpt.measure.conditions import ROOT
from mvgpt.measure.decisions import BASE
from mvgpt.measure.timing import FASTER, INVALID

CONDITIONS = {"machine": "here", "device": "cpu", "threads": 2, "usable_cores": 2,
              "dtype": "float32", "torch": "2.13.0", "os": "Linux", "python": "3.11.7",
              "step": "ep07.5", "load_average": 0.1, "seed": 0}  # fmt: skip
SIZES = {"name": "tiny", "vocab_size": 300, "n_positions": 32, "n_embd": 64, "n_layer": 2,
         "n_head": 4, "activation_function": "gelu", "parameters": 9}  # fmt: skip


def timed(value, half=0.01, verdict=FASTER):
    ends = {"low": value - half, "high": value + half}
    return {"milliseconds": {"median": value, **ends, "n": 20}, "ratio": {"value": value, **ends},
            "verdict": verdict}  # fmt: skip


def results(**rows):
    """Of decisions by name: the pass and the token."""
    rows = {BASE: (timed(5, verdict=None), timed(1, verdict=None))} | rows
    return {
        "script": "decisions", "schema": 1, "conditions": dict(CONDITIONS), "model": dict(SIZES),
        "decisions": [{"name": name, "pass": one, "token": token}
                      for name, (one, token) in rows.items()],
    }  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "earlier.json"


def changes(then, now, path):
    write_json(path, then)
    beside = set_beside(read_earlier(path, now), now)
    json.dumps(beside, allow_nan=False)
    found = {row["name"]: row for row in beside["decisions"]}
    return found, {name: [row[unit] and row[unit]["change"] for unit in ("pass", "token")]
                   for name, row in found.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("then", "now", "change"),
    [
        ((0.9, 0.92), (0.93, 0.95), CHANGED),
        ((0.93, 0.95), (0.9, 0.92), CHANGED),
        ((0.9, 0.93), (0.93, 0.95), NO_CHANGE),  # they touch
        ((0.9, 0.94), (0.93, 0.95), NO_CHANGE),
        ((0.8, 1.2), (0.93, 0.95), NO_CHANGE),
        ((None, None), (0.93, 0.95), NO_CHANGE),
        ((0.9, 0.92), (None, None), NO_CHANGE),
    ],
)
def test_changed_is_what_has_no_value_in_common(then, now, change):
    then, now = (dict(zip(("low", "high"), ends, strict=True)) for ends in (then, now))
    assert judge(then, now) == change


def test_then_and_now(path):
    then = results(a=(timed(0.9), timed(0.9)), gone=(timed(1), timed(1)), b=(timed(0.7), None))
    now = results(a=(timed(0.95), timed(0.91)), b=(timed(0.8, verdict=INVALID), timed(0.7)),
                  new=(timed(1), timed(1)))  # fmt: skip
    now["decisions"][0]["pass"] = timed(4)
    found, said = changes(then, now, path)
    assert said == {BASE: [CHANGED, NO_CHANGE], "a": [CHANGED, NO_CHANGE],
                    "b": [INVALID, None], "new": [None, None]}  # fmt: skip
    assert found["a"]["pass"]["then"] == then["decisions"][1]["pass"]["ratio"]
    assert found["a"]["pass"]["now"] == now["decisions"][1]["pass"]["ratio"]
    assert [found[BASE]["pass"][key]["median"] for key in ("then", "now")] == [5, 4]  # ms


def test_a_run_beside_itself_has_not_changed(path):
    same = results(a=(timed(0.9), timed(0.9)))
    _, said = changes(same, same, path)
    assert {change for units in said.values() for change in units} == {NO_CHANGE}


def test_what_may_differ_is_said(path):
    then, now = results(), results()
    then["conditions"] |= {"torch": "2.11.0", "python": "3.12.1", "step": None, "seed": 4}
    write_json(path, then)
    now["against"] = set_beside(read_earlier(path, now), now)
    printed = render(now)
    said = ("Then and now differ in: torch 2.11.0 then, 2.13.0 now; python 3.12.1 then, 3.11.7 "
            "now; step unknown then, ep07.5 now")  # fmt: skip
    assert said in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 100
    same = results()
    write_json(path, same)
    now["against"] = set_beside(read_earlier(path, now), now)
    assert "differ" not in render(now)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("conditions", {"machine": "there"}),
        ("conditions", {"device": "cuda"}),
        ("conditions", {"threads": 1, "usable_cores": 4}),
        ("conditions", {"dtype": "bfloat16"}),
        ("model", {"n_embd": 128}),
        ("model", {"vocab_size": 10_000, "n_layer": 6}),
        ("model", {"activation_function": "gelu_new"}),
    ],
)
def test_another_machine_or_model_is_refused_and_both_are_named(part, change, path):
    then, now = results(), results()
    then[part] |= change
    write_json(path, then)
    with pytest.raises(InputError) as error:
        read_earlier(path, now)
    theirs, ours = str(error.value).split(", and this run would be with ")
    for key, value in change.items():
        assert f"{key} {value}" in theirs
        assert f"{key} {now[part][key]}" in ours
    assert "\n" not in str(error.value)


def without(*keys):
    def edit(file):
        for key in keys[:-1]:
            file = file[key]
        del file[keys[-1]]

    return edit


def with_value(value, *keys):
    def edit(file):
        for key in keys[:-1]:
            file = file[key]
        file[keys[-1]] = value

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        without("script"),
        without("conditions"),
        without("conditions", "torch"),
        without("model", "n_head"),
        without("decisions", 0),  # as written
        without("decisions", 1, "pass", "ratio", "low"),
        with_value("bench", "script"),
        with_value(2, "schema"),
        with_value([], "conditions"),
        with_value(7, "decisions"),
        with_value(["a"], "decisions"),
        with_value(None, "decisions", 0, "pass"),
        with_value("wide", "decisions", 1, "pass", "ratio", "high"),
        with_value(None, "decisions", 1, "pass", "ratio", "value"),
        with_value(["a"], "decisions", 1, "name"),
    ],
)
def test_other_files_are_one_sentence(edit, path):
    file = copy.deepcopy(results(a=(timed(0.9), timed(0.9))))
    edit(file)
    write_json(path, file)
    with pytest.raises(InputError, match=r"earlier\.json does not hold the results of decisions"):
        read_earlier(path, results())


@pytest.mark.parametrize(
    ("content", "named"),
    [(None, "No such file"), (b"", "not JSON"), (b"\xff\xfe", "not JSON"), (b"[1]", "no JSON"),
     (b"[" * 100_000, "not JSON"), (b'{"script": "decisions"', "not JSON")],
)  # fmt: skip
def test_unreadable_files_are_one_sentence(content, named, path):
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=named):
        read_earlier(path, results())


def test_numbers_that_are_none_are_refused(path):
    text = json.dumps(results(a=(timed(float("nan")), timed(1))))
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="does not hold"):
        read_earlier(path, results())


def test_a_file_of_episode_6_can_be_set_beside(tmp_path):
    found = sorted((ROOT / "results" / "reference").glob("*/decisions-cpu.json"))
    file = json.loads(found[0].read_text(encoding="utf-8"))
    for row in file["decisions"]:
        for key in ("error_ratio", "greedy_tokens", "first_difference", "predicted", "reasons"):
            del row[key]
    write_json(tmp_path / "old.json", file)
    earlier = read_earlier(tmp_path / "old.json", file)
    assert earlier["decisions"][BASE]["pass"]["ratio"]["value"] == 1


def test_it_is_refused_before_anything_is_measured(checkpoint, path, monkeypatch, capsys):
    write_json(path, results() | {"model": {**SIZES, "n_embd": 65}})
    for name in ("find_roofs", "compare_decisions", "read_characters"):
        monkeypatch.setattr(decisions, name, lambda *args, **options: pytest.fail("measured"))
    command = ["decisions.py", str(checkpoint), "--device", "cpu", "--machine", "here",
               "--against", str(path), "--out", str(path.parent / "out")]  # fmt: skip
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(InputError, match="n_embd 65, and this run would be with .*n_embd 64"):
        decisions.main()
