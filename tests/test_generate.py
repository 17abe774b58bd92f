from collections import Counter

import pytest
import torch

from mvgpt import generate, stream
from mvgpt.errors import InputError
from mvgpt.generate import sample


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_greedy_is_argmax_of_the_logits(model):
    ids = [5, 17, 200]
    for token in generate(model, ids, 10, temperature=0):
        logits = model(torch.tensor([ids]))[0, -1]
        assert token == int(logits.argmax())
        ids = [*ids, token]


def test_draws_follow_the_softmax():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    generator = seeded()
    drawn = Counter(sample(logits, 0.5, None, generator) for _ in range(4000))
    for token, chance in enumerate((logits / 0.5).softmax(-1).tolist()):
        assert drawn[token] / 4000 == pytest.approx(chance, abs=0.03)


def test_top_k_draws_from_the_k_most_likely():
    logits = torch.tensor([0.0, 3.0, 1.0, 2.9])
    generator = seeded()
    assert {sample(logits, 1.0, 2, generator) for _ in range(200)} == {1, 3}
    assert {sample(logits, 5.0, 20_000, generator) for _ in range(200)} == {0, 1, 2, 3}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("temperature", [1e-30, 1e-40, 1e-320])
def test_a_temperature_near_zero_is_nearly_greedy(temperature, dtype):
    logits = torch.tensor([0.0, 3.0, 1.0, 2.9], dtype=dtype)
    assert {sample(logits, temperature, None, seeded()) for _ in range(20)} == {1}


def test_same_seed_same_text(model):
    texts = [generate(model, [1], 30, generator=seeded(seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_ids_from_vocab_on_are_never_drawn(model):
    ids = generate(model, [1], 200, temperature=2.0, top_k=None, vocab=250, generator=seeded())
    assert max(ids) < 250
    assert max(generate(model, [1], 200, temperature=2.0, top_k=None, generator=seeded())) >= 250


def test_it_ends_before_the_stop_id(model):
    ids = generate(model, [1], 40, generator=seeded())
    stop = ids[20]
    expected = ids[: ids.index(stop)]
    assert generate(model, [1], 40, generator=seeded(), stop=stop) == expected


def test_without_a_stop_it_writes_exactly_that_many(model):
    assert len(generate(model, [1, 2], 77)) == 77


def test_a_long_prompt_is_read_from_its_last_ids(model):
    ids = torch.randint(300, (90,)).tolist()
    assert generate(model, ids, 5, temperature=0) == generate(model, ids[-32:], 5, temperature=0)


def test_a_full_window_reads_its_last_half_again(model):
    ids = torch.randint(300, (32,)).tolist()
    first, second = generate(model, ids, 2, temperature=0)
    assert second == int(model(torch.tensor([[*ids[-15:], first]]))[0, -1].argmax())


@pytest.mark.parametrize("window", [1, 2, 3])
def test_tiny_windows(window):
    from mvgpt import GPT, GPTConfig

    sizes = {"vocab_size": 50, "n_positions": window, "n_embd": 8, "n_layer": 1, "n_head": 1}
    assert len(generate(GPT(GPTConfig(**sizes)).eval(), [1, 2], 10)) == 10


@pytest.mark.parametrize(
    ("ids", "tokens", "options", "named"),
    [
        ([], 5, {}, "prompt is empty"),
        ([1, 300], 5, {}, "id 300"),
        ([-1], 5, {}, "id -1"),
        ([1], 0, {}, "0 tokens"),
        ([1], -2, {}, "-2 tokens"),
        ([1], 5, {"temperature": -0.1}, "temperature is -0.1"),
        ([1], 5, {"temperature": float("nan")}, "temperature is nan"),
        ([1], 5, {"top_k": 0}, "top-k is 0"),
        ([1], 5, {"vocab": 301}, "vocab is 301"),
        ([1], 5, {"vocab": 0}, "vocab is 0"),
    ],
)
def test_bad_values_are_named_at_the_call(model, ids, tokens, options, named):
    with pytest.raises(InputError, match=named):
        stream(model, ids, tokens, **options)


def test_gradient_mode_does_not_leak(model):
    words = stream(model, [1], 5)
    next(words)
    assert torch.is_grad_enabled()
    words.close()
    assert torch.is_grad_enabled()
    with torch.no_grad():
        next(stream(model, [1], 5))
        assert not torch.is_grad_enabled()
