"""One line under models of every kind: the same bits as no checkpointing, and no more kept bytes than PyTorch's own.

benchmarks/python/model_table.py does this for all of families.py, and budgets for eight of them.
"""

import functools
import gc

import pytest
import torch
import torch.utils.checkpoint
from families import BY_NAME, loss_of
from gradients import assert_same_bits

import reprise

NAMES = ("qwen3", "gpt2", "mixtral", "bart", "t5", "vit", "wav2vec2", "mamba2", "jamba", "modernbert")


def state_after(model, inputs):
    model.zero_grad()
    torch.manual_seed(2)
    gc.collect()
    before = reprise.live_bytes("cpu")
    loss = loss_of(model, inputs)
    gc.collect()
    kept = reprise.live_bytes("cpu") - before
    loss.backward()
    return {"loss": loss.detach()} | {name: value.grad for name, value in model.named_parameters()}, kept


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_everything_recomputed(name):
    torch.use_deterministic_algorithms(True, warn_only=True)
    model, inputs = BY_NAME[name].model(), BY_NAME[name].inputs()
    state_after(model, inputs)  # caches of rotary tables and such
    plain, plain_kept = state_after(model, inputs)
    enabled = reprise.enable(model)
    reprise.reset_stats()
    state, kept = state_after(model, inputs)
    assert_same_bits(state, plain)
    assert reprise.stats()["recomputed"] >= len(enabled.blocks) > 1
    reprise.disable(model)
    torchs = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
    model._set_gradient_checkpointing(True, torchs)
    _, torchs_kept = state_after(model, inputs)
    assert kept <= torchs_kept < plain_kept


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ("mixtral", "bart", "vit"))
def test_budgets(name):
    model, inputs = BY_NAME[name].model(), BY_NAME[name].inputs(rows=4, length=32)
    plain, _ = state_after(model, inputs)
    enabled = reprise.enable(model, budget="1GiB")
    state_after(model, inputs)
    curve = enabled.plans[0].curve
    reprise.disable(model)
    for share in (0, 0.5, 1):
        budget = int((curve[0][0] + (curve[-1][0] - curve[0][0]) * share) * 1.011) + (17 << 10)
        enabled = reprise.enable(model, budget=budget)
        for _ in range(2):
            assert_same_bits(state_after(model, inputs)[0], plain)
        assert 0 < enabled.peak_bytes <= budget
        reprise.disable(model)
