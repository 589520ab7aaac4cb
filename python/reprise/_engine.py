"""Tells the C++ engine of backward calls that begin inside a region.

PyTorch's ``backward()`` and ``grad()`` call ``Variable._execution_engine``, an object of Python. Ours is that object with
one check added: whether this thread is inside a region.
"""

import torch
from torch.autograd.variable import Variable

from reprise import _C, _hooks
from reprise._steps import BackwardCall


class _Engine(torch._C._ImperativeEngine):
    def run_backward(self, tensors, *args, **kwargs):
        if not _C.is_in_region():
            with BackwardCall():
                return super().run_backward(tensors, *args, **kwargs)
        accumulates = kwargs.get("accumulate_grad", False)
        with _C.BackwardScope(tensors, accumulates):
            return super().run_backward(tensors, *args, **kwargs)


def install() -> None:
    """Takes effect for all backward calls of this process."""
    if not isinstance(Variable._execution_engine, _Engine):
        Variable._execution_engine = _Engine()
        _hooks.install()
