"""Several threads: models side by side, backward elsewhere, one graph from two threads, the global lock."""

import threading
import time

import pytest
import torch
from torch import nn

import reprise


class Square(torch.autograd.Function):
    """Reads what it saved while it holds the global lock."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.sin())
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (saved,) = ctx.saved_tensors
        return grad * saved


def run_in_threads(*functions):
    errors, results = [], [None] * len(functions)

    def run(index, function):
        try:
            results[index] = function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a deadlock"
    if errors:
        raise errors[0]
    return results


def train(seed, steps=30):
    generator = torch.Generator().manual_seed(seed)
    layers = [nn.Linear(8, 8) for _ in range(3)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(torch.randn(8, 8, generator=generator))
            layer.bias.zero_()
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)

    def block(layer, h):
        noise = torch.rand(4, 8, generator=generator)
        return Square.apply(reprise.checkpoint(torch.tanh, layer(h) * noise)).cos()

    for _ in range(steps):
        h = torch.randn(4, 8, generator=generator)
        for layer in layers:
            h = reprise.checkpoint(block, layer, h)
        optimizer.zero_grad()
        h.square().sum().backward()
        optimizer.step()
    return [parameter.detach() for parameter in parameters]


def test_models_in_two_threads():
    expected = [train(1), train(2)]
    actual = run_in_threads(lambda: train(1), lambda: train(2))
    for mine, theirs in zip(actual, expected):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs))


def leaf_and_graph(region):
    torch.manual_seed(0)
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    y = region(lambda h: Square.apply(nn.functional.dropout(h @ w, 0.5).tanh()).exp(), x)
    return x, w, y.sum()


def plainly(function, *args):
    return function(*args)


def test_backward_in_another_thread():
    x, w, loss = leaf_and_graph(plainly)
    loss.backward()
    for forward_elsewhere in (False, True):
        if forward_elsewhere:
            ((mine, weight, other),) = run_in_threads(lambda: leaf_and_graph(reprise.checkpoint))
            other.backward()
        else:
            mine, weight, other = leaf_and_graph(reprise.checkpoint)
            run_in_threads(other.backward)
        assert torch.equal(mine.grad, x.grad) and torch.equal(weight.grad, w.grad)


def test_one_graph_from_several_threads():
    x, w, loss = leaf_and_graph(plainly)
    expected = torch.autograd.grad(loss, (x, w))
    mine, weight, loss = leaf_and_graph(reprise.checkpoint)

    def backward():
        return [torch.autograd.grad(loss, (mine, weight), retain_graph=True) for _ in range(20)]

    for gradients in run_in_threads(*[backward] * 4):
        for gradient in gradients:
            assert all(torch.equal(a, b) for a, b in zip(gradient, expected))


def test_shared_parameters_from_several_threads():
    layer, x = nn.Linear(8, 8), torch.randn(4, 8)

    def step():
        for _ in range(20):
            reprise.checkpoint(lambda h: Square.apply(layer(h)).exp(), x).sum().backward()

    run_in_threads(*[step] * 3)
    count = 60
    total = layer.weight.grad.clone()
    layer.zero_grad()
    Square.apply(layer(x)).exp().sum().backward()
    assert torch.allclose(total, layer.weight.grad * count, rtol=1e-4)


def test_other_threads_run_during_a_backward():
    x, w = torch.randn(600, 600, requires_grad=True), torch.randn(600, 600)
    # Products without Python in between: nothing but ours could hold the lock.
    block = torch.nn.Sequential(*[nn.Linear(600, 600) for _ in range(20)])
    y = reprise.checkpoint(block, x @ w).sum()
    ticks, ends = [], threading.Event()

    def tick():
        while not ends.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    y.backward()
    stop = time.perf_counter()
    ends.set()
    thread.join()
    seen = sum(start < tick < stop for tick in ticks)
    assert seen >= 3 and seen >= (stop - start) / 0.050


def test_error_in_one_thread_leaves_the_others_alone():
    def fails():
        for _ in range(20):
            x = torch.randn(4, requires_grad=True)

            def block(h):
                if reprise.is_recomputing():
                    raise KeyError
                return h.sin().exp()

            with pytest.raises(KeyError):
                reprise.checkpoint(block, x).sum().backward()

    expected = train(3)
    actual = run_in_threads(lambda: train(3), fails, fails)[0]
    assert all(torch.equal(a, b) for a, b in zip(actual, expected))


def test_settings_are_of_their_thread():
    x = torch.randn(4, requires_grad=True)
    with reprise.set_checkpoint_early_stop(False):
        run_in_threads(lambda: reprise.checkpoint(lambda h: h.sin().exp() * 2, x).sum().backward())
        assert reprise.stats()["early_stopped"] == 1
        reprise.checkpoint(lambda h: h.sin().exp() * 2, x).sum().backward()
        assert reprise.stats()["early_stopped"] == 1
