"""What FSDP2 (``fully_shard``) takes of a step's memory, beside its activations."""

from __future__ import annotations

import sys

import torch


def bytes_in_flight(model: torch.nn.Module) -> int:
    """The most that collectives hold at once: the largest unit while it is gathered, and while it is reduced.

    They free their buffers when they end, which is at another time in each step. 0 if the model is not sharded.
    """
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None or not hasattr(fsdp, "FSDPModule"):
        return 0
    largest, counted = 0.0, set()
    # Units inside others come first, and own their parameters.
    for unit in reversed([module for module in model.modules() if isinstance(module, fsdp.FSDPModule)]):
        own = [parameter for parameter in unit.parameters() if id(parameter) not in counted]
        counted.update(id(parameter) for parameter in own)
        largest = max(largest, sum(_whole_and_shard(parameter) for parameter in own))
    return int(2 * largest)


def _whole_and_shard(parameter: torch.Tensor) -> float:
    mesh = getattr(parameter, "device_mesh", None)
    return parameter.numel() * parameter.element_size() * (1 + 1 / (mesh.size() if mesh is not None else 1))
