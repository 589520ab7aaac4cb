"""The device that tensors are made on without saying so: a recompute makes them where forward did.

``torch.set_default_device()`` and ``with torch.device(...)`` are a mode of the thread, at the bottom of its stack.
"""

from __future__ import annotations

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext


def current() -> torch.device | None:
    """That of this thread. None: the CPU, since nothing was said."""
    modes = _get_current_function_mode_stack()
    return modes[0].device if modes and isinstance(modes[0], DeviceContext) else None


def scope(device: torch.device | None) -> DeviceContext | None:
    """A context in which it is this one; None where it is anyway."""
    return None if current() == device else DeviceContext(device or "cpu")
