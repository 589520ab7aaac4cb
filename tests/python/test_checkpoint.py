"""The call: every argument of torch.utils.checkpoint.checkpoint has its effect or is refused."""

import collections
import dataclasses
import functools
import inspect
import threading

import pytest
import torch
import torch.utils.checkpoint as theirs
from torch import nn
from torch.utils._pytree import register_pytree_node

import reprise
from gradients import assert_same_bits, state_after


def leaf(*shape):
    torch.manual_seed(1)
    return torch.randn(*(shape or (4, 3)), requires_grad=True)


class Counted:
    """Counts the runs of a function and keeps its gradient to compare."""

    def __init__(self, function):
        self.function = function
        self.runs = 0

    def __call__(self, *args, **kwargs):
        self.runs += 1
        return self.function(*args, **kwargs)


def block(h):
    return h.exp().sin().exp() + 1


def gradient(function, x):
    return torch.autograd.grad(function(x).sum(), x)[0]


def test_every_public_name_of_torch_is_there():
    assert set(theirs.__all__) <= set(reprise.__all__)
    ours = inspect.signature(reprise.checkpoint).parameters
    assert set(inspect.signature(theirs.checkpoint).parameters) <= set(ours)
    for name, parameter in inspect.signature(theirs.checkpoint_sequential).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            assert name in inspect.signature(reprise.checkpoint_sequential).parameters


def test_the_module_stands_in_for_torchs():
    import reprise as checkpoint

    x = leaf()
    y = checkpoint.checkpoint(block, x, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], gradient(block, x))
    assert issubclass(checkpoint.CheckpointError, theirs.CheckpointError)


@pytest.mark.parametrize("early_stop", [True, False])
def test_forward_runs_once_and_once_again_per_backward(early_stop):
    x, counted = leaf(), Counted(block)
    y = reprise.checkpoint(counted, x, early_stop=early_stop)
    assert counted.runs == 1
    y.sum().backward(retain_graph=True)
    assert counted.runs == 2
    y.sum().backward()
    assert counted.runs == 3
    assert torch.equal(x.grad, 2 * gradient(block, x))


def test_early_stop_leaves_out_what_follows_the_last_saved_tensor():
    tail = Counted(lambda h: h + 1)

    def function(h):
        return tail(h.sin().exp() + 0)

    for early_stop, runs in [(True, 1), (False, 2)]:
        tail.runs = 0
        reprise.checkpoint(function, leaf(), early_stop=early_stop).sum().backward()
        assert tail.runs == runs


def test_the_scope_of_early_stop_decides_over_the_argument():
    tail = Counted(lambda h: h + 1)

    def function(h):
        return tail(h.sin().exp() + 0)

    with reprise.set_checkpoint_early_stop(False):
        y = reprise.checkpoint(function, leaf(), early_stop=True)
        with reprise.set_checkpoint_early_stop(True):
            z = reprise.checkpoint(function, leaf(), early_stop=False)
    for region, runs in [(y, 3), (z, 3)]:
        region.sum().backward()
        assert tail.runs == runs

    @reprise.set_checkpoint_early_stop(False)
    def decorated():
        return reprise.checkpoint(function, leaf())

    tail.runs = 0
    decorated().sum().backward()
    assert tail.runs == 2


def test_keyword_arguments_get_gradients():
    x, scale = leaf(), leaf()
    y = reprise.checkpoint(lambda h, *, scale: (h.exp() * scale).sin(), x, scale=scale)
    y.sum().backward()
    ours = x.grad, scale.grad
    x.grad = scale.grad = None
    (x.exp() * scale).sin().sum().backward()
    assert torch.equal(x.grad, ours[0]) and torch.equal(scale.grad, ours[1])


def test_as_a_decorator():
    counted = Counted(block)

    @reprise.checkpoint(name="decorated", early_stop=False)
    def function(h, name, use_reentrant=None):
        """What it does."""
        assert (name, use_reentrant) == ("of the function", "too")
        return counted(h)

    x = leaf()
    y = function(x, name="of the function", use_reentrant="too")
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], gradient(block, x))
    assert counted.runs == 2
    assert function.__name__ == "function" and function.__doc__ == "What it does."
    assert reprise.stats()["regions"]["decorated"]["entered"] == 1


