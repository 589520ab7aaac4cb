"""What selective checkpointing in Python makes of an in-place operator on a kept result.

`mm` is kept, and the bias is added in place to its result through the view that `matmul` returns for more than two
dimensions. Prints how far the gradients are from plain training's.
tests/checkpoint/mutation_test.cpp has the same program here, where they are equal to the last bit.
"""
import functools

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

torch.manual_seed(0)
x = torch.randn(2, 3, 4, requires_grad=True)
weight = torch.randn(4, 4, requires_grad=True)
bias = torch.randn(4)


def block(h):
    y = h.matmul(weight)
    y += bias
    return y.sin()


keep_mm = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
plain = torch.autograd.grad(block(x).sum(), [x, weight])
kept = torch.autograd.grad(
    checkpoint(block, x, use_reentrant=False, context_fn=keep_mm).sum(), [x, weight])
for name, a, b in zip(("input", "weight"), plain, kept):
    print(f"gradient of {name}: off by up to {(a - b).abs().max().item():.3f} of {a.abs().max().item():.3f}")
