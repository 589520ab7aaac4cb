"""Buffers and other tensors that a region writes."""

import torch

from law import grads, leaf, program


@program
def batch_norm(region):
    norm, x = torch.nn.BatchNorm1d(8), leaf(16, 8)
    y = region(lambda h: norm(h.sin()).exp(), x)
    return [*grads(y.sum(), x, *norm.parameters()), *norm.buffers()]


@program
def a_counter_that_is_read(region):
    x, steps = leaf(4, 8), torch.zeros(())

    def block(h):
        steps.add_(1)
        return (h * steps.clone()).sin()

    loss = sum(region(block, x).sum() for _ in range(3))
    return [*grads(loss, x), steps]


@program
def a_cache_of_keys(region):
    x, cache = leaf(4, 8), torch.zeros(8, 8)

    def block(h, at):
        with torch.no_grad():
            cache[at : at + 4].copy_(h)
        return (h @ cache.clone().t()).softmax(-1)

    loss = sum(region(block, x.sin() * i, 4 * i).square().sum() for i in range(2))
    return [*grads(loss, x), cache]


@program
def data_of_a_parameter(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        w.data = w.data * 0.5
        return (h @ w).tanh()

    return [*grads(region(block, x).sum(), x, w), w.detach()]


@program
def in_place_through_data(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        w.data.mul_(0.5)
        return (h @ w).tanh()

    return [*grads(region(block, x).sum(), x, w), w.detach()]


@program(refused="modified by an inplace operation since forward")
def numpy_inside(region):
    x, b = leaf(4, 8), torch.ones(8)

    def block(h):
        b.numpy()[:] += 1
        return (h * b).sin()

    return [*grads(region(block, x).sum(), x), b]


@program(refused="modified by an inplace operation since forward")
def numpy_before_backward(region):
    x, b = leaf(4, 8), torch.ones(8)
    y = region(lambda h: (h * b.clone()).sin(), x)
    b.numpy()[:] += 1
    return grads(y.sum(), x)


@program
def numpy_on_what_it_made(region):
    x = leaf(4, 8)

    def block(h):
        h = h.sin()
        h.detach().numpy()[0] = 0.5
        return h.exp()

    return grads(region(block, x).sum(), x)


@program(refused="modified by an inplace operation since forward")
def a_bias_stepped_before_backward(region):
    x, b = leaf(4, 8), leaf(8)
    y = region(lambda h: (h + b).sin(), x)
    with torch.no_grad():
        b.add_(1)
    return grads(y.sum(), x, b)


@program
def a_buffer_made_outside_filled_inside(region):
    x, out = leaf(4, 8), torch.zeros(8, 8)

    def block(h):
        out[:4] = h.sin()
        out[4:] = h.cos()
        return out.exp()

    return [*grads(region(block, x).sum(), x), out.detach()]


@program
def a_scratch_that_regions_share(region):
    x, scratch = leaf(4, 8), torch.empty(4, 8)

    def block(h):
        scratch.copy_(h.detach())
        return h * scratch.square().clone()

    h = x
    for _ in range(3):
        h = region(block, h.sin())
    return [*grads(h.sum(), x), scratch]


@program
def spectral_norm(region):
    layer, x = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(8, 8)), leaf(4, 8)
    y = region(lambda h: layer(h.sin()).exp(), x)
    return [*grads(y.sum(), x, *layer.parameters()), *layer.buffers()]
