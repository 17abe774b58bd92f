import pytest
import torch

from mvgpt.device import pick_device, sync
from mvgpt.errors import InputError


def present(monkeypatch, cuda, mps):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_auto(monkeypatch, cuda, mps, expected):
    present(monkeypatch, cuda, mps)
    assert pick_device().type == expected
    assert pick_device("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["cuda", "mps", "tpu"])
def test_an_absent_device_is_one_sentence(monkeypatch, name):
    present(monkeypatch, False, False)
    with pytest.raises(InputError, match=name):
        pick_device(name)


def test_sync_waits_for_its_own_device_alone(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: waited.append("cuda"))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append("mps"))
    for name in ("cpu", "cuda", "mps"):
        sync(torch.device(name))
    assert waited == ["cuda", "mps"]
