"""The law under attack: a program around a region gives the bits that it gives without, or an error with the cause."""

import functools

import pytest
import torch
from torch.utils._pytree import tree_leaves

import reprise
from law import PROGRAMS


def plainly(function, *args, **kwargs):
    return function(*args, **kwargs)


def keep_all(op, args, kwargs, range_name):
    return reprise.CheckpointPolicy.PREFER_SAVE


def twice(function, *args, **kwargs):
    return reprise.checkpoint(reprise.checkpoint, function, *args, **kwargs)


WAYS = {
    "recomputed": reprise.checkpoint,
    "kept": functools.partial(reprise.checkpoint, policy=reprise.policies.from_function(keep_all)),
    "to the end": functools.partial(reprise.checkpoint, early_stop=False),
    "region in region": twice,
}


def bits(value):
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().resolve_conj().contiguous()
    return value.shape, value.dtype, bytes(value.reshape(-1).view(torch.uint8).numpy())


def outcome(program, region):
    torch.manual_seed(0)
    return [bits(value) for value in tree_leaves(program.run(region))]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_same_bits_as_plain(program, way):
    if program.is_refused(way):
        with pytest.raises((RuntimeError, AssertionError), match=program.refused):
            outcome(program, WAYS[way])
    else:
        assert outcome(program, WAYS[way]) == outcome(program, plainly)
