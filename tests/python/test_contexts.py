"""context_fn: its managers are around forward and every recompute, and see how these end."""

import contextlib
import contextvars

import pytest
import torch
import torch.utils.checkpoint as theirs
from torch.utils._python_dispatch import TorchDispatchMode

import reprise


class Context:
    """Logs what happens to it."""

    def __init__(self, log, name):
        self.log, self.name = log, name

    def __enter__(self):
        self.log.append(f"{self.name} in")

    def __exit__(self, kind, value, traceback):
        assert (kind is None) == (value is None) == (traceback is None)
        self.log.append(f"{self.name} out" + (f": {value!r}" if value is not None else ""))


def contexts_of(log):
    return lambda: (Context(log, "forward"), Context(log, "recompute"))


def leaf():
    return torch.ones(3, requires_grad=True)


def test_managers_are_around_forward_and_every_recompute():
    log = []
    x = leaf()
    y = reprise.checkpoint(lambda h: log.append("run") or h.exp().sin(), x, context_fn=contexts_of(log))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    again = ["recompute in", "run", "recompute out"]
    assert log == ["forward in", "run", "forward out"] + again + again
    assert torch.equal(x.grad, 2 * torch.autograd.grad(x.exp().sin().sum(), x)[0])


def test_an_early_stop_is_no_exception_for_the_manager():
    log = []
    reprise.checkpoint(lambda h: h.exp().sin() + 1, leaf(), context_fn=contexts_of(log)).sum().backward()
    assert reprise.stats()["early_stopped"] == 1
    assert log[-1] == "recompute out"


def test_forwards_manager_sees_the_exception_of_forward():
    log, state = [], contextvars.ContextVar("state", default="outside")

    class Setting(Context):
        def __enter__(self):
            super().__enter__()
            self.token = state.set("inside")

        def __exit__(self, *exception):
            state.reset(self.token)
            super().__exit__(*exception)

    error = KeyError("of forward")

    def function(h):
        assert state.get() == "inside"
        raise error

    with pytest.raises(KeyError) as caught:
        reprise.checkpoint(function, leaf(), context_fn=lambda: (Setting(log, "forward"), contextlib.nullcontext()))
    assert caught.value is error
    assert log == ["forward in", "forward out: KeyError('of forward')"]
    assert state.get() == "outside"


def test_the_recomputes_manager_sees_its_exception():
    log, runs = [], []

    def function(h):
        runs.append(h)
        if len(runs) == 2:
            raise KeyError("of the recompute")
        return h.exp().sin()

    y = reprise.checkpoint(function, leaf(), context_fn=contexts_of(log))
    with pytest.raises(KeyError, match="of the recompute"):
        y.sum().backward()
    assert log[2:] == ["recompute in", "recompute out: KeyError('of the recompute')"]


def test_suppressing_the_exception_of_forward_is_an_error():
    class Suppressing(Context):
        def __exit__(self, *exception):
            super().__exit__(*exception)
            return True

    def function(h):
        raise KeyError("of forward")

    log = []
    with pytest.raises(RuntimeError, match="suppressed an exception"):
        reprise.checkpoint(
            function, leaf(), context_fn=lambda: (Suppressing(log, "forward"), contextlib.nullcontext())
        )
    assert log == ["forward in", "forward out: KeyError('of forward')"]


@pytest.mark.parametrize("fails", [False, True])
def test_what_leaving_forwards_context_raises_comes_out(fails):
    @contextlib.contextmanager
    def context():
        try:
            yield
        finally:
            raise OSError("on the way out")

    def function(h):
        if fails:
            raise KeyError("of forward")
        return h.exp()

    with pytest.raises(OSError, match="on the way out"):
        reprise.checkpoint(function, leaf(), context_fn=lambda: (context(), contextlib.nullcontext()))