def test_as_a_decorator_of_methods():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        @reprise.checkpoint()
        def forward(self, h):
            return self.inner(h).exp().sin()

        @reprise.checkpoint()
        @classmethod
        def doubled(cls, h):
            assert cls is Layer
            return (h * 2).exp()

    layer, x = Layer(), leaf()
    layer(x).sum().backward()
    assert layer.inner.weight.grad is not None
    assert torch.equal(gradient(Layer.doubled, x), gradient(lambda h: (h * 2).exp(), x))
    assert reprise.stats()["recomputed"] == 2


def test_a_decorator_takes_options_only():
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        reprise.checkpoint(scale=1)


def test_a_function_without_arguments():
    weight = leaf()
    counted = Counted(lambda: weight.exp().sin())
    reprise.checkpoint(counted).sum().backward()
    assert counted.runs == 2
    assert torch.equal(weight.grad, gradient(lambda w: w.exp().sin(), weight))


@pytest.mark.parametrize("preserve", [True, False])
def test_preserve_rng_state(preserve):
    def function(h):
        return nn.functional.dropout(h.exp(), 0.5).sin()

    x = leaf(64, 64)
    torch.manual_seed(3)
    y = reprise.checkpoint(function, x, preserve_rng_state=preserve, determinism_check="none", early_stop=False)
    after_forward = torch.get_rng_state()
    grad = torch.autograd.grad(y.sum(), x)[0]
    assert torch.equal(torch.get_rng_state(), after_forward) == preserve
    torch.manual_seed(3)
    assert torch.equal(grad, gradient(function, x)) == preserve


def changing(first, then):
    runs = [then, first]
    return lambda *args: (runs.pop() if len(runs) > 1 else runs[0])(*args)


def test_determinism_check_default_compares_shapes():
    x = leaf()
    y = reprise.checkpoint(changing(lambda h: h.exp(), lambda h: h[:2].exp()), x)
    with pytest.raises(reprise.CheckpointError, match="have different metadata than during the forward"):
        y.sum().backward()


def test_determinism_check_none_leaves_the_difference_to_autograd():
    x = leaf()
    y = reprise.checkpoint(changing(lambda h: h.exp(), lambda h: h[:1].exp()), x, determinism_check="none")
    y.sum().backward()  # a row is broadcast: wrong gradients, as asked for
    assert not torch.equal(x.grad, x.detach().exp())


def test_determinism_check_values_compares_everything():
    scale = torch.ones(64, 64)

    def function(h):
        return (h * 2).exp() * torch.from_numpy(scale.numpy()).sin()

    numbers = torch.rand(64, 64)
    other = numbers.clone()
    other[17, 31] += 1e-3  # no sample is there
    constants = [other, numbers]
    x = leaf(64, 64)
    y = reprise.checkpoint(lambda h: h * constants.pop().exp(), x, determinism_check="values")
    with pytest.raises(reprise.CheckpointError, match="different values: content hash"):
        y.sum().backward()
    reprise.checkpoint(function, x, determinism_check="values").sum().backward()


def test_determinism_check_of_another_name_is_refused():
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        reprise.checkpoint(block, leaf(), determinism_check="strict")


def test_a_recompute_that_saves_fewer_or_more_tensors_is_an_error():
    three, two = (lambda h: h.sin().exp().sin()), (lambda h: h.sin().exp())
    with pytest.raises(reprise.CheckpointError, match="A different number of tensors was saved"):
        reprise.checkpoint(changing(three, two), leaf()).sum().backward()
    with pytest.raises(reprise.CheckpointError, match="trying to save more tensors during recomputation"):
        reprise.checkpoint(changing(two, three), leaf(), early_stop=False).sum().backward()


def test_messages_are_in_pythons_words():
    with pytest.raises(reprise.CheckpointError) as caught:
        reprise.checkpoint(changing(lambda h: h.sin().exp(), lambda h: h.sin()), leaf()).sum().backward()
    assert "reprise.is_recomputing()" in str(caught.value)
    for cpp in ["::", "C++", "LibTorch", " = true", " = false"]:
        assert cpp not in str(caught.value)


DEBUG = r"You are seeing this error because you passed `debug=True` to checkpoint"


