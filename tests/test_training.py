import math

import pytest
import torch
from conftest import TEXT

from mvgpt import GPT, GPTConfig
from mvgpt.data import Batches, encode_documents
from mvgpt.errors import InputError
from mvgpt.training import (
    Recipe,
    evaluate,
    learning_rate,
    load_state,
    make_optimizer,
    read_state_info,
    save_state,
    train,
)

RECIPE = Recipe(steps=12, learning_rate=3e-3, warmup=3)


@pytest.fixture
def batches(tokenizer):
    return Batches(encode_documents(tokenizer, [TEXT]), 16, 4, seed=0)


def fresh(dropout=0.1):
    torch.manual_seed(0)
    sizes = {"vocab_size": 300, "n_positions": 16, "n_embd": 32, "n_layer": 1, "n_head": 2}
    model = GPT(GPTConfig(**sizes, embd_pdrop=dropout, resid_pdrop=dropout))
    return model, make_optimizer(model, RECIPE)


def test_it_learns(batches):
    model, optimizer = fresh()
    losses = [step.loss for step in train(model, optimizer, batches, Recipe(80, 3e-3))]
    assert losses[0] == pytest.approx(math.log(300), abs=0.2)
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_a_resumed_run_gives_the_weights_of_an_uninterrupted_one(batches, tmp_path, precision):
    whole, optimizer = fresh()
    list(train(whole, optimizer, batches, RECIPE, precision=precision))

    model, optimizer = fresh()
    for step in train(model, optimizer, batches, RECIPE, precision=precision):
        if step.number == 5:
            save_state(tmp_path / "state", model, optimizer, {"step": 5})
        if step.number == 7:
            break  # killed two steps after it was saved
    model, optimizer = fresh()
    torch.manual_seed(99)
    load_state(tmp_path / "state", model, optimizer)
    start = read_state_info(tmp_path / "state")["step"]
    steps = list(train(model, optimizer, batches, RECIPE, start, precision))

    assert [step.number for step in steps] == list(range(6, 13))
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name]), name


def test_no_state_is_none(tmp_path):
    assert read_state_info(tmp_path / "state") is None


def test_rate_warms_up_then_falls_as_a_cosine():
    recipe = Recipe(steps=110, learning_rate=1.0, warmup=10, final_rate=0.1)
    rates = [learning_rate(step, recipe) for step in range(111)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[60] == pytest.approx(0.55)
    assert rates[110] == pytest.approx(0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_matrices_decay_and_vectors_do_not():
    _, optimizer = fresh()
    matrices, vectors = optimizer.param_groups
    assert {p.dim() for p in matrices["params"]} == {2}
    assert {p.dim() for p in vectors["params"]} == {1}
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.1, 0.0)


def test_gradients_are_clipped(batches):
    model, optimizer = fresh()
    next(train(model, optimizer, batches, Recipe(10, clip=1e-3)))
    norms = [p.grad.norm() for p in model.parameters()]
    assert float(torch.stack(norms).norm()) == pytest.approx(1e-3, rel=1e-2)


@torch.no_grad()
def test_evaluate_is_the_mean_loss_and_leaves_the_mode(batches):
    model, _ = fresh(dropout=0.5)
    model.train()
    ids = torch.randint(300, (16 * 5 + 4,))
    loss = evaluate(model, ids, batch_size=2)
    assert model.training
    model.eval()
    chances = [model(ids[i : i + 16][None]).log_softmax(-1)[0] for i in range(0, 80, 16)]
    expected = -sum(float(c.gather(1, ids[i + 1 : i + 17, None]).sum())
                    for c, i in zip(chances, range(0, 80, 16), strict=True)) / 80  # fmt: skip
    assert loss == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_is_no_number_ends_the_training(batches):
    model, optimizer = fresh()
    with torch.no_grad():
        model.wte.weight.fill_(float("inf"))
    with pytest.raises(InputError, match="loss of step 1 is nan"):
        list(train(model, optimizer, batches, RECIPE))


def test_a_damaged_state_is_named(tmp_path):
    (tmp_path / "state").write_bytes(b"cut")
    with pytest.raises(InputError, match="state is damaged"):
        read_state_info(tmp_path / "state")
