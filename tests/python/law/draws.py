"""Random numbers."""

import random

import numpy
import torch
import torch.nn.functional as F

from law import grads, leaf, program


@program
def dropout(region):
    x = leaf(16, 8)
    y = region(lambda h: F.dropout(h.sin(), 0.5).exp(), x)
    between = torch.rand(3)
    return [*grads(y.sum(), x), between, torch.rand(3)]


@program
def a_generator_as_argument(region):
    x, generator = leaf(16, 8), torch.Generator().manual_seed(7)

    def block(h, generator):
        return (h.sin() * torch.rand(16, 8, generator=generator)).exp()

    y = region(block, x, generator=generator)
    between = torch.rand(2, generator=generator)
    return [*grads(y.sum(), x), between, torch.rand(3, generator=generator), generator.get_state()]


@program
def a_captured_generator(region):
    x, generator = leaf(16, 8), torch.Generator().manual_seed(7)

    def block(h):
        mask = torch.empty(16, 8).bernoulli_(0.5, generator=generator)
        return (h[torch.randperm(16, generator=generator)] * mask).exp()

    return [*grads(region(block, x).sum(), x), generator.get_state()]


@program
def in_place_and_many(region):
    x = leaf(16, 8)

    def block(h):
        picked = torch.multinomial(h.detach().softmax(-1), 3)
        noise = torch.empty_like(h).normal_().uniform_(-1, 1)
        return F.rrelu(h.gather(1, picked), training=True).exp().sum() + (h * noise).sin().sum()

    return [*grads(region(block, x), x), torch.get_rng_state()]


@program
def a_seed_inside(region):
    x = leaf(16, 8)

    def block(h):
        torch.manual_seed(5)
        return F.dropout(h.sin(), 0.5).exp()

    y = region(block, x)
    between = torch.rand(3)
    return [*grads(y.sum(), x), between, torch.rand(3)]


@program
def a_fork_of_the_generator(region):
    x = leaf(16, 8)

    def block(h):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            h = F.dropout(h.sin(), 0.5).exp()
        return F.dropout(h, 0.5).exp()

    return [*grads(region(block, x).sum(), x), torch.get_rng_state()]


@program
def a_state_set_inside(region):
    x, state = leaf(16, 8), torch.get_rng_state()

    def block(h):
        h = F.dropout(h.sin(), 0.5).exp()
        torch.set_rng_state(state)
        return F.dropout(h, 0.5).exp()

    return [*grads(region(block, x).sum(), x), torch.get_rng_state()]


@program
def other_draws_before_backward(region):
    x = leaf(16, 8)
    losses = [region(lambda h: F.dropout(h.sin(), 0.5).exp(), x).sum() for _ in range(3)]
    torch.manual_seed(99)
    for loss in reversed(losses):
        loss.backward()
        torch.rand(5)
    return [x.grad, torch.rand(3)]


@program(refused="did different work", ways=("recomputed", "to the end", "region in region"))
def of_the_module_random(region):
    random.seed(3)
    x = leaf(16, 8)
    return grads(region(lambda h: (h * random.random()).sin(), x).sum(), x)


@program(refused="did different work")
def of_numpy(region):
    generator = numpy.random.default_rng(3)
    x = leaf(16, 8)
    return grads(region(lambda h: (h * torch.from_numpy(generator.random((16, 8)))).sin(), x).sum(), x)
