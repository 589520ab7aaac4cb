"""Tells the C++ engine of backward calls that begin inside a region.

PyTorch's ``backward()`` and ``grad()`` call ``Variable._execution_engine``, an object of Python. Ours is that object
with one check added: whether this thread is inside a region. A backward call also ends the step of a model (_steps.py).
"""

import torch
from torch.autograd.variable import Variable

from reprise import _C, _hooks, _modes, _operators
from reprise._steps import BackwardCall


class _Engine(torch._C._ImperativeEngine):
    def run_backward(self, tensors, *args, **kwargs):
        try:
            with BackwardCall():
                if not _C.is_in_region():
                    return super().run_backward(tensors, *args, **kwargs)
                accumulates = kwargs.get("accumulate_grad", False)
                with _C.BackwardScope(tensors, accumulates):
                    return super().run_backward(tensors, *args, **kwargs)
        except RuntimeError as error:
            # Between nodes PyTorch carries our errors as exceptions of C++, whose type it does not know.
            if type(error) is not RuntimeError or "[reprise]" not in str(error):
                raise
            raise _C.CheckpointError(_C.worded(str(error))) from error.__cause__


def install() -> None:
    """Takes effect for all backward calls of this process."""
    if not isinstance(Variable._execution_engine, _Engine):
        Variable._execution_engine = _Engine()
        for part in (_hooks, _modes, _operators):
            part.install()
