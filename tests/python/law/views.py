"""Views, and what is written in place."""

import torch

from law import grads, leaf, program


@program
def written_view_of_what_it_made(region):
    x = leaf(4, 8)

    def block(h):
        h = h.sin()
        h[:, :4].mul_(2)
        h.t()[1].add_(1).neg_()
        return h.exp()

    return grads(region(block, x).sum(), x)


@program
def written_input(region):
    x = leaf(4, 8)
    return grads(region(lambda h: h.mul_(2).sin(), x.cos()).sum(), x)


@program
def written_input_that_is_used_after(region):
    x = leaf(4, 8)
    h = x.clone()
    y = region(lambda h: h.add_(1).sin(), h)
    return [*grads((y * h).sum(), x), h.detach()]


@program
def written_view_of_the_input(region):
    x = leaf(4, 8)
    h = x.clone()
    y = region(lambda h: (h[1].fill_(3), h.sin())[1], h)
    return [*grads((y + h).sum(), x), h.detach()]


@program
def result_is_a_view_of_the_input(region):
    x = leaf(4, 8)
    h = x.clone()
    view = region(lambda h: h[:, 2:6], h)
    view.mul_(3)
    return [*grads((h.sin() + view.sum()).sum(), x), h.detach()]


@program
def the_input_returned(region):
    x = leaf(4, 8)
    h = x.clone()
    y, z = region(lambda h: (h, h.sin()), h)
    return grads((y * z).sum(), x)


@program(refused="is a view and is being modified inplace")
def results_that_share_memory_written_after(region):
    x = leaf(4, 8)
    a, b = region(lambda h: h.exp().chunk(2, 1), x)
    a.mul_(2)
    return grads((a + b).sum(), x)


@program
def result_written_after(region):
    x = leaf(4, 8)
    y = region(lambda h: h.sin() * 2, x)
    y.mul_(3).add_(1)
    return grads(y.exp().sum(), x)


@program(refused="modified by an inplace operation")
def saved_result_written_after(region):
    x = leaf(4, 8)
    y = region(lambda h: h.exp(), x)
    y.add_(1)
    return grads(y.sum(), x)


@program
def unsafe_chunk(region):
    x = leaf(4, 8)
    a, b = region(lambda h: (h.sin() @ torch.ones(8, 8)).unsafe_chunk(2, 1), x)
    return grads((a.mul_(2) + b).sum(), x)


@program
def strided(region):
    x = leaf(4, 8)

    def block(h):
        h = h.sin()
        h.as_strided((4, 4), (8, 2)).mul_(2)
        return torch.as_strided(h, (2, 8), (16, 1)).exp()

    return grads(region(block, x).sum(), x)


@program
def one_buffer_for_a_loop(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        out = h.new_zeros(3, 4, 8)
        for i in range(3):
            h = (h @ w).tanh()
            out[i] = h
        return out.exp().sum(0)

    return grads(region(block, x).sum(), x, w)


@program
def complex_and_real(region):
    x = leaf(4, 8, dtype=torch.complex64)
    y = region(lambda h: torch.view_as_real(h.sin()).mul(2).exp() + torch.fft.fft(h).abs().unsqueeze(-1), x)
    return grads(y.sum(), x)
