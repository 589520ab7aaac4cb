"""Operators that PyTorch dispatches in Python (torch.cond, flex_attention): regions see what they are made of.

Such an operator has a kernel for each dispatch key that it meets. It knows nothing of the keys through which a region
observes operators, so these are left out.
"""

import torch
from torch._C import DispatchKeySet

from reprise import _C


def install() -> None:
    """Takes effect for all operators of this process."""
    observers = DispatchKeySet.from_raw_repr(_C.observer_keys)
    keys_of = torch._ops.key_extractor

    def without_observers(tensors, mask):
        keys = keys_of(tensors, mask)
        included = torch._C._dispatch_tls_local_include_set() & observers
        return keys - included

    torch._ops.key_extractor = without_observers