def test_debug_lists_the_operators_of_both_runs():
    def region(**options):
        function = changing(lambda h: h.sin().exp(), lambda h: h.sin() * torch.ones(3, 2, 3))
        return reprise.checkpoint(function, torch.randn(3, requires_grad=True), **options).sum()

    with pytest.raises(reprise.CheckpointError, match=DEBUG) as caught:
        region(debug=True).backward()
    assert "sin" in str(caught.value) and "exp" in str(caught.value)
    with reprise.set_checkpoint_debug_enabled(True), pytest.raises(reprise.CheckpointError, match=DEBUG):
        region().backward()
    with reprise.set_checkpoint_debug_enabled(False), pytest.raises(reprise.CheckpointError) as caught:
        region(debug=True).backward()
    assert "debug=True" not in str(caught.value)


@pytest.mark.skipif(torch.__version__.startswith("2.11."), reason="pytest cannot format what it logs of an operator")
def test_debug_changes_no_gradient():
    x = leaf()
    assert torch.equal(gradient(lambda h: reprise.checkpoint(block, h, debug=True), x), gradient(block, x))


def test_debug_with_contexts_or_a_policy_is_refused():
    with pytest.raises(ValueError, match="debug=True is incompatible with non-default context_fn"):
        reprise.checkpoint(block, leaf(), debug=True, context_fn=lambda: theirs.noop_context_fn())
    with pytest.raises(ValueError, match="debug=True is incompatible with a policy"):
        reprise.checkpoint(block, leaf(), debug=True, policy=reprise.policies.full())


@pytest.mark.parametrize(
    "options", [{"context_fn": lambda: None}, {"debug": True}, {"respect_saved_tensors_hooks": False}]
)
def test_reentrant_regions_refuse_what_torch_refuses(options):
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        reprise.checkpoint(block, leaf(), use_reentrant=True, **options)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        reprise.checkpoint(block, leaf(), use_reentrant=True, scale=1)


@pytest.mark.parametrize(
    "options", [{"early_stop": False}, {"determinism_check": "values"}, {"policy": reprise.policies.full()}]
)
def test_reentrant_regions_refuse_options_without_effect(options):
    with pytest.raises(reprise.CheckpointError, match="no effect in a reentrant region"):
        reprise.checkpoint(block, leaf(), use_reentrant=True, **options)


def test_a_reentrant_region_is_for_backward_without_inputs():
    x, counted = leaf(), Counted(block)
    y = reprise.checkpoint(counted, x, use_reentrant=True)
    with pytest.raises(reprise.CheckpointError, match="torch.utils.checkpoint is incompatible with"):
        torch.autograd.grad(y.sum(), x, retain_graph=True)
    y.sum().backward()
    assert counted.runs == 2
    assert torch.equal(x.grad, gradient(block, x))


def test_a_reentrant_region_needs_a_gradient():
    with pytest.raises(reprise.CheckpointError, match="none of the input tensors requires grad"):
        reprise.checkpoint(block, torch.ones(2), use_reentrant=True)


def test_checkpoint_function_is_the_reentrant_variant():
    x, counted = leaf(), Counted(block)
    reprise.CheckpointFunction.apply(counted, True, x).sum().backward()
    assert counted.runs == 2
    assert torch.equal(x.grad, gradient(block, x))


def test_use_reentrant_none_warns_and_is_false():
    x = leaf()
    with pytest.warns(UserWarning, match="use_reentrant=None means False here"):
        y = reprise.checkpoint(block, x, use_reentrant=None)
    torch.autograd.grad(y.sum(), x)  # which a reentrant one refuses


def test_respect_saved_tensors_hooks():
    packed = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t)
    policy = reprise.policies.save_ops(["aten::mm"])
    x = leaf(4, 3)
    with hooks:
        y = reprise.checkpoint(lambda h: (h @ h.t()).exp(), x, policy=policy, respect_saved_tensors_hooks=False)
    y.sum().backward()
    assert (4, 4) not in packed
    with pytest.raises(ValueError, match="respect_saved_tensors_hooks=True has no effect"):
        reprise.checkpoint(block, x, respect_saved_tensors_hooks=True)


