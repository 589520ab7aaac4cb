"""Graphs: several backward calls, backward inside, regions in regions."""

import torch
import torch.utils.checkpoint

from law import grads, leaf, program


@program
def grad_inside(region):
    x = leaf(4, 8)

    def block(h):
        energy = h.sin().pow(3).sum()
        (force,) = torch.autograd.grad(energy, h, create_graph=True)
        return force.exp() + h

    return grads(region(block, x.cos()).sum(), x)


@program
def backward_inside(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        (w.exp().sum() * 0.1).backward()
        return (h @ w).tanh()

    return grads(region(block, x).sum(), x, w)


@program
def backward_twice(region):
    x, w = leaf(4, 8), leaf(8, 8)
    y = region(lambda h: (h @ w).tanh().exp(), x).sum()
    y.backward(retain_graph=True)
    return grads(y, x, w)


@program
def two_results_one_after_the_other(region):
    x, w = leaf(4, 8), leaf(8, 8)
    a, b = region(lambda h: ((h @ w).tanh(), (h @ w).exp()), x)
    a.sum().backward(retain_graph=True)
    return grads(b.sum(), x, w)


@program
def only_one_of_two_results(region):
    x, w = leaf(4, 8), leaf(8, 8)
    a, _ = region(lambda h: ((h @ w).tanh(), (h @ w).exp()), x)
    return grads(a.sum(), x, w)


@program
def grad_of_parameters_only(region):
    x, w = torch.randn(4, 8), leaf(8, 8)
    y = region(lambda h: (h @ w).tanh().exp(), x)
    return list(torch.autograd.grad(y.sum(), w))


@program
def gradient_penalty(region):
    x, w = leaf(4, 8), leaf(8, 8)
    y = region(lambda h: (h @ w).tanh().exp(), x)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return grads(y.sum() + g.square().sum(), x, w)


@program
def hessian_vector(region):
    x = leaf(8)
    return [torch.autograd.functional.hvp(lambda v: region(lambda h: h.sin().exp().sum(), v), x.detach(), x.detach())]


@program
def three_levels(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def inner(h):
        return (h @ w).tanh()

    def middle(h):
        return region(inner, h.sin()).exp() + region(inner, h)

    return grads(region(lambda h: region(middle, h.cos()).sin(), x).sum(), x, w)


@program
def torchs_checkpoint_inside(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def inner(h):
        return torch.nn.functional.dropout((h @ w).tanh(), 0.5).exp()

    def block(h):
        h = torch.utils.checkpoint.checkpoint(inner, h.sin(), use_reentrant=False)
        return h.cos()

    return [*grads(region(block, x).sum(), x, w), torch.rand(2)]


@program
def torchs_reentrant_checkpoint_inside(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        h = torch.utils.checkpoint.checkpoint(lambda t: (t @ w).tanh().exp(), h.sin(), use_reentrant=True)
        return h.cos()

    return [*grads(region(block, x).sum(), x, w), torch.rand(2)]


@program
def inside_torchs_checkpoint(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        return region(lambda t: torch.nn.functional.dropout((t @ w).tanh(), 0.5).exp(), h.sin()).cos()

    return [*grads(torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum(), x, w), torch.rand(2)]


@program
def inside_torchs_reentrant_checkpoint(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        return region(lambda t: torch.nn.functional.dropout((t @ w).tanh(), 0.5).exp(), h.sin()).cos()

    return [*grads(torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True).sum(), x, w), torch.rand(2)]


@program
def recurrent(region):
    x, w = leaf(4, 8), leaf(8, 8)
    h, losses = x, []
    for _ in range(6):
        h = region(lambda t: (t @ w).tanh(), h)
        losses.append(h.sum())
        h = h.detach() if len(losses) == 3 else h
    return grads(sum(losses), x, w)


@program
def detached_inside(region):
    x = leaf(4, 8)

    def block(h):
        target = h.detach().softmax(-1)
        frozen = h.detach().requires_grad_()
        return (h.log_softmax(-1) * target).sum() + frozen.sin().sum()

    return grads(region(block, x.sin()), x)
