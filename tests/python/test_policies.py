"""Policies: what they keep, how often operators run, and that every gradient is that of plain training."""

import functools

import pytest
import torch
import torch.utils.checkpoint as theirs
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy

import reprise
from gradients import assert_same_bits, state_after
from reprise import policies
from reprise.policies import Decision

aten = torch.ops.aten


class Attention(nn.Module):
    """Products, fused attention, dropout, a norm that writes buffers."""

    def __init__(self, size=16):
        super().__init__()
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.norm = nn.BatchNorm1d(size)

    def forward(self, h):
        with reprise.NamedRange("mixing"):
            q, k, v = self.qkv(h).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
            with reprise.NamedRange("scores"):
                mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            h = h + self.out(mixed.transpose(1, 2).flatten(2))
        h = nn.functional.dropout(h.relu_(), 0.25)
        return self.norm(h.flatten(0, 1)).view_as(h)


def step(region):
    def run(module):
        x = torch.randn(2, 8, 16, requires_grad=True)
        return region(module, x * 1).square().sum()

    return run


def everything(op, args, kwargs, range_name):
    return CheckpointPolicy.PREFER_SAVE


POLICIES = {
    "full": policies.full(),
    "attention": policies.save_attention(),
    "matmuls": policies.save_matmuls(),
    "every second matmul": policies.save_matmuls(2),
    "operators": policies.save_ops([aten.addmm.default, "aten::native_batch_norm"]),
    "a packet of overloads": policies.save_ops([aten.add]),
    "a range": policies.save_named(["mixing"]),
    "a range in a range": policies.save_named(["mixing/scores"]),
    "a function": policies.from_function(lambda op, args, kwargs, name: op is aten.addmm.default),
    "everything": policies.from_function(everything),
    "by name": policies.named("matmuls:2"),
}


@pytest.mark.parametrize("name", POLICIES)
def test_gradients_and_buffers_are_those_of_plain_training(name):
    plain = state_after(Attention, step(lambda module, x: module(x)))
    ours = state_after(Attention, step(functools.partial(reprise.checkpoint, policy=POLICIES[name])))
    assert_same_bits(ours, plain)
    assert (reprise.stats()["ops_replayed"] == 0) == (name == "full")


def replayed(policy, function, *args):
    reprise.reset_stats()
    y = reprise.checkpoint(function, *args, policy=policy, early_stop=False)
    y.sum().backward()
    return reprise.stats()["ops_replayed"]


def square(*shape):
    torch.manual_seed(2)
    return torch.randn(*(shape or (4, 4)), requires_grad=True)


def test_how_many_operators_each_policy_keeps():
    def function(h):
        with reprise.NamedRange("first"):
            h = (h @ h).sin()
        return ((h @ h) @ h).exp()

    for policy, expected in [
        (policies.full(), 0),
        (policies.save_matmuls(), 3),
        (policies.save_matmuls(2), 2),
        (policies.save_ops([aten.exp.default]), 1),
        (policies.save_named(["first"]), 2),
        (policies.from_function(everything), 5),
        (policies.named("full"), 0),
    ]:
        assert replayed(policy, function, square()) == expected, policy


def test_fused_attention_is_kept_and_its_absence_an_error():
    q = square(1, 2, 8, 4)
    assert replayed(policies.save_attention(), nn.functional.scaled_dot_product_attention, q, q, q) == 1
    with pytest.raises(reprise.CheckpointError, match="attention"):
        reprise.checkpoint(torch.exp, square(), policy=policies.save_attention())


@pytest.mark.parametrize(
    "policy, message",
    [
        (lambda: policies.save_ops(["aten::addmmm"]), 'Did you mean "aten::addmm"'),
        (lambda: policies.save_ops([torch.ops.aten.linear.default]), "reprise.policies.save_matmuls"),
        (lambda: policies.save_ops([]), "at least one operator name"),
        (lambda: policies.save_named([]), "at least one name"),
        (lambda: policies.save_ops([aten.add_.Tensor]), "writes"),
    ],
)
def test_policies_that_could_keep_nothing_are_refused_when_made(policy, message):
    with pytest.raises(RuntimeError, match=message):
        policy()


def test_names_of_policies():
    assert str(policies.named("matmuls:3")) == str(policies.save_matmuls(3))
    for name in ["matmul", "attention:2", "full:1", ""]:
        with pytest.raises(ValueError, match="unknown policy"):
            policies.named(name)
    with pytest.raises(TypeError, match="expected an operator"):
        policies.save_ops([torch.mm])


