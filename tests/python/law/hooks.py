"""Hooks on tensors, nodes and modules."""

import torch

from law import grads, leaf, program


def negated(grad):
    return -grad


@program
def on_the_input(region):
    x = leaf(4, 8)

    def block(h):
        h.register_hook(negated)
        return h.sin().exp()

    return grads(region(block, x.cos()).sum(), x)


@program
def on_a_leaf(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        w.register_hook(negated)
        h.register_hook(lambda grad: grad * 2)
        return (h @ w).tanh()

    return grads(region(block, x).sum(), x, w)


@program
def on_what_is_made_inside(region):
    x, seen = leaf(4, 8), []

    def block(h):
        h = h.sin()
        h.register_hook(lambda grad: seen.append(grad.clone()))
        return h.exp()

    return [*grads(region(block, x).sum(), x), *seen]


@program
def after_accumulation(region):
    x, w, norms = leaf(4, 8), leaf(8, 8), []

    def block(h):
        w.register_post_accumulate_grad_hook(lambda p: norms.append(p.grad.norm()))
        return (h @ w).tanh()

    return [*grads(region(block, x).sum(), x, w), *norms]


@program
def on_nodes(region):
    x, seen = leaf(4, 8), []

    def block(h):
        h = h.sin()
        h.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
        h.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs[0]))
        return h.exp()

    return [*grads(region(block, x).sum(), x), *seen]


@program
def on_the_node_of_the_input(region):
    x = leaf(4, 8)

    def block(h):
        h.grad_fn.register_prehook(lambda grads: (grads[0] * 3,))
        return h.sin().exp()

    return grads(region(block, x.cos()).sum(), x)


@program
def of_several_tensors(region):
    x, w, seen = leaf(4, 8), leaf(8, 8), []

    def block(h):
        torch.autograd.graph.register_multi_grad_hook((w, h), lambda grads: seen.extend(g.norm() for g in grads))
        return (h @ w).tanh()

    return [*grads(region(block, x.sin()).sum(), x, w), *seen]


@program
def of_modules(region):
    layer, x, seen = torch.nn.Linear(8, 8), leaf(4, 8), []
    layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    layer.register_forward_hook(lambda module, args, out: out.tanh())
    layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0.5,))
    layer.register_full_backward_pre_hook(lambda module, outputs: seen.append(outputs[0].clone()))
    return [*grads(region(lambda h: layer(h.sin()).exp(), x).sum(), x, *layer.parameters()), *seen]


@program
def of_a_checkpointed_module(region):
    layer, x = torch.nn.Linear(8, 8), leaf(4, 8)
    layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0.5,))
    return grads(region(layer, x.sin()).exp().sum(), x, *layer.parameters())


@program
def retained_inside(region):
    x, kept = leaf(4, 8), []

    def block(h):
        h = h.sin()
        h.retain_grad()
        kept.append(h)
        return h.exp()

    result = grads(region(block, x).sum(), x)
    return [*result, kept[0].grad]


@program
def retained_input(region):
    x = leaf(4, 8)
    h = x.cos()

    def block(h):
        h.retain_grad()
        return h.sin().exp()

    return [*grads(region(block, h).sum(), x), h.grad]


@program
def changes_the_gradient_in_place(region):
    x = leaf(4, 8)

    def block(h):
        h = h.sin()
        h.register_hook(lambda grad: grad.clone().mul_(2))
        return h.exp()

    y = region(block, x)
    y.register_hook(negated)
    return grads(y.sum(), x)


@program
def a_handle_removed_inside(region):
    x = leaf(4, 8)
    handles = []

    def block(h):
        handles.append(h.register_hook(negated))
        handles.pop().remove()
        return h.sin().exp()

    return grads(region(block, x.cos()).sum(), x)


@program
def on_a_leaf_that_is_not_read(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        w.register_hook(negated)
        return h.sin().exp()

    return grads(region(block, x).sum() + w.sin().sum(), x, w)


@program
def a_handle_removed_between_steps(region):
    x, w, handles = leaf(4, 8), leaf(8, 8), {}

    def block(h):
        handles["last"] = w.register_hook(negated)
        return (h @ w).tanh()

    for _ in range(3):
        region(block, x).sum().backward()
        handles["last"].remove()
    return [x.grad, w.grad]


@program
def after_a_backward_call_inside(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        (force,) = torch.autograd.grad((h @ w).tanh().sum(), w)
        w.register_hook(negated)
        return (h @ force).exp() + (h @ w).sin()

    return grads(region(block, x).sum(), x, w)


@program
def in_two_regions(region):
    x, w = leaf(4, 8), leaf(8, 8)

    def block(h):
        w.register_hook(lambda grad: grad * 2)
        return (h @ w).tanh()

    return grads(region(block, region(block, x)).sum(), x, w)
