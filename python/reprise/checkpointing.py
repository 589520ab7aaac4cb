"""``reprise.checkpoint`` and what goes with it in ``torch.utils.checkpoint``."""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any, Callable

import torch
from torch.utils.checkpoint import GraphExecGroup, noop_context_fn

from reprise import _C
from reprise._compiling import hide_compilations
from reprise.policies import policy_of

__all__ = [
    "CheckpointFunction",
    "GraphExecGroup",
    "checkpoint",
    "checkpoint_sequential",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]

_CHECKS = {
    "default": _C.DeterminismCheck.METADATA,
    "none": _C.DeterminismCheck.NONE,
    "values": _C.DeterminismCheck.VALUES,
}
_debug_enabled: bool | None = None


@functools.lru_cache(maxsize=256)
def _options(use_reentrant, preserve_rng_state, early_stop, check, policy, allow_lossy, offload_inputs, name):
    return _C.Options(
        use_reentrant=use_reentrant,
        preserve_rng_state=preserve_rng_state,
        early_stop=early_stop,
        determinism_check=_CHECKS[check],
        policy=policy,
        allow_lossy=allow_lossy,
        offload_inputs=offload_inputs,
        name=name,
    )


@torch._disable_dynamo
def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool | None = False,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    respect_saved_tensors_hooks: bool | None = None,
    policy: _C.Policy | None = None,
    allow_lossy: bool = False,
    offload_inputs: bool = False,
    name: str = "",
    **kwargs: Any,
) -> Any:
    """Runs ``function(*args, **kwargs)`` without keeping what its backward needs; backward runs it again.

    Without a function it returns a decorator. The first arguments are those of ``torch.utils.checkpoint.checkpoint``.

    Args:
        use_reentrant: the older variant, with its limits, each of which is an error here.
        preserve_rng_state: random operators give the same numbers in the recompute.
        context_fn: makes two context managers, for forward and for recomputes; or
            ``create_selective_checkpoint_contexts``.
        determinism_check: ``"default"`` compares shapes, dtypes and devices, and on the CPU samples of values;
            ``"values"`` compares all values (slow); ``"none"`` only counts.
        debug: errors list the operators of forward and recompute.
        early_stop: end a recompute as soon as it has what is needed.
        respect_saved_tensors_hooks: False says that hooks around the region do not see what a policy keeps, as they do
            not by default. True is refused.
        policy: what to keep: see ``reprise.policies``.
        allow_lossy: a policy may compress floating-point results; gradients then change.
        offload_inputs: activations among the arguments wait in host memory.
        name: the region in messages and ``reprise.stats()``.
    """
    options = (use_reentrant, preserve_rng_state, context_fn, determinism_check, debug, early_stop)
    options += (respect_saved_tensors_hooks, policy, allow_lossy, offload_inputs, name)
    if function is None and not args:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        return functools.partial(_Checkpointed, options)
    return _run(function, args, kwargs, *options)


class _Checkpointed:
    """A function, or a method, that ``checkpoint`` decorates. Its keyword arguments may be named like options."""

    def __init__(self, options: tuple, function: Callable[..., Any]):
        self._options = options
        self._function = function
        functools.update_wrapper(self, function, updated=())

    @torch._disable_dynamo
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _run(self._function, args, kwargs, *self._options)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        bind = getattr(self._function, "__get__", None)
        return self if bind is None else _Checkpointed(self._options, bind(instance, owner))


def _run(
    function,
    args,
    kwargs,
    use_reentrant,
    preserve_rng_state,
    context_fn,
    determinism_check,
    debug,
    early_stop,
    respect_saved_tensors_hooks,
    policy,
    allow_lossy,
    offload_inputs,
    name,
):
    if use_reentrant is None:
        warnings.warn(
            "reprise.checkpoint: use_reentrant=None means False here; in torch.utils.checkpoint it still means True. "
            "Pass use_reentrant=False.",
            stacklevel=5,  # that of the caller, through what keeps the compiler out
        )
        use_reentrant = False
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False or respect_saved_tensors_hooks is not None:
            raise ValueError(
                "Passing `context_fn`, `debug`, or `respect_saved_tensors_hooks` is only supported when "
                "use_reentrant=False."
            )
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
    if respect_saved_tensors_hooks:
        raise ValueError(
            "respect_saved_tensors_hooks=True has no effect: results that a policy keeps stay where it says "
            "(Decision.OFFLOAD moves them to the host), and hooks do not see them."
        )

    if _debug_enabled is not None and not use_reentrant:
        debug = _debug_enabled
    contexts, on_error = None, None
    if context_fn is not noop_context_fn:
        if debug:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        contexts = forward_context, _ = context_fn()
        selected = policy_of(forward_context)
        if selected is not None:
            if policy is not None:
                raise ValueError("context_fn selects what is kept, and so does policy. Leave one of the two out.")
            policy, contexts = selected, None
    if debug:
        if policy is not None:
            raise ValueError("debug=True is incompatible with a policy: its recompute calls fewer operators")
        contexts, on_error = _debugging()
    options = _options(
        use_reentrant, preserve_rng_state, early_stop, determinism_check, policy, allow_lossy, offload_inputs, name
    )
    hide_compilations()
    return _C.checkpoint(options, function, args, kwargs, contexts, on_error)


def _debugging() -> tuple[tuple, Callable[[Exception], None]]:
    """Contexts that log the operators of forward and recompute, and what adds both logs to an error."""
    make_contexts, add_logs = torch.utils.checkpoint._get_debug_context_and_cb()

    def on_error(error: Exception) -> None:
        try:
            add_logs(error)
        except torch.utils.checkpoint.CheckpointError as logged:
            raise _C.CheckpointError(str(logged)) from error

    return make_contexts(), on_error


class CheckpointFunction:
    """The reentrant variant under the name that it has in ``torch.utils.checkpoint``."""

    @staticmethod
    def apply(run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        return checkpoint(run_function, *args, use_reentrant=True, preserve_rng_state=preserve_rng_state)


def checkpoint_sequential(functions, segments: int, input: Any, use_reentrant: bool | None = False, **options: Any):
    """Runs ``functions`` one after the other on ``input``, in ``segments`` regions. The last is not checkpointed,
    as in PyTorch: its backward comes first. ``options`` are those of ``checkpoint``."""

    def run_function(start, end):
        def forward(value):
            for function in functions[start : end + 1]:
                value = function(value)
            return value

        return forward

    if isinstance(functions, torch.nn.Sequential):
        functions = list(functions.children())
    if not 0 < segments <= len(functions):
        raise ValueError(f"cannot divide {len(functions)} functions into {segments} segments")
    size = len(functions) // segments
    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(run_function(start, end), input, use_reentrant=use_reentrant, **options)
    return run_function(end + 1, len(functions) - 1)(input)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool):
    """In its scope, decides whether regions that begin stop their recompute early, whatever they ask for."""
    with _C.EarlyStopScope(enable):
        yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None):
    """In its scope, overrides the ``debug`` of every ``checkpoint``. None: no override."""
    global _debug_enabled
    previous, _debug_enabled = _debug_enabled, enabled
    try:
        yield
    finally:
        _debug_enabled = previous