def test_a_policy_that_matches_nothing_is_an_error():
    for policy in [policies.save_ops([aten.mm.default]), policies.save_named(["nowhere"]), policies.save_matmuls()]:
        with pytest.raises(reprise.CheckpointError):
            reprise.checkpoint(torch.exp, square(), policy=policy)


def test_a_function_sees_operators_arguments_and_ranges():
    seen = []

    def decide(op, args, kwargs, range_name):
        seen.append((op, len(args), kwargs, range_name))
        return Decision.RECOMPUTE

    def function(h):
        with reprise.NamedRange("inner"):
            return torch.sum(h.exp(), dim=1, dtype=torch.float64)

    reprise.checkpoint(function, square(), policy=policies.from_function(decide)).sum().backward()
    assert (aten.exp.default, 1, {}, "inner") in seen
    assert any(op is aten.sum.dim_IntList and kwargs == {"dtype": torch.float64} for op, _, kwargs, _ in seen)


@pytest.mark.parametrize(
    "answer, kept",
    [
        (Decision.KEEP, True),
        (Decision.RECOMPUTE, False),
        (True, True),
        (False, False),
        (CheckpointPolicy.MUST_SAVE, True),
        (CheckpointPolicy.PREFER_SAVE, True),
        (CheckpointPolicy.MUST_RECOMPUTE, False),
        (CheckpointPolicy.PREFER_RECOMPUTE, False),
    ],
)
def test_answers_of_a_function(answer, kept):
    policy = policies.from_function(lambda op, *rest: answer if op is aten.exp.default else False)
    assert replayed(policy, lambda h: h.exp().sin(), square()) == kept


def test_an_answer_of_another_kind_is_an_error():
    policy = policies.from_function(lambda *call: "keep")
    with pytest.raises(TypeError, match="a policy answers with a CheckpointPolicy, a Decision or a bool, got 'keep'"):
        reprise.checkpoint(torch.exp, square(), policy=policy)


def test_an_exception_of_the_function_comes_out():
    def decide(*call):
        raise KeyError("of the policy")

    with pytest.raises(KeyError, match="of the policy"):
        reprise.checkpoint(torch.exp, square(), policy=policies.from_function(decide))


def test_offload_is_refused_where_it_frees_nothing():
    policy = policies.from_function(lambda *call: Decision.OFFLOAD)
    with pytest.raises(reprise.CheckpointError, match="in host memory already"):
        reprise.checkpoint(torch.exp, square(), policy=policy)


def test_lossy_compression_needs_permission_and_has_to_happen():
    policy = policies.from_function(lambda op, *rest: Decision.COMPRESS if op is aten.tanh.default else False)
    with pytest.raises(reprise.CheckpointError, match="allow_lossy"):
        reprise.checkpoint(lambda h: h.tanh().sin(), square(256, 256), policy=policy)
    with pytest.raises(reprise.CheckpointError, match="allow_lossy"):
        reprise.checkpoint(lambda h: h.sin(), square(), allow_lossy=True)

    x = square(256, 256)
    y = reprise.checkpoint(lambda h: h.tanh().sin(), x, policy=policy, allow_lossy=True, determinism_check="none")
    lossy = torch.autograd.grad(y.sum(), x)[0]
    exact = torch.autograd.grad(x.tanh().sin().sum(), x)[0]
    assert not torch.equal(lossy, exact)
    torch.testing.assert_close(lossy, exact, atol=0.05, rtol=0)


def test_a_kept_result_may_be_changed_in_its_region_and_not_after():
    def function(h):
        product = h @ h
        return product.add_(1).sin(), product

    x, policy = square(), policies.save_matmuls()
    y, _ = reprise.checkpoint(function, x, policy=policy)
    grad = torch.autograd.grad(y.sum(), x)[0]
    assert torch.equal(grad, torch.autograd.grad(function(x)[0].sum(), x)[0])

    y, product = reprise.checkpoint(lambda h: ((p := h @ h).exp().sum(), p.detach()), x, policy=policy)
    product.add_(1)
    with pytest.raises(reprise.CheckpointError, match="was changed in place after it was kept"):
        y.backward()


CREATE = [reprise.create_selective_checkpoint_contexts, theirs.create_selective_checkpoint_contexts]


