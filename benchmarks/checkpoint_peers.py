"""What torch.utils.checkpoint and torch_remat do with programs that docs/compared.md lists.

Needs torch, and torch_remat 0.2.2. Each line is a program, the peer, and what came of it. The document names the test here
that runs the same program.
"""
import functools
import gc
import warnings
import weakref

import torch
import torch_remat as remat
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

warnings.simplefilter("ignore")
weight = torch.randn(8, 8)


def plain_torch(fn, *args):
    return checkpoint(fn, *args, use_reentrant=False)


def plain_remat(fn, *args):
    return remat.checkpoint(region_name="block")(fn)(*args)


def keeping(op):
    def policy(_context, called, *_args, **_kwargs):
        return CheckpointPolicy.MUST_SAVE if called == op else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return lambda fn, *args: checkpoint(fn, *args, use_reentrant=False, context_fn=contexts)


def leaf():
    return torch.randn(8, 8, requires_grad=True)


def named(fn, *args):
    out = remat.region(fn, "scores", recompute=False)(*args)
    remat.recompute_needs_tensor(out)
    return out


def product(h):
    return torch.mm(h, weight)


def show(program, peer, run):
    try:
        result = run()
    except (RuntimeError, NotImplementedError) as error:
        result = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
    print(f"{program:48} {peer:18} {result}")


def holds_unread_input(call):
    x = leaf()
    a, b = x + 1, x * 2
    y = call(lambda h, residual: h.tanh() + residual, a, b)
    alive = weakref.ref(b)
    del a, b
    gc.collect()
    return "held" if alive() is not None and y is not None else "released"


def dropout(call):
    def gradient(way):
        torch.manual_seed(0)
        x = torch.ones(8, 8, requires_grad=True)
        y = way(lambda h: torch.dropout(h.sin(), 0.5, True).sin().sin(), x)
        torch.rand(3)
        return torch.autograd.grad(y.sum(), x)[0]

    same = torch.equal(gradient(call), gradient(lambda fn, x: fn(x)))
    return "gradients of plain training" if same else "other gradients, without an error"


def batch_norm(call):
    norm = torch.nn.BatchNorm1d(8)
    call(lambda h: norm(h).tanh().exp(), leaf()).sum().backward()
    return f"statistics advance {norm.num_batches_tracked.item()} times"


def changed_capture(call):
    bias = torch.randn(8, 8)
    y = call(lambda h: (h + bias).tanh().tanh(), leaf())
    bias.mul_(3)
    y.sum().backward()
    return "no error"


def backward(call, fn, times=1):
    y = call(fn, leaf())
    for _ in range(times):
        y.sum().backward(retain_graph=True)
    return "works"


def early_stop(call):
    runs = []

    class Last(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, h):
            runs.append(1)
            return h * 2

        @staticmethod
        def backward(_ctx, gradient):
            return gradient * 2

    call(lambda h: Last.apply(h.tanh()), leaf()).sum().backward()
    return f"what follows the last saved tensor runs {len(runs)} times"


def twice_named(h):
    return named(product, named(product, h)).tanh()


print("torch", torch.__version__)
for peer, call in (("torch", plain_torch), ("torch_remat", plain_remat)):
    show("an input that the recompute does not read", peer, lambda: holds_unread_input(call))
    show("dropout", peer, lambda: dropout(call))
    show("BatchNorm", peer, lambda: batch_norm(call))
    show("a captured tensor changes before backward", peer, lambda: changed_capture(call))
    show("a region in a region", peer, lambda: backward(call, lambda h: call(torch.tanh, h.sin()).exp()))
    show("early stop", peer, lambda: early_stop(call))
keep_mm, keep_bmm = keeping(torch.ops.aten.mm.default), keeping(torch.ops.aten.bmm.default)
show("a second backward, a product kept", "torch", lambda: backward(keep_mm, lambda h: product(h).tanh().tanh(), 2))
show("a second backward, a product kept", "torch_remat",
     lambda: backward(plain_remat, lambda h: named(product, h).tanh().tanh(), 2))
show("an in-place operator on a kept result", "torch", lambda: backward(keep_mm, lambda h: product(h).add_(1).tanh()))
show("an in-place operator on a kept result", "torch_remat",
     lambda: backward(plain_remat, lambda h: named(product, h).add_(1).tanh()))
show("a policy that matches nothing", "torch", lambda: backward(keep_bmm, lambda h: product(h).tanh()))
show("a saved range that is opened twice", "torch_remat", lambda: backward(plain_remat, twice_named))
show("a saved range whose result is not annotated", "torch_remat",
     lambda: backward(plain_remat, lambda h: remat.region(product, "scores", recompute=False)(h).tanh().tanh()))
