import getpass
import json
import platform
import subprocess

import pytest
import torch

from mvgpt.measure import conditions as c

CPU = torch.device("cpu")


def test_what_travels_with_a_result():
    found = c.conditions(CPU, torch.float32, 7)
    assert found["threads"] == torch.get_num_threads()
    assert found["usable_cores"] == c.usable_cores()
    assert (found["device"], found["dtype"], found["seed"]) == ("cpu", "float32", 7)
    text = json.dumps(found, allow_nan=False)
    assert "/" not in text
    for private in (platform.node(), getpass.getuser()):
        assert len(private) < 5 or private not in text


def test_a_name_can_be_given():
    assert c.conditions(CPU, torch.float32, 0, "my-laptop")["machine"] == "my-laptop"


@pytest.mark.parametrize(
    ("processor", "slug"),
    [
        ("AMD EPYC 9454P 48-Core Processor", "amd-epyc-9454p"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "intel-xeon"),
        ("Apple M3 Pro", "apple-m3-pro"),
        ("", "unknown"),
    ],
)
def test_machine_names(monkeypatch, processor, slug):
    monkeypatch.setattr(c, "processor", lambda: processor)
    monkeypatch.setattr(c, "usable_cores", lambda: 4)
    assert c.machine_name(CPU) == f"{slug}-4-cores"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    assert c.machine_name(torch.device("cuda")) == "nvidia-h200"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    def git(*args):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *args], cwd=tmp_path, check=True, capture_output=True)

    def commit(content, message):
        (tmp_path / "a.py").write_text(content, encoding="utf-8")
        git("add", ".")
        git("commit", "-m", message)

    monkeypatch.setattr(c, "ROOT", tmp_path)
    git("init")
    return commit


def test_step_of_the_history(repository, tmp_path):
    assert c.step() is None
    repository("1", "ep03.2: one\n\nStep: 03.2")
    assert c.step() == "ep03.2"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "b.py").write_text("not the model or a script", encoding="utf-8")
    assert c.step() == "ep03.2"
    repository("2", "a tool\n\nStep: 00.4")
    assert c.step() == "ep03.2+"  # code has changed since
    repository("1", "back\n\nFixes-Step: 03.2")
    assert c.step() == "ep03.2"
    (tmp_path / "new.py").write_text("not tracked yet", encoding="utf-8")
    assert c.step() == "ep03.2+"


def test_no_step_outside_git_or_in_anothers_repository(repository, tmp_path, monkeypatch):
    repository("1", "ep03.2: one\n\nStep: 03.2")
    (tmp_path / "copy").mkdir()
    monkeypatch.setattr(c, "ROOT", tmp_path / "copy")
    assert c.step() is None
    monkeypatch.setenv("PATH", "")
    assert c.step() is None


def test_more_threads_than_cores_is_said():
    assert "16 threads on 2 usable cores" in c.misfit(16, 2)
    assert c.misfit(2, 2) is c.misfit(1, 2) is None


def test_a_high_load_is_said():
    assert "load average of the last minute is 5.3 on 4 usable" in c.crowded(3, 4, 5.3)
    assert c.crowded(3, 4, 4.9) is c.crowded(3, 4, None) is None
