"""``reprise.enable(model, budget="6GiB")``: one line that puts regions, and plans for them, under a model.

The program stays as it is: it calls the model, then ``backward()``. A step begins with the model's forward and ends
with the backward call after it. Within a budget, the first step of each batch shape recomputes everything while it is
recorded; then the shape has a plan, which the allocator enforces. Each step is checked: one in which no block ran as a
region is an error.
"""

from __future__ import annotations

import functools
import os
import weakref
from typing import Any, Callable, Iterable

import torch

from reprise import _C, _steps, policies
from reprise._blocks import (
    ForwardRegions,
    LayerRegions,
    Replaced,
    base_of,
    checkpointable_layers,
    compiler,
    named_blocks,
    refuse_compiled,
    refuse_compiler,
)
from reprise._sharding import bytes_in_flight
from reprise._shapes import Shape, ShapePlan, ShapePlans
from reprise.checkpointing import checkpoint
from reprise.planning import Plan, bytes_of

__all__ = ["Enabled", "disable", "enable"]

_MOST_MEASURED = 1000  # peaks that a page shows
_enabled: weakref.WeakKeyDictionary[torch.nn.Module, Enabled] = weakref.WeakKeyDictionary()


def enable(
    model: torch.nn.Module,
    *,
    budget: int | str | None = None,
    policy: str | policies.Policy | Callable[..., Any] | None = None,
    blocks: Iterable[Any] | None = None,
    host_budget: int | str = 0,
    allow_lossy: bool = False,
    counts_gradients: bool = False,
) -> Enabled:
    """Checkpoints the blocks of ``model``: all are recomputed, or what a policy or a budget says is kept.

    Loss and gradients stay the same to the last bit. ``reprise.disable(model)`` undoes it.

    Args:
        model: a model of transformers, also inside peft's, or any module with ``blocks``.
        budget: most activation bytes of a step, ``"6GiB"`` or a number. Every batch shape has its own plan.
        policy: what is kept in every block: ``"attention"``, ``"matmuls:2"``, or one of ``reprise.policies``.
        blocks: which modules are the blocks: classes, names of classes, or names of modules. Needed for models that
            have no checkpointable layers of transformers.
        host_budget, allow_lossy, counts_gradients: as in ``reprise.plan``; they need a budget.
    """
    if budget is not None and policy is not None:
        raise ValueError("a budget decides what is kept, and so does a policy. Leave one of the two out.")
    if budget is None and (host_budget or allow_lossy or counts_gradients):
        raise ValueError("host_budget, allow_lossy and counts_gradients have no effect without a budget.")
    base = base_of(model)
    if base in _enabled:
        raise ValueError(f"this {type(base).__name__} is checkpointed already. Call reprise.disable(model) first.")
    if hasattr(model, "_orig_mod"):
        raise ValueError(
            "this model is compiled as a whole (torch.compile), and regions would end every compiled part. Enable the "
            "model that is not compiled, and compile modules inside its blocks, such as attention and MLP."
        )
    options = None
    if budget is not None:
        options = dict(
            budget=bytes_of(budget),
            host_budget=bytes_of(host_budget),
            allow_lossy=allow_lossy,
            counts_gradients=counts_gradients,
            is_enforced=True,
        )
        if options["budget"] <= 0:
            raise ValueError(f"expected a budget above 0, got {budget!r}")
    enabled = Enabled(base, blocks, _policy_of(policy), options)
    _enabled[base] = enabled
    return enabled


def disable(model: torch.nn.Module) -> None:
    """Undoes ``enable``: the model keeps all its activations again."""
    base = base_of(model)
    if base not in _enabled:
        raise ValueError(f"reprise.enable was not called for this {type(base).__name__}.")
    _enabled.pop(base)._remove()


def enabled_for(model: torch.nn.Module) -> Enabled | None:
    """What ``enable`` has put on the model."""
    return _enabled.get(base_of(model))


def _policy_of(policy: Any) -> policies.Policy | None:
    if policy is None or isinstance(policy, policies.Policy):
        return policy
    if isinstance(policy, str):
        return policies.named(policy)
    if callable(policy):
        return policies.from_function(policy)
    raise TypeError(f"expected the name of a policy or one of reprise.policies, got {policy!r}")


