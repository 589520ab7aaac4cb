"""Modes around and inside regions: grad modes, autocast, saved-tensor hooks, functorch, dispatch modes."""

import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from law import IS_OLDEST, grads, leaf, program

autocast = torch.autocast("cpu", torch.bfloat16)


@program
def no_grad_inside(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        with torch.no_grad():
            scale = (h @ w).abs().max()
        with torch.inference_mode():
            shift = float(h.mean())
        return (h @ w / scale).tanh() + shift

    return grads(region(block, x).sum(), x, w)


@program
def grad_inside_no_grad(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        with torch.enable_grad():
            return (h @ w).tanh().exp()

    with torch.no_grad():
        y = region(block, x)
    return [*grads(y.sum(), x, w), torch.tensor(y.requires_grad)]


@program
def autocast_around(region):
    x, w = leaf(4, 8), leaf(8, 8)
    with autocast:
        y = region(lambda h: ((h @ w).tanh() @ w).softmax(-1), x)
    return grads(y.float().square().sum(), x, w)


@program
def autocast_inside(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        with autocast:
            h = (h @ w).tanh() @ w
            with torch.autocast("cpu", enabled=False):
                return (h.float() @ w).exp()

    return grads(region(block, x).sum(), x, w)


@program
def backward_under_autocast(region):
    x, w = leaf(4, 8), leaf(8, 8)
    with autocast:
        return grads(region(lambda h: ((h @ w).tanh() @ w).exp(), x).float().sum(), x, w)


@program
def hooks_on_saved_tensors_inside(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        with saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy):
            h = (h @ w).tanh()
        return h.exp()

    return grads(region(block, x).sum(), x, w)


@program
def hooks_on_saved_tensors_around(region):
    x, w = leaf(4, 8), leaf(8, 8)
    with saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy):
        y = region(lambda h: (h @ w).tanh().exp(), x.sin()).cos()
    return grads(y.sum(), x, w)


@program
def saved_on_the_cpu(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        with save_on_cpu():
            return (h @ w).tanh().exp()

    with save_on_cpu():
        y = region(block, x.sin())
    return grads(y.sum(), x, w)


@program
def functional_grad_inside(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        force = torch.func.grad(lambda t: (t @ w).tanh().sum())(h)
        rows = torch.func.vmap(lambda row: (row @ w).sin())(h)
        return (force * rows).exp()

    return grads(region(block, x).sum(), x, w)


@program
def forward_mode_inside(region):
    x = leaf(4, 8)

    def block(h):
        value, tangent = torch.func.jvp(lambda t: t.sin().exp(), (h,), (torch.ones_like(h),))
        return value * tangent

    return grads(region(block, x).sum(), x)


@program(refused="needs hooks on saved tensors, which this thread has disabled")
def inside_functional_grad(region):
    x = torch.randn(4, 8)
    return [torch.func.grad(lambda t: region(lambda h: h.sin().exp(), t).sum())(x)]


@program(refused="inside a level of functorch")
def inside_vmap(region):
    x = leaf(4, 8)
    return grads(torch.func.vmap(lambda row: region(lambda h: h.sin().exp(), row))(x).sum(), x)


@program(refused="inside a level of functorch")
def inside_forward_mode(region):
    x, tangent = torch.randn(4, 8), torch.randn(4, 8)
    return list(torch.func.jvp(lambda t: region(lambda h: h.sin().exp(), t), (x,), (tangent,)))


class Doubled(TorchDispatchMode):
    """Every exp is twice as large."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        return result * 2 if op is torch.ops.aten.exp.default else result


# With 2.11 a policy that keeps everything keeps what the mode made: the same bits.
@program(refused="did different work", ways=("recomputed", "to the end", "region in region") if IS_OLDEST else ())
def dispatch_mode_around(region):
    x = leaf(4, 8)
    with Doubled():
        y = region(lambda h: h.sin().exp().cos(), x)
    return grads(y.sum(), x)


@program
def dispatch_mode_inside(region):
    x = leaf(4, 8)

    def block(h):
        with Doubled():
            return h.sin().exp().cos()

    return grads(region(block, x).sum(), x)


@program
def anomaly_mode(region):
    x, w = leaf(4, 8), leaf(8, 8)
    with torch.autograd.set_detect_anomaly(True):
        return grads(region(lambda h: (h @ w).tanh().exp(), x).sum(), x, w)


@program(refused="default dtype")
def another_default_dtype_in_backward(region):
    x = leaf(4, 8)
    y = region(lambda h: (h.sin() * torch.ones(8)).exp(), x)
    torch.set_default_dtype(torch.float64)
    try:
        return grads(y.sum(), x)
    finally:
        torch.set_default_dtype(torch.float32)
