"""Nothing is left behind: 5,000 steps, errors, cycles, collections in the middle, deep nesting."""

import ctypes
import gc
import os
import signal
import sys
import traceback
import weakref

import pytest
import torch
from torch import nn

import reprise

STEPS = 5000


class _MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usm fsm used free keep".split()]


def heap_bytes():
    """What C and C++ have allocated in this process: a leak of one byte per step shows."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _MallInfo
    info = mallinfo()
    return info.used + info.hblkhd


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured():
    gc.collect()
    return {
        "live": reprise.live_bytes("cpu"),
        "python": sys.getallocatedblocks(),
        "heap": heap_bytes(),
        "resident": resident_bytes(),
    }


def assert_flat(step):
    """A warm-up fills caches; what follows must add nothing. Half an allocation per step would be found."""
    for _ in range(STEPS // 10):
        step()
    start = measured()
    for _ in range(STEPS):
        step()
    end = measured()
    assert end["live"] == start["live"]
    assert end["python"] - start["python"] < STEPS // 10
    assert end["heap"] - start["heap"] < 8 * STEPS
    assert end["resident"] - start["resident"] < 2**20


def test_steps_are_flat_in_memory():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    policy = reprise.policies.save_matmuls()
    buffer = torch.zeros(4)

    def block(h, scale=None):
        buffer.add_(1)
        return torch.tanh(second(nn.functional.dropout(first(h), 0.5))) * scale

    def step():
        x = torch.randn(2, 4, requires_grad=True)
        h = reprise.checkpoint(block, x, scale=torch.ones(4))
        h = reprise.checkpoint(lambda t: reprise.checkpoint(first, t.sin()), h)
        h = reprise.checkpoint(first, h, policy=policy)
        h = reprise.checkpoint(second, h, use_reentrant=True)
        reprise.checkpoint(first, h)  # never used
        h.sum().backward()

    assert_flat(step)


class _Mine(Exception):
    pass


def test_errors_in_forward_and_recompute_leave_nothing():
    layer = nn.Linear(4, 4)
    calls = [0]

    def block(h):
        h = layer(h).sin()
        calls[0] += 1
        if calls[0] % 2 == 0:
            raise _Mine(h)
        return h.exp()

    def recompute_fails():
        x = torch.randn(2, 4, requires_grad=True)
        y = reprise.checkpoint(block, x)
        try:
            y.sum().backward()
        except _Mine:
            return
        raise AssertionError

    def forward_fails():
        x = torch.randn(2, 4, requires_grad=True)
        calls[0] = 1
        try:
            reprise.checkpoint(block, x.cos())
        except _Mine:
            calls[0] = 0
            return
        raise AssertionError

    def step():
        recompute_fails()
        forward_fails()

    assert_flat(step)


def gradient_of(block, x):
    (gradient,) = torch.autograd.grad(reprise.checkpoint(block, x).sum(), x)
    return gradient


def test_interrupted_recompute_is_followed_by_a_right_step():
    layer, x = nn.Linear(4, 4), torch.randn(2, 4, requires_grad=True)
    interrupts = [False]

    def block(h):
        h = layer(h).sin()
        if reprise.is_recomputing() and interrupts[0]:
            signal.raise_signal(signal.SIGINT)
        return h.exp()

    expected = gradient_of(block, x)
    y = reprise.checkpoint(block, x)
    interrupts[0] = True
    with pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    assert not reprise.is_recomputing()
    interrupts[0] = False
    y.sum().backward()  # the same graph can be run again: nothing of it was freed
    assert torch.equal(x.grad, expected)
    assert torch.equal(gradient_of(block, x), expected)


def test_error_of_recompute_has_the_traceback_and_the_object():
    error = _Mine("mine")

    def fails_when_recomputing(h):
        if reprise.is_recomputing():
            raise error
        return h.exp()

    x = torch.randn(4, requires_grad=True)
    y = reprise.checkpoint(lambda h: fails_when_recomputing(h.sin()), x)
    with pytest.raises(_Mine) as caught:
        y.sum().backward()
    assert caught.value is error
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names[-1] == "fails_when_recomputing" and "<lambda>" in names and "backward" in names


def test_error_of_forward_has_the_traceback_and_the_cause():
    def inner(h):
        raise KeyError("inner")

    def block(h):
        try:
            inner(h)
        except KeyError as error:
            raise _Mine("outer") from error

    with pytest.raises(_Mine) as caught:
        reprise.checkpoint(block, torch.randn(4, requires_grad=True))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "block" and "checkpoint" in names
    assert isinstance(caught.value.__cause__, KeyError)
    assert traceback.extract_tb(caught.value.__cause__.__traceback__)[-1].name == "inner"


def test_errors_of_operators_are_those_of_plain_calls():
    def block(h):
        return h @ torch.ones(3, 3)

    x = torch.randn(4, 4, requires_grad=True)
    with pytest.raises(RuntimeError) as plain:
        block(x)
    with pytest.raises(RuntimeError) as region:
        reprise.checkpoint(block, x)
    assert str(region.value) == str(plain.value)
    assert type(region.value) is type(plain.value)


def test_clean_up_runs_when_a_recompute_stops_early():
    log = []

    class Manager:
        def __enter__(self):
            log.append("enter")

        def __exit__(self, *exception):
            log.append("exit")

    def pieces(h):
        try:
            yield h.sin()
            yield h.sin().exp()
        finally:
            log.append("finally")

    def block(h):
        with Manager():
            try:
                return sum(pieces(h)).cos() + 1
            except Exception:
                log.append("except")
                raise

    x = torch.randn(4, requires_grad=True)
    reprise.checkpoint(block, x).sum().backward()
    assert log == ["enter", "finally", "exit"] + ["enter", "finally", "except", "exit"]
    assert reprise.stats()["early_stopped"] == 1


def test_swallowing_the_early_stop_is_an_error():
    def block(h):
        h = h.sin()
        try:
            return h.exp().cos() * 2 + 1
        except BaseException:
            return h

    x = torch.randn(4, requires_grad=True)
    y = reprise.checkpoint(block, x)
    with pytest.raises(reprise.CheckpointError):
        y.sum().backward()


def test_collections_in_the_middle_of_everything():
    layer, threshold = nn.Linear(4, 4), gc.get_threshold()

    def block(h):
        cycle = [h.sin()]
        cycle.append(cycle)
        h = reprise.checkpoint(layer, cycle[0])
        del cycle
        gc.collect()
        h.register_hook(lambda grad: grad if gc.collect() < 0 else None)
        return h.exp()

    def step():
        x = torch.ones(2, 4, requires_grad=True)
        y = reprise.checkpoint(block, x).sum()
        y.backward()
        return x.grad

    expected = step()
    gc.set_threshold(1)
    try:
        for _ in range(5):
            assert torch.equal(step(), expected)
    finally:
        gc.set_threshold(*threshold)


def test_graph_in_a_cycle_is_collected():
    class Holder:
        pass

    gc.collect()
    start = reprise.live_bytes("cpu")
    holder = Holder()
    holder.self = holder
    holder.x = torch.randn(64, 64, requires_grad=True)
    holder.y = reprise.checkpoint(lambda h: h.sin().exp(), holder.x)
    dead = weakref.ref(holder)
    del holder
    gc.collect()
    assert dead() is None
    assert reprise.live_bytes("cpu") == start


def test_modules_die_with_the_graph():
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = torch.randn(2, 4, requires_grad=True)
    y = reprise.checkpoint(module, x)
    dead = weakref.ref(module)
    del module
    y.sum().backward()
    assert x.grad is not None
    del y
    assert dead() is None  # without a collection


def test_arguments_die_with_the_graph_and_results_with_nobody():
    class Argument:
        pass

    argument, x = Argument(), torch.randn(4, requires_grad=True)
    y = reprise.checkpoint(lambda h, _: h.sin().exp(), x, argument)
    dead = weakref.ref(argument)
    del argument
    assert dead() is not None
    del y
    assert dead() is None


def test_deep_nesting():
    depth, x = 40, torch.randn(4, requires_grad=True)

    def nested(h, level):
        h = h.sin()
        return reprise.checkpoint(nested, h, level - 1) if level else h.exp()

    def plain(h):
        for _ in range(depth + 1):
            h = h.sin()
        return h.exp()

    (expected,) = torch.autograd.grad(plain(x).sum(), x)
    (actual,) = torch.autograd.grad(reprise.checkpoint(nested, x, depth).sum(), x)
    assert torch.equal(actual, expected)


def test_endless_recursion_is_pythons_error():
    def endless(h):
        return reprise.checkpoint(endless, h.sin())

    with pytest.raises(RecursionError):
        reprise.checkpoint(endless, torch.randn(4, requires_grad=True))
    x = torch.randn(4, requires_grad=True)
    assert torch.equal(gradient_of(lambda h: h.sin(), x), x.cos())


def test_long_chains_are_freed_without_recursion():
    h = x = torch.randn(2, requires_grad=True)
    for _ in range(5000):
        h = reprise.checkpoint(torch.sin, h)
    del h
    h = x
    for _ in range(5000):
        h = reprise.checkpoint(torch.sin, h)
    h.sum().backward()
    assert x.grad is not None
