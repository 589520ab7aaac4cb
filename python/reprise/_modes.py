"""A region that switches modules to eval() and back is recomputed to its end.

Its early stop might come in between, and leave them in eval(): PyTorch keeps a module's mode in Python.
"""

import functools

import torch

from reprise import _C


def install() -> None:
    """Takes effect for all modules of this process."""
    switch = torch.nn.Module.train

    @functools.wraps(switch)
    def train(self, mode: bool = True):
        if not torch.compiler.is_compiling() and _C.is_in_region():
            _C.run_regions_to_end()
        return switch(self, mode)

    torch.nn.Module.train = train
