"""Custom autograd functions."""

import torch
from torch.autograd.function import once_differentiable

from law import IS_OLDEST, grads, leaf, program


class Cube(torch.autograd.Function):
    """Saves its input, what it made on the way, and its result."""

    @staticmethod
    def forward(ctx, x):
        square = x * x
        y = square * x
        ctx.save_for_backward(x, square, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, square, y = ctx.saved_tensors
        return grad * (3 * square + 0 * x + 0 * y)


class Clamp(torch.autograd.Function):
    """Changes its input, and keeps a mask beside the saved tensors."""

    @staticmethod
    def forward(ctx, x):
        ctx.mask = x > 0
        x.mul_(ctx.mask)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.mask


class Noise(torch.autograd.Function):
    """Draws, and counts its calls in a buffer."""

    @staticmethod
    def forward(ctx, x, calls):
        noise = torch.randn_like(x)
        calls.add_(1)
        ctx.save_for_backward(noise)
        ctx.mark_non_differentiable(noise)
        return x * noise, noise

    @staticmethod
    def backward(ctx, grad, _):
        (noise,) = ctx.saved_tensors
        return grad * noise, None


class Scale(torch.autograd.Function):
    """In the newer style, with a setup of its own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor):
        return x * factor, x.exp()

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        ctx.factor = inputs[1]
        ctx.save_for_backward(outputs[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad, grad_exp):
        (exp,) = ctx.saved_tensors
        total = None if grad is None else grad * ctx.factor
        if grad_exp is not None:
            total = grad_exp * exp if total is None else total + grad_exp * exp
        return total, None


class Inner(torch.autograd.Function):
    """A backward call in its backward: a checkpoint as one would write it by hand."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x @ w)

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            x, w = (t.detach().requires_grad_() for t in ctx.saved_tensors)
            return torch.autograd.grad(torch.tanh(x @ w), (x, w), grad)


@program
def saves_inputs_and_results(region):
    x = leaf(4, 8)
    return grads(region(lambda h: Cube.apply(h.sin()).cos(), x).sum(), x)


@program
def twice_differentiable(region):
    x = leaf(4, 8)
    (g,) = torch.autograd.grad(region(lambda h: Cube.apply(h.sin()), x).sum(), x, create_graph=True)
    return grads(g.square().sum(), x)


@program
def changes_its_input(region):
    x = leaf(4, 8)
    return grads(region(lambda h: Clamp.apply(h.sin()).exp(), x).sum(), x)


@program
def draws_and_counts(region):
    x, calls = leaf(4, 8), torch.zeros(1)
    y = region(lambda h: Noise.apply(h.sin(), calls)[0].cos(), x)
    return [*grads(y.sum(), x), calls, torch.rand(3)]


@program
def newer_style(region):
    x = leaf(4, 8)

    def block(h):
        scaled, exp = Scale.apply(h.sin(), 3.0)
        return scaled.tanh() + exp

    return grads(region(block, x).sum(), x)


@program
def only_one_result_used(region):
    x = leaf(4, 8)
    return grads(region(lambda h: Scale.apply(h.sin(), 3.0), x)[1].sum(), x)


@program
def backward_in_backward(region):
    x, w = leaf(4, 8), leaf(8, 8)
    return grads(region(lambda h: Inner.apply(h.sin(), w).exp(), x).sum(), x, w)


@program
def region_in_a_custom_function(region):
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = region(lambda h: h.sin().exp(), ctx.x)
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, grad):
            return torch.autograd.grad(ctx.y, ctx.x, grad)[0]

    x = leaf(4, 8)
    return grads(region(lambda h: Outer.apply(h.cos()).sin(), x).sum(), x)


@torch.library.custom_op("law::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


cube.register_autograd(
    lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@program
def a_custom_operator(region):
    x = leaf(4, 8)
    return grads(region(lambda h: torch.ops.law.cube(h.sin()).exp(), x).sum(), x)


# 2.11 does not trace the branches again below another mode.
@program(refused="Mixing fake modes NYI" if IS_OLDEST else None, ways=("kept",))
def an_operator_of_python(region):
    x = leaf(4, 8)

    def block(h):
        return torch.cond(h.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (h,)).exp()

    return grads(region(block, x).sum(), x)


@program
def compiled_with_hooks_and_modes(region):
    net, x, w = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)), leaf(4, 8), leaf(8, 8)

    @torch.compile(backend="eager", fullgraph=True)
    def block(h):
        net.eval()
        h = net(h).sin()
        net.train()
        h.register_hook(lambda grad: grad * 2)
        return (h @ w).exp()

    return [*grads(region(block, x).sum(), x, w), torch.tensor(net.training)]
