"""What goes into a region and comes out of it."""

import collections
import dataclasses
import functools

import torch
from torch.utils._pytree import tree_map_only
from transformers.modeling_outputs import BaseModelOutputWithPast

from law import grads, leaf, program

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Opaque:
    value: torch.Tensor


@program
def nested_containers(region):
    a, b, c = leaf(4), leaf(4), leaf(4)

    def block(pair, *, more):
        (left, [right]) = pair
        return {"sum": (left.sin() + right.exp(), [more["c"].cos()]), "n": 3}

    out = region(block, (a, [b]), more={"c": c, "text": "x", 1: None})
    return grads(out["sum"][0].sum() + out["sum"][1][0].sum() + out["n"], a, b, c)


@program
def named_tuples_and_outputs(region):
    a, b = leaf(4), leaf(4)

    def block(pair):
        return BaseModelOutputWithPast(last_hidden_state=pair.left.sin(), hidden_states=(pair.right.exp(), pair.left))

    out = region(block, Pair(a.cos(), b))
    return grads(out.last_hidden_state.sum() + out[1][0].sum() + out.hidden_states[1].sum(), a, b)


@program
def containers_that_are_changed(region):
    a, b = leaf(4), leaf(4)

    def block(values, extra):
        values.append(extra.pop("b").exp())
        values[0] = values[0].sin()
        return sum(value.cos().sum() for value in values)

    return grads(region(block, [a], {"b": b}), a, b)


@program
def tensors_in_an_object(region):
    a = leaf(4)
    return grads(region(lambda o, scale: (o.value.sin() * scale).exp(), Opaque(a), 2.0).sum(), a)


@program
def partial(region):
    a, b = leaf(4), leaf(4)
    fn = functools.partial(lambda left, right, power=1: (left.sin() * right).pow(power).exp(), a.cos(), power=2)
    return grads(region(fn, b).sum(), a, b)


@program
def the_same_tensor_twice(region):
    a = leaf(4)
    h = a.sin()
    return grads(region(lambda left, right: left.exp() * right.cos(), h, h).sum(), a)


@program(refused="input tensor #1 .* was changed in place", ways=("to the end", "region in region"))
def an_input_nobody_reads(region):
    a, b = leaf(4), leaf(4)
    residual = b.sin()
    y = region(lambda h, r: h.sin().exp() + r, a.cos(), residual)
    residual.mul_(2)
    return grads(y.sum(), a, b)


@program
def nothing_that_needs_grad(region):
    a = torch.randn(4)
    y = region(lambda h: h.sin().exp(), a)
    return [y, torch.tensor(y.requires_grad)]


@program
def no_result(region):
    a, out = leaf(4), []
    assert region(lambda h: out.append(h.sin().exp()), a) is None
    return grads(out[0].sum(), a)


@program
def a_subclass(region):
    class Marked(torch.Tensor):
        pass

    a = leaf(4)
    marked = a.cos().as_subclass(Marked)
    marked.note = "kept"

    def block(h):
        assert type(h) is Marked and h.note == "kept"
        return h.sin().exp()

    return grads(region(block, marked).as_subclass(torch.Tensor).sum(), a)


@program
def a_branch_on_a_value(region):
    a = leaf(4)

    def block(h):
        for _ in range(int(h.abs().max().item() * 10) % 3 + 1):
            h = h.sin().exp()
        return h if h.sum() > 0 else h.cos()

    return grads(region(block, a).sum(), a)


@program
def an_error_that_is_handled(region):
    a = leaf(4)

    def block(h):
        try:
            h = h.sin() @ torch.ones(3)
        except RuntimeError:
            h = h.sin().exp()
        return h.cos()

    return grads(region(block, a).sum(), a)


class Two(torch.Tensor):
    """Two tensors that look like one: what DTensor and quantized weights are made with."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        def run(part):
            pick = functools.partial(tree_map_only, Two, lambda two: getattr(two, part))
            return op(*pick(args), **pick(kwargs or {}))

        a, b = run("a"), run("b")
        return Two(a, b) if isinstance(a, torch.Tensor) else a


@program
def tensors_made_of_tensors(region):
    x, w = (Two(torch.randn(*shape), torch.randn(*shape)).requires_grad_() for shape in ((4, 8), (8, 8)))
    region(lambda h: (h.sin() @ w).tanh().exp(), x).sum().backward()
    return [x.grad.a, x.grad.b, w.grad.a, w.grad.b]


@program(refused="saved 3 tensors for backward in forward but 0")
def an_iterator(region):
    x = leaf(4, 8)

    def block(h, scales):
        for scale in scales:
            h = (h * scale).sin()
        return h

    return grads(region(block, x, iter([1.0, 2.0, 3.0])).sum(), x)


@program
def a_jagged_tensor(region):
    a, b, w = leaf(3, 8), leaf(5, 8), leaf(8, 8)
    jagged = torch.nested.as_nested_tensor([a.sin(), b.sin()], layout=torch.jagged)
    y = region(lambda n: (n @ w).tanh().exp(), jagged)
    return grads(y.values().sum(), a, b, w)


@program(refused="returned an invalid gradient|not supported between inputs of shapes")
def a_jagged_tensor_that_it_makes(region):
    a, b, w = leaf(3, 8), leaf(5, 8), leaf(8, 8)

    def block(a, b):
        jagged = torch.nested.as_nested_tensor([a, b], layout=torch.jagged)
        return (jagged @ w).tanh().values().sin()

    return grads(region(block, a, b).sum(), a, b, w)
