"""What cannot be done is an error that says so, in PyTorch's style, and never ends the interpreter."""

import pytest
import torch
from torch import nn

import reprise


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def test_cuda_where_there_is_none():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises((AssertionError, RuntimeError), match="CUDA|NVIDIA"):
        reprise.checkpoint(lambda h: h.to("cuda").sin(), leaf(4))
    with pytest.raises((AssertionError, RuntimeError), match="CUDA|NVIDIA"):
        reprise.plan(lambda: leaf(4).sum().backward(), budget="1GiB", device="cuda")
    for read in (reprise.live_bytes, reprise.peak_bytes, reprise.reset_peak_bytes):
        with pytest.raises((AssertionError, RuntimeError), match="cuda"):
            read("cuda")
    x = leaf(4)
    reprise.checkpoint(lambda h: h.sin().exp(), x).sum().backward()
    assert x.grad is not None


def test_device_that_does_not_exist():
    with pytest.raises(RuntimeError, match="nonsense"):
        reprise.live_bytes("nonsense")
    with pytest.raises(RuntimeError, match="meta"):
        reprise.plan(lambda: None, budget="1GiB", device="meta")


def test_reentrant_without_inputs_that_need_grad_is_refused():
    layer = nn.Linear(4, 4)  # its parameters would get no gradients, in silence
    with pytest.raises(reprise.CheckpointError, match="none of the input tensors requires grad"):
        reprise.checkpoint(layer, torch.randn(2, 4), use_reentrant=True)
    with torch.no_grad():
        reprise.checkpoint(layer, torch.randn(2, 4), use_reentrant=True)


@pytest.mark.parametrize(
    "budget", ["", "many", "6 GiBs", "GiB", "-1GiB", "1e3GiB", "0x10", "6GiB 7GiB", "1.5", None, [], 1.5, True, 2**63]
)
def test_budgets_that_are_none(budget):
    with pytest.raises((ValueError, TypeError), match="bytes"):
        reprise.plan(lambda: None, budget=budget)


@pytest.mark.parametrize("budget", [-1, 0])
def test_budgets_out_of_range(budget):
    with pytest.raises(RuntimeError, match="above 0"):
        reprise.plan(chain_step(leaf(64, 64)), budget=budget)


def chain_step(x, region=reprise.checkpoint):
    def step():
        h = x
        for _ in range(4):
            h = region(lambda t: t.sin().exp().cos(), h)
        h.sum().backward()
        x.grad = None

    return step


def test_budget_that_no_plan_meets_names_the_least():
    with pytest.raises(RuntimeError, match="[0-9]"):
        reprise.plan(chain_step(leaf(64, 64)), budget="1KiB")
    plan = reprise.plan(chain_step(leaf(64, 64)), budget="1GiB")
    with pytest.raises(RuntimeError, match="[0-9]"):
        plan.with_budget("1KiB")
    with plan:
        chain_step(leaf(64, 64))()


def test_step_without_regions_cannot_be_planned():
    with pytest.raises(RuntimeError, match="region"):
        reprise.plan(chain_step(leaf(64, 64), region=lambda function, h: function(h)), budget="1KiB")


def test_step_without_backward_cannot_be_planned():
    x = leaf(64, 64)
    with pytest.raises(RuntimeError):
        reprise.plan(lambda: reprise.checkpoint(torch.sin, x), budget="1KiB")


def test_step_that_raises_while_it_is_planned():
    class Mine(Exception):
        pass

    def step():
        reprise.checkpoint(lambda h: h.sin().exp(), leaf(4)).sum().backward()
        raise Mine

    with pytest.raises(Mine):
        reprise.plan(step, budget="1GiB")
    reprise.plan(chain_step(leaf(4, 4)), budget="1GiB")  # nothing is in the way of another


def test_another_step_than_planned_is_an_error():
    plan = reprise.plan(chain_step(leaf(64, 64)), budget="1GiB")
    with pytest.raises(RuntimeError):
        with plan:
            chain_step(leaf(32, 64))()
    with pytest.raises(RuntimeError):
        with plan:
            pass
    with plan:
        chain_step(leaf(64, 64))()


def test_step_that_raises_under_a_plan_keeps_its_error():
    plan = reprise.plan(chain_step(leaf(64, 64)), budget="1GiB")
    with pytest.raises(KeyError):
        with plan:
            raise KeyError
    with plan:
        chain_step(leaf(64, 64))()


@pytest.mark.parametrize(
    "options",
    [
        {"determinism_check": "sometimes"},
        {"policy": "attention"},
        {"policy": 3},
        {"name": 3},
        {"use_reentrant": True, "scale": 2},
        {"use_reentrant": True, "context_fn": lambda: (None, None)},
        {"respect_saved_tensors_hooks": True},
        {"early_stop": "no way", "nonsense": 1},
        {"context_fn": lambda: None},
        {"context_fn": lambda: (1, 2)},
        {"context_fn": 3},
    ],
    ids=str,
)
def test_options_of_nonsense(options):
    with pytest.raises((ValueError, TypeError, RuntimeError, AttributeError)):
        reprise.checkpoint(lambda h: h.sin().exp(), leaf(4), **options).sum().backward()


@pytest.mark.parametrize("function", [None, 3, "sin", leaf(4)], ids=["None", "number", "text", "tensor"])
def test_what_cannot_be_called(function):
    with pytest.raises(TypeError, match="callable"):
        reprise.checkpoint(function, leaf(4))


def test_arguments_that_the_function_does_not_take():
    with pytest.raises(TypeError, match="positional"):
        reprise.checkpoint(lambda: None, leaf(4))
    with pytest.raises(TypeError, match="missing"):
        reprise.checkpoint(lambda a, b: a, leaf(4))


def test_policies_of_nonsense():
    for make in (
        lambda: reprise.policies.save_matmuls(0),
        lambda: reprise.policies.save_matmuls(-1),
        lambda: reprise.policies.save_ops([3]),
        lambda: reprise.policies.named("everything"),
        lambda: reprise.policies.named("matmuls:x"),
        lambda: reprise.create_selective_checkpoint_contexts(3),
        lambda: reprise.create_selective_checkpoint_contexts([torch.ops.aten.mm]),
    ):
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            make()


def test_policy_that_raises_or_answers_with_nonsense():
    def raises(op, args, kwargs, name):
        raise KeyError(op)

    for decide, error in ((raises, KeyError), (lambda *_: "keep", TypeError), (lambda: True, TypeError)):
        with pytest.raises(error):
            reprise.checkpoint(lambda h: h.sin().exp(), leaf(4), policy=reprise.policies.from_function(decide))


def test_policy_without_effect_says_so():
    with pytest.raises(RuntimeError, match="attention"):
        reprise.checkpoint(lambda h: h.sin().exp(), leaf(4), policy=reprise.policies.save_attention())


def test_second_backward_is_pytorchs_error():
    y = reprise.checkpoint(lambda h: h.sin().exp(), leaf(4)).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_argument_that_contains_itself():
    x, cycle = leaf(4), []
    cycle.append(cycle)
    reprise.checkpoint(lambda h, _: h.sin().exp(), x, cycle).sum().backward()
    assert x.grad is not None