def test_the_name_is_in_statistics_and_messages():
    x = leaf()
    reprise.checkpoint(block, x, name="third").sum().backward()
    assert reprise.stats()["regions"]["third"]["recomputed"] == 1
    y = reprise.checkpoint(changing(lambda h: h.exp(), lambda h: h[:2].exp()), x, name="fourth")
    with pytest.raises(reprise.CheckpointError, match="fourth"):
        y.sum().backward()


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Box:
    value: torch.Tensor
    label: str


register_pytree_node(
    Box, lambda box: ([box.value], box.label), lambda values, label: Box(list(values)[0], label)
)


@pytest.mark.parametrize(
    "wrap, read",
    [
        (lambda t: [t, 2], lambda v: v[0] * v[1]),
        (lambda t: (t, None), lambda v: v[0]),
        (lambda t: {"a": {"b": [t]}}, lambda v: v["a"]["b"][0]),
        (lambda t: Point(t, 3), lambda v: v.x * v.y),
        (lambda t: Box(t, "label"), lambda v: v.value if v.label == "label" else None),
        (lambda t: collections.OrderedDict(t=t), lambda v: v["t"]),
    ],
    ids=["list", "tuple", "nested dictionary", "named tuple", "registered class", "ordered dictionary"],
)
def test_tensors_in_pytrees_go_in_and_out(wrap, read):
    def function(value):
        return wrap(read(value).exp().sin())

    x = leaf()
    through = gradient(lambda h: read(reprise.checkpoint(function, wrap(h * 1))), x)
    assert torch.equal(through, gradient(lambda h: read(function(wrap(h * 1))), x))
    assert reprise.stats()["recomputed"] == 1


def test_a_list_that_the_function_changes_is_changed_once():
    def function(values):
        values.append(len(values))
        return values[0].exp().sin()

    values = [leaf()]
    reprise.checkpoint(function, values).sum().backward()
    assert len(values) == 2


def test_partials_bound_methods_and_modules():
    layer, x = nn.Linear(3, 3), leaf()
    for function in [layer, layer.forward, functools.partial(torch.nn.functional.linear, weight=layer.weight)]:
        y = reprise.checkpoint(function, x)
        grads = torch.autograd.grad(y.exp().sum(), [x, layer.weight])
        expected = torch.autograd.grad(function(x).exp().sum(), [x, layer.weight])
        assert all(map(torch.equal, grads, expected))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, x * x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        x, square = ctx.saved_tensors
        return 3 * square * grad + 0 * x


def test_autograd_functions():
    x = leaf()
    assert torch.equal(
        gradient(lambda h: reprise.checkpoint(lambda t: Cube.apply(t.sin()).exp(), h), x),
        gradient(lambda h: Cube.apply(h.sin()).exp(), x),
    )


def test_module_hooks_run_in_both_runs_and_gradients_are_the_same():
    def run(region):
        torch.manual_seed(0)
        layer, seen = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), []
        layer[0].register_forward_pre_hook(lambda module, args: seen.append("pre"))
        layer[0].register_forward_hook(lambda module, args, out: seen.append("post") or out * 2)
        layer[0].register_full_backward_hook(lambda module, grads, outs: seen.append("backward"))
        x = leaf()
        region(layer, x).sum().backward()
        return x.grad, layer[0].weight.grad, seen

    plain, ours = run(lambda layer, x: layer(x)), run(reprise.checkpoint)
    assert torch.equal(plain[0], ours[0]) and torch.equal(plain[1], ours[1])
    assert plain[2] == ["pre", "post", "backward"]
    assert ours[2] == ["pre", "post", "pre", "post", "backward"]


def test_hooks_that_are_always_called_are_called_where_a_recompute_stops():
    open_runs = []
    layer = nn.Linear(3, 3)
    layer.register_forward_pre_hook(lambda module, args: open_runs.append(module))
    layer.register_forward_hook(lambda module, args, out: open_runs.pop() and None, always_call=True)
    reprise.checkpoint(layer, leaf()).sum().backward()
    assert reprise.stats()["early_stopped"] == 1
    assert open_runs == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_that_of_forward(dtype):
    def step(region):
        def run(module):
            with torch.autocast("cpu", dtype=dtype):
                y = region(module, leaf(4, 8))
            assert y.dtype is dtype
            return y.float().sum()

        return run

    def make():
        return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))

    plain = state_after(make, step(lambda module, x: module(x)))
    assert_same_bits(state_after(make, step(reprise.checkpoint)), plain)