def test_what_entering_raises_comes_out():
    @contextlib.contextmanager
    def context():
        raise OSError("on the way in")
        yield

    with pytest.raises(OSError, match="on the way in"):
        reprise.checkpoint(torch.exp, leaf(), context_fn=lambda: (context(), contextlib.nullcontext()))
    contexts = contextlib.nullcontext(), context()
    y = reprise.checkpoint(torch.exp, leaf(), context_fn=lambda: contexts, early_stop=False)
    with pytest.raises(OSError, match="on the way in"):
        y.sum().backward()


def test_generators_are_contexts_too():
    log = []

    @contextlib.contextmanager
    def context(name):
        log.append(name)
        yield
        log.append(name + " ends")

    y = reprise.checkpoint(
        lambda h: h.exp().sin() + 1, leaf(), context_fn=lambda: (context("forward"), context("recompute"))
    )
    y.sum().backward()
    assert log == ["forward", "forward ends", "recompute", "recompute ends"]


def test_a_dispatch_mode_sees_the_operators_of_its_run():
    class Logging(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.operators = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.operators.append(function)
            return function(*args, **(kwargs or {}))

    forward, recompute = Logging(), Logging()
    x = leaf()
    reprise.checkpoint(lambda h: h.exp().sin(), x, context_fn=lambda: (forward, recompute)).sum().backward()
    exp, sin = torch.ops.aten.exp.default, torch.ops.aten.sin.default
    assert [op for op in forward.operators if op in (exp, sin)] == [exp, sin]
    assert exp in recompute.operators
    assert torch.equal(x.grad, torch.autograd.grad(x.exp().sin().sum(), x)[0])


def test_a_context_that_changes_what_is_computed_belongs_in_both():
    def autocast():
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def function(h):
        return (h @ h.t()).exp()

    x = torch.randn(4, 4, requires_grad=True)
    y = reprise.checkpoint(function, x, context_fn=lambda: (autocast(), autocast()))
    grad = torch.autograd.grad(y.float().sum(), x)[0]
    with autocast():
        expected = function(x)
    assert torch.equal(grad, torch.autograd.grad(expected.float().sum(), x)[0])

    y = reprise.checkpoint(function, x, context_fn=lambda: (autocast(), contextlib.nullcontext()))
    with pytest.raises(reprise.CheckpointError, match="have different metadata"):
        y.float().sum().backward()


def test_without_gradients_no_context_is_entered():
    log = []
    with torch.no_grad():
        reprise.checkpoint(torch.exp, leaf(), context_fn=contexts_of(log))
    assert log == []


def test_what_is_no_pair_of_contexts_is_refused():
    with pytest.raises(TypeError, match="unpack"):
        reprise.checkpoint(torch.exp, leaf(), context_fn=lambda: None)
    with pytest.raises(AttributeError, match="__exit__"):
        reprise.checkpoint(torch.exp, leaf(), context_fn=lambda: (1, 2))


def test_contexts_and_a_policy_work_together():
    log = []
    x = torch.randn(4, 4, requires_grad=True)
    y = reprise.checkpoint(
        lambda h: (h @ h).exp().sin(),
        x,
        context_fn=contexts_of(log),
        policy=reprise.policies.save_ops([torch.ops.aten.mm.default]),
    )
    y.sum().backward()
    assert log == ["forward in", "forward out", "recompute in", "recompute out"]
    assert reprise.stats()["ops_replayed"] == 1


def test_noop_context_fn_is_no_context_at_all():
    assert reprise.noop_context_fn is theirs.noop_context_fn
    x = leaf()
    reprise.checkpoint(torch.exp, x, use_reentrant=True, context_fn=theirs.noop_context_fn).sum().backward()
    assert torch.equal(x.grad, x.exp())


def test_a_selective_context_is_for_context_fn_alone():
    contexts = reprise.create_selective_checkpoint_contexts([torch.ops.aten.mm.default])
    with pytest.raises(RuntimeError, match="are for the context_fn of reprise.checkpoint"), contexts[0]:
        pass
