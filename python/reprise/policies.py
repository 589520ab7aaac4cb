"""Which results a region keeps instead of recomputing them.

    reprise.checkpoint(block, x, policy=reprise.policies.save_attention())

A policy is asked once per operator call, in forward, below autograd: it sees ``aten.mm`` and ``aten.addmm``, never the
``linear`` that they come from.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable

import torch
from torch.utils.checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    _CachingTorchDispatchMode,
)

from reprise import _C
from reprise._C import Decision, Policy

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "Decision",
    "Policy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
    "from_function",
    "full",
    "named",
    "save_attention",
    "save_matmuls",
    "save_named",
    "save_ops",
]


def full() -> Policy:
    """Recomputes everything, like no policy."""
    return _C.full()


def save_attention() -> Policy:
    """Keeps the results of fused attention of any backend. A region without any is an error."""
    return _C.save_attention()


def save_matmuls(every: int = 1) -> Policy:
    """Keeps every ``every``-th matrix product of a region, starting with the first."""
    return _C.save_matmuls(every)


def save_ops(operators: Iterable[Any]) -> Policy:
    """Keeps the results of these operators: ``torch.ops.aten.mm.default``, ``torch.ops.aten.mm`` or ``"aten::mm"``."""
    return _C.save_ops([_name_of(operator) for operator in operators])


def save_named(names: Iterable[str]) -> Policy:
    """Keeps what is computed in a ``reprise.NamedRange`` of one of these names. ``"a/b"`` is a range b inside a."""
    return _C.save_named(list(names))


def from_function(decide: Callable[..., Any], description: str = "") -> Policy:
    """Asks ``decide(op, args, kwargs, range)`` for each operator call; it answers with a ``Decision``, a
    ``CheckpointPolicy`` or a bool."""

    def asked(op, args, kwargs, range_name, writes_arguments, result):
        return _decision(decide(op, args, kwargs, range_name), writes_arguments, args)

    return _C.from_function(asked, description or getattr(decide, "__name__", "function"), False)


def named(name: str, **options: Any) -> Policy:
    """The policy that a flag or a config file names: full, attention, matmuls, matmuls:N."""
    kind, _, number = name.partition(":")
    if kind == "matmuls":
        return save_matmuls(int(number) if number else 1)
    makers = {"full": full, "attention": save_attention}
    if kind not in makers or number:
        raise ValueError(f"unknown policy {name!r}: expected full, attention, matmuls or matmuls:N")
    return makers[kind](**options)


def _name_of(operator: Any) -> str:
    if isinstance(operator, str):
        return operator
    if isinstance(operator, torch._ops.OpOverload):
        overload = operator._overloadname
        return f"{operator.namespace}::{operator._opname}.{overload}"
    if isinstance(operator, torch._ops.OpOverloadPacket):
        return operator._qualified_op_name
    raise TypeError(f"expected an operator such as torch.ops.aten.mm.default or its name, got {operator!r}")


def _is_on_gpu(args: tuple) -> bool:
    return any(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in args)


def _decision(answer: Any, writes_arguments: bool, args: tuple) -> Decision:
    if isinstance(answer, Decision):
        return answer
    if isinstance(answer, bool):
        answer = CheckpointPolicy.MUST_SAVE if answer else CheckpointPolicy.PREFER_RECOMPUTE
    if not isinstance(answer, CheckpointPolicy):
        raise TypeError(f"a policy answers with a CheckpointPolicy, a Decision or a bool, got {answer!r}")
    prefers = answer.name.startswith("PREFER")
    if answer.name.endswith("SAVE"):
        # What writes its arguments has no result of its own to keep.
        return Decision.RECOMPUTE if prefers and writes_arguments else Decision.KEEP
    if answer.name.endswith("CPU_OFFLOAD"):
        if prefers and (writes_arguments or not _is_on_gpu(args)):
            return Decision.RECOMPUTE
        return Decision.OFFLOAD
    return Decision.RECOMPUTE


class _SelectiveContext:
    """Carries the policy from ``create_selective_checkpoint_contexts`` to ``checkpoint``. It does nothing itself."""

    def __init__(self, policy: Policy):
        self.policy = policy

    def __enter__(self):
        raise RuntimeError(
            "contexts of reprise.create_selective_checkpoint_contexts are for the context_fn of reprise.checkpoint; "
            "torch.utils.checkpoint.checkpoint takes those of its own module"
        )

    def __exit__(self, *exception):
        return None


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation: bool = False):
    """Like ``torch.utils.checkpoint.create_selective_checkpoint_contexts``: takes a function
    ``(ctx, op, *args, **kwargs) -> CheckpointPolicy`` or a list of operators, for ``context_fn``.

    A kept result may be changed in place inside its region, with or without ``allow_cache_entry_mutation``: it is
    copied first, so that gradients are those of what forward computed. Changed afterwards, it is an error.
    """
    if isinstance(policy_fn_or_list, list):
        operators = policy_fn_or_list
        for op in operators:
            if not isinstance(op, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
                hint = (
                    "Please update the OpOverloadPacket to a specific OpOverload. "
                    "For example, if you have `torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                    if isinstance(op, torch._ops.OpOverloadPacket)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. {hint}"
                )
        policy = _listed(tuple(operators))
    elif callable(policy_fn_or_list):
        policy = _selective(policy_fn_or_list, getattr(policy_fn_or_list, "__name__", "function"))
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    return _SelectiveContext(policy), _SelectiveContext(policy)


@functools.lru_cache(maxsize=256)
def _listed(operators: tuple) -> Policy:
    """The same policy for the same list: a list is made anew for every region."""
    asked_about = [op for op in operators if isinstance(op, torch._ops.OpOverload) and op not in SAC_IGNORED_OPS]
    overloads = [(op._schema.name, op._schema.overload_name) for op in asked_about]
    return _C.from_list(overloads, "save " + ", ".join(str(op) for op in operators))


def _selective(policy_fn: Callable[..., Any], description: str) -> Policy:
    def asked(op, args, kwargs, range_name, writes_arguments, result):
        if op in SAC_IGNORED_OPS:
            return Decision.RECOMPUTE
        context = SelectiveCheckpointContext(is_recompute=False)
        context.op_output = result  # before 2.13 PyTorch has no argument for it
        return _decision(policy_fn(context, op, *args, **kwargs), writes_arguments, args)

    return _C.from_function(asked, description, True)


def policy_of(context: Any) -> Policy | None:
    """The policy that a context carries: one of ours, or of torch.utils.checkpoint's function of the same name."""
    if isinstance(context, _SelectiveContext):
        return context.policy
    if type(context) is _CachingTorchDispatchMode:
        return _selective(context.policy_fn, getattr(context.policy_fn, "__name__", "function"))
    return None
