"""What FSDP2 (``fully_shard``) takes of a step's memory, beside its activations."""

from __future__ import annotations

import sys

import torch


def gathered_bytes(model: torch.nn.Module) -> int:
    """The bytes of the largest unit that is gathered as a whole; 0 if the model is not sharded.

    Collectives free their buffers when they end, which differs from step to step.
    """
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None or not hasattr(fsdp, "FSDPModule"):
        return 0
    largest, counted = 0, set()
    # Units inside others come first, and own their parameters.
    for unit in reversed([module for module in model.modules() if isinstance(module, fsdp.FSDPModule)]):
        own = [parameter for parameter in unit.parameters() if id(parameter) not in counted]
        counted.update(id(parameter) for parameter in own)
        largest = max(largest, sum(parameter.numel() * parameter.element_size() for parameter in own))
    return largest