def test_the_default_device_is_that_of_forward():
    made = []

    def function(h):
        made.append(torch.ones(2).device.type)
        return h.exp().sin()

    x = leaf()
    with torch.device("meta"):
        y = reprise.checkpoint(function, x, early_stop=False)
    y.sum().backward()
    with torch.device("meta"):
        reprise.checkpoint(function, leaf(), early_stop=False).sum().backward()
    z = reprise.checkpoint(function, x, early_stop=False)
    with torch.device("meta"):
        z.backward(torch.ones(4, 3, device="cpu"))
        assert torch.ones(1).device.type == "meta"
    assert made == ["meta", "meta", "meta", "meta", "cpu", "cpu"]


def test_backward_on_another_thread():
    x = leaf()
    y = reprise.checkpoint(block, x)
    thread = threading.Thread(target=lambda: y.sum().backward())
    thread.start()
    thread.join()
    assert torch.equal(x.grad, gradient(block, x))


def test_without_gradients_it_is_a_plain_call():
    with torch.no_grad():
        assert not reprise.checkpoint(block, leaf()).requires_grad
    assert reprise.stats()["entered"] == 0


@pytest.mark.parametrize("segments", [1, 2, 3])
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_sequential_recomputes_all_segments_but_the_last(segments, use_reentrant):
    layers = [Counted(nn.Linear(3, 3)) for _ in range(6)]
    x = leaf()
    reprise.checkpoint_sequential(layers, segments, x, use_reentrant).sum().backward()
    ours, x.grad = x.grad, None
    kept = 6 - 6 // segments * (segments - 1)
    assert [layer.runs for layer in layers] == [2] * (6 - kept) + [1] * kept
    functools.reduce(lambda h, layer: layer(h), layers, x).sum().backward()
    assert torch.equal(x.grad, ours)


def test_sequential_of_modules_takes_the_options_of_a_region():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    reprise.checkpoint_sequential(model, 3, leaf(), name="part").sum().backward()
    assert reprise.stats()["regions"]["part"]["entered"] == 2
    with pytest.raises(ValueError, match="cannot divide 3 functions into 4 segments"):
        reprise.checkpoint_sequential(model, 4, leaf())


def test_a_compiled_function_in_a_region():
    @torch.compile(backend="aot_eager")
    def function(h):
        return (h.sin() * h.cos()).exp()

    x = leaf()
    y = reprise.checkpoint(function, x)
    z = function(torch.randn(7, 3, requires_grad=True))  # compiled again, for any size
    (y.sum() + z.sum()).backward()
    assert torch.equal(x.grad, gradient(lambda h: (h.sin() * h.cos()).exp(), x))
    assert reprise.stats()["recomputed"] == 1
    torch._dynamo.reset()


def test_a_group_of_backward_calls_recomputes_once():
    def runs(group):
        counted = Counted(lambda h: (h.sin().cos(), h.sin().cos().sin().cos()))
        x = leaf()
        y, z = reprise.checkpoint(counted, x)
        with group:
            torch.autograd.grad(z.sum(), x, retain_graph=True)
            torch.autograd.grad(y.sum(), x)
        return counted.runs

    assert runs(reprise.GraphExecGroup()) == 2
    assert runs(torch.enable_grad()) == 3


def test_a_region_in_a_compiled_function_ends_the_compiled_part():
    @torch.compile(backend="eager")
    def function(h):
        return reprise.checkpoint(block, h.sin()) * 2

    x = leaf()
    assert torch.equal(gradient(function, x), gradient(lambda h: block(h.sin()) * 2, x))
    assert reprise.stats()["recomputed"] == 1
    torch._dynamo.reset()


@pytest.mark.skipif(not hasattr(torch.autograd.graph, "node_creation_hook"), reason="PyTorch has them since 2.15")
def test_hooks_on_new_nodes_see_those_of_recomputes():
    nodes = []
    with torch.autograd.graph.node_creation_hook(lambda node: nodes.append(node.name())):
        reprise.checkpoint(block, leaf()).sum().backward()
    assert nodes.count("SinBackward0") == 2