def selective(policy_fn_or_list, function, x, create=reprise.create_selective_checkpoint_contexts, **options):
    context_fn = functools.partial(create, policy_fn_or_list, **options)
    return reprise.checkpoint(function, x, use_reentrant=False, context_fn=context_fn)


@pytest.mark.parametrize("create", CREATE)
@pytest.mark.parametrize(
    "policy",
    [
        [aten.mm.default],
        lambda ctx, op, *args, **kwargs: op is aten.mm.default,
        lambda ctx, op, *args, **kwargs: (
            CheckpointPolicy.MUST_SAVE if op is aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE
        ),
    ],
    ids=["list", "bools", "policies"],
)
def test_selective_contexts_of_ours_and_of_torch(policy, create):
    x = square()
    y = selective(policy, lambda h: (h @ h).exp().sin(), x, create)
    grad = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
    assert reprise.stats()["ops_replayed"] == 1
    assert torch.equal(grad, torch.autograd.grad((x @ x).exp().sin().sum(), x)[0])
    assert torch.equal(grad, torch.autograd.grad(y.sum(), x)[0])  # and any number of times


def test_a_selective_policy_is_asked_in_forward_alone_with_the_result():
    results = []

    def policy_fn(ctx, op, *args, **kwargs):
        assert not ctx.is_recompute
        results.append((op, ctx.op_output))
        return CheckpointPolicy.PREFER_RECOMPUTE

    x = square()
    y = selective(policy_fn, lambda h: torch.var_mean(h.exp(), dim=0)[0].sin(), x)
    y.sum().backward()
    operators = [op for op, _ in results]
    assert operators == [aten.exp.default, aten.var_mean.correction, aten.sin.default]
    assert torch.equal(results[0][1], x.exp())
    assert isinstance(results[1][1], tuple) and len(results[1][1]) == 2


def test_allow_cache_entry_mutation_changes_no_gradient():
    def function(h):
        return (h @ h).add_(1).sin()

    x = square()
    for allowed in [False, True]:
        y = selective([aten.mm.default], function, x, allow_cache_entry_mutation=allowed)
        grad = torch.autograd.grad(y.sum(), x)[0]
        assert torch.equal(grad, torch.autograd.grad(function(x).sum(), x)[0])


def test_bad_lists_are_refused_in_torchs_words():
    for policy, kind, message in [
        ([1], ValueError, "Expected op in `op_list` to be an OpOverload but got: 1"),
        ([aten.mm], ValueError, "update the OpOverloadPacket to a specific OpOverload"),
        ("mm", TypeError, "policy_fn_or_list must be either a function or a list of ops."),
    ]:
        for create in CREATE:
            with pytest.raises(kind, match=message):
                create(policy)


def test_a_selective_context_and_a_policy_are_one_too_many():
    with pytest.raises(ValueError, match="context_fn selects what is kept, and so does policy"):
        reprise.checkpoint(
            torch.exp,
            square(),
            policy=policies.full(),
            context_fn=lambda: reprise.create_selective_checkpoint_contexts([aten.exp.default]),
        )


def test_in_nested_regions_the_innermost_policy_decides():
    def inner(h):
        return reprise.checkpoint(lambda t: (t @ t).exp(), h, policy=policies.save_ops([aten.exp.default]))

    x = square()
    y = reprise.checkpoint(lambda h: inner(h @ h).sin(), x, policy=policies.save_matmuls())
    grad = torch.autograd.grad(y.sum(), x)[0]
    product = x @ x
    expected = torch.autograd.grad((product @ product).exp().sin().sum(), x)[0]
    assert torch.equal(grad, expected)


def test_an_effectful_operator_runs_once_under_every_policy():
    calls = []
    with torch.library._scoped_library("reprise_tests", "DEF") as library:
        library.define("ticket(Tensor x) -> Tensor")

        def ticket(x):
            calls.append(1)
            return x.detach().clone() + len(calls)

        library.impl("ticket", ticket, "CPU")
        library.impl("ticket", torch.library.fallthrough_kernel, "AutogradCPU")
        reprise.register_effectful_op("reprise_tests::ticket")
        for policy in [None, policies.full(), policies.from_function(everything)]:
            calls.clear()
            x = square()
            y = reprise.checkpoint(
                lambda h: (h * torch.ops.reprise_tests.ticket(h)).sin().exp(), x, policy=policy, early_stop=False
            )
            y.sum().backward()
            assert len(calls) == 1
