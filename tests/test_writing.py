import pytest
import torch

from mvgpt import GPT, GPTConfig, generate, stream


@pytest.mark.parametrize("length", [1, 2, 7, 31, 32, 33, 63, 64, 65, 75])
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_the_same_ids_with_and_without(model, length, temperature):
    """Prompts beyond the window, and writing beyond it, included: 75 is 600 at a window of 256."""
    ids = torch.randint(300, (length,)).tolist()
    texts = [
        generate(model, ids, 50, temperature=temperature, use_cache=use_cache,
                 generator=torch.Generator().manual_seed(3))
        for use_cache in (True, False)
    ]  # fmt: skip
    assert texts[0] == texts[1]


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 7, 128, 255, 256, 257, 384, 600])
def test_the_same_ids_at_the_full_size(length):
    torch.manual_seed(length)
    model = GPT(GPTConfig()).eval()
    torch.nn.init.normal_(model.wpe.weight, std=0.5)
    ids = torch.randint(10_000, (length,)).tolist()
    texts = [generate(model, ids, 20, temperature=0, use_cache=use) for use in (True, False)]
    assert texts[0] == texts[1]


def test_two_interleaved_streams_do_not_mix(model):
    options = {"temperature": 0}
    expected = [generate(model, ids, 40, **options) for ids in ([1, 2], [9, 8, 7])]
    both = zip(stream(model, [1, 2], 40, **options), stream(model, [9, 8, 7], 40, **options),
               strict=True)  # fmt: skip
    assert [list(ids) for ids in zip(*both, strict=True)] == expected


def test_a_stream_closed_half_way_leaves_nothing(model):
    before = {name: id(value) for name, value in vars(model).items()}
    words = stream(model, [1, 2], 40)
    next(words), next(words)
    words.close()
    assert {name: id(value) for name, value in vars(model).items()} == before
    assert torch.is_grad_enabled()