def _device_of(model: torch.nn.Module) -> torch.device:
    devices = {parameter.device for parameter in model.parameters()} or {torch.device("cpu")}
    if len(devices) > 1:
        names = ", ".join(sorted(str(device) for device in devices))
        raise ValueError(f"a budget is for one device, and this model is on {names}. Use a policy, or move the model.")
    return devices.pop()


class Enabled:
    """What ``reprise.enable`` has put on a model: its regions, and within a budget its plans."""

    def __init__(self, model: torch.nn.Module, blocks: Any, policy: Any, options: dict[str, Any] | None):
        self._model = weakref.ref(model)
        self._name = type(model).__name__
        self._policy = policy
        self._options = options  # of plans; None without a budget
        self.steps = 0  #: steps so far, that is, backward calls
        self.peak_bytes = 0  #: most activation bytes of the latest step, within a budget
        self._shape_plans = ShapePlans()
        self._checked_steps = 0
        self._is_warm = False
        layers = named_blocks(model, blocks) if blocks is not None else checkpointable_layers(model)
        if not layers:
            raise ValueError(
                f"{self._name} has no checkpointable layers: transformers does not support gradient checkpointing for "
                "it, or it is no model of transformers. Name its blocks, as in "
                'reprise.enable(model, blocks=["EncoderLayer"]).'
            )
        # Trainers with losses of their own call the model without its head.
        followed = [model]
        inner = getattr(model, "base_model", None)
        if isinstance(inner, torch.nn.Module) and inner is not model:
            followed.append(inner)
        refuse_compiled(layers)
        if blocks is not None:
            self._regions: ForwardRegions | LayerRegions = ForwardRegions(layers, self._run)
        else:
            self._regions = LayerRegions(model, layers, self._run)
        self._followed = [self._follow(module) for module in followed]

    def __deepcopy__(self, memo: dict[int, Any]) -> Enabled:
        return self  # a copy of the model says so when it trains: see _run

    def __repr__(self) -> str:
        what = "everything is recomputed" if self._policy is None else str(self._policy)
        if self._options is not None:
            what = f"budget {self._options['budget']} bytes, {len(self._shape_plans.all)} plans"
        return f"<reprise.Enabled: {self._name}, {len(self.blocks)} blocks; {what}>"

    @property
    def blocks(self) -> list[str]:
        """The names of the blocks."""
        return list(self._regions.blocks)

    @property
    def plans(self) -> list[Plan]:
        """The plans so far, one for each batch shape that needed one."""
        return [Plan(planned.plan) for planned in self._shape_plans.all]

    def describe(self) -> str:
        """What every block does, for each batch shape."""
        if self._options is None:
            return f"{self!r}\n"
        self._needs_plans()
        return "\n".join(plan.describe() for plan in self.plans)

    def report(self, path: str | os.PathLike[str], title: str | None = None) -> None:
        """Writes the plan with the largest peak as a page that opens without network."""
        self._needs_plans()
        largest = max(self._shape_plans.all, key=lambda planned: planned.plan.peak_bytes)
        Plan(largest.plan).report(path, title or self._name, model=self._name, measured_peaks=largest.measured)

    def check(self) -> None:
        """Raises if no step has run since the last check: then something else is trained than what was enabled."""
        if self.steps == self._checked_steps:
            raise RuntimeError(
                f"reprise.enable had no effect: no step of {self._name} has run since the last check. Is another model "
                "object trained than the one that was enabled?"
            )
        self._checked_steps = self.steps

    def _needs_plans(self) -> None:
        if self._options is None:
            raise ValueError("there are plans only within a budget: reprise.enable(model, budget=...)")
        if not self._shape_plans.all:
            raise ValueError("there is no plan yet: the first step of each batch shape makes one")

    def _remove(self) -> None:
        self._regions.remove()
        for replaced in self._followed:
            replaced.restore()

    def _follow(self, module: torch.nn.Module) -> Replaced:
        """Steps begin with this module's forward."""
        held = weakref.ref(module)

        def make(forward: Callable[..., Any]) -> Callable[..., Any]:
            @functools.partial(torch._disable_dynamo, recursive=False)
            def stepping(*args: Any, **kwargs: Any) -> Any:
                if compiler() not in (None, False):
                    refuse_compiler(self._name)
                if not held().training or not torch.is_grad_enabled():
                    return forward(*args, **kwargs)
                return self._forward(forward, args, kwargs)

            return stepping

        return Replaced(module, "forward", make)

    def _forward(self, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        step = _steps.current()
        if step is not None and step.is_in_forward and step.enabled is self:
            return forward(*args, **kwargs)  # the model inside the model
        if step is not None and step.enabled is not self and (step.is_planned or self._options is not None):
            raise RuntimeError(
                f"the forward of {self._name} begins before the backward of {step.enabled._name} has run, and one of "
                "them has a budget. Run forwards without a backward under torch.no_grad(); for a step of several "
                "models, use reprise.plan(step, budget=...)."
            )
        if step is None or step.enabled is not self:
            step = _Step(self)
        step.begin_forward(Shape.of(args, kwargs) if self._options is not None else None)
        try:
            result = forward(*args, **kwargs)
        except BaseException:
            step.abandon()
            raise
        step.end_forward()
        return result

    @functools.partial(torch._disable_dynamo, recursive=False)
    def _run(self, name: str, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """Runs a block as a region."""
        if compiler() not in (None, False):
            refuse_compiler(name)
        if torch.is_grad_enabled():
            step = _steps.current()
            if step is None or step.enabled is not self or not step.is_in_forward:
                if self._options is not None:
                    raise RuntimeError(
                        f"block {name or '(unknown)'} of {self._name} runs outside of the model's forward, so its "
                        "step has no plan. Call the model itself; a copy of a model has to be enabled by itself."
                    )
            else:
                step.entered += 1
        return checkpoint(function, *args, policy=self._policy, name=name, **kwargs)

    def _plan_for(self, shape: Shape) -> ShapePlan | None:
        return self._shape_plans.find(shape)


class _Step:
    """One forward, or several, and the backward call that ends them."""

    def __init__(self, enabled: Enabled):
        self.enabled = enabled
        self.is_in_forward = False
        self.entered = 0  # blocks that ran as regions
        self._shapes: list[Shape] = []
        self._planned: ShapePlan | None = None
        self._scope: Any = None  # of a plan
        self._recording: _C.StepRecording | None = None

    @property
    def is_planned(self) -> bool:
        return self._scope is not None or self._recording is not None

    def begin_forward(self, shape: Shape | None) -> None:
        if shape is not None:
            if not self._shapes:
                self._begin(shape)
            self._shapes.append(shape)
        self.is_in_forward = True
        _steps.begin(self)

    def end_forward(self) -> None:
        self.is_in_forward = False
        if self.entered == 0:
            self.abandon()
            raise RuntimeError(
                f"reprise.enable has no effect: no block of {self.enabled._name} ran as a region, because "
                f"{self.enabled._regions.why_none()}. Blocks: {', '.join(self.enabled.blocks[:4])}, ..."
            )

    def abandon(self) -> None:
        """The step's forward failed."""
        self.is_in_forward = False
        _steps.forget(self)
        self._close(has_failed=True)

    def end(self, has_failed: bool) -> None:
        """The step's backward call is over."""
        enabled = self.enabled
        enabled.steps += 0 if has_failed else 1
        self._close(has_failed)

    def _begin(self, shape: Shape) -> None:
        enabled = self.enabled
        model = enabled._model()
        device = _device_of(model) if model is not None else torch.device("cpu")
        self._planned = enabled._plan_for(shape)
        if self._planned is not None:
            self._scope = self._planned.plan.apply()
            self._scope.__enter__()
        elif enabled._is_warm or device.type == "cpu":
            self._recording = _C.StepRecording(device)
        # The first step on a GPU allocates workspaces and loads kernels: it is not recorded.
        enabled._is_warm = True

    def _close(self, has_failed: bool) -> None:
        enabled = self.enabled
        scope, self._scope = self._scope, None
        recording, self._recording = self._recording, None
        if recording is not None:
            if has_failed:
                recording.forget()
                return
            reserve = bytes_in_flight(enabled._model())
            plan = recording.plan(_C.PlanOptions(**enabled._options, reserve=reserve)).for_similar_steps()
            enabled._shape_plans.add(ShapePlan(tuple(self._shapes), plan, is_recorded=True))
        elif scope is not None:
            planned = self._planned
            if has_failed:
                scope.__exit__(RuntimeError, None, None)
                return
            scope.__exit__(None, None, None)
            enabled.peak_bytes = scope.peak_bytes
            if len(planned.measured) < _MOST_MEASURED:
                planned.measured.append(scope.peak_bytes)
            if len(planned.shapes) != len(self._shapes):
                enabled._shape_plans.drop(planned)  # steps run another number of forwards now
