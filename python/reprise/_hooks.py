"""Hooks that a region adds to tensors from outside are added once, in forward.

PyTorch keeps a tensor's Python hooks in a dictionary, where C++ does not see them. So the methods that add one ask the
engine first, inside regions: in a recompute the hook is there already, and its handle is forward's.
"""

import collections
import functools
import weakref

import torch
from torch.overrides import has_torch_function_unary
from torch.utils.hooks import RemovableHandle

from reprise import _C

_handles = weakref.WeakValueDictionary()  # by their id


def _in_its_place(hook):
    """A backward call that a recompute makes again leaves out hooks that were added after forward's call."""
    place = _C.new_hook()

    @functools.wraps(hook, updated=())
    def numbered(*args):
        return hook(*args) if _C.may_run_hook(place) else None

    return numbered


def _once(register):
    @functools.wraps(register)
    def register_once(self, hook):
        # The compiler looks into this function, and not into C++.
        if torch.compiler.is_compiling() or not _C.is_in_region() or has_torch_function_unary(self):
            return register(self, hook)
        handle = None

        def add():
            nonlocal handle
            handle = register(self, _in_its_place(hook))
            _handles[handle.id] = handle
            return handle.id

        number = _C.add_hook(self, add)
        handle = handle or _handles.get(number)
        # Forward's handle is gone, or its hook: a handle without a hook.
        return RemovableHandle(collections.OrderedDict()) if handle is None else handle

    return register_once


def install() -> None:
    for name in ("register_hook", "register_post_accumulate_grad_hook"):
        setattr(torch.Tensor, name, _once(getattr(torch.Tensor, name)))
