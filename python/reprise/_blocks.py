"""Makes the blocks of a model regions, and undoes it.

transformers' models have layers that call a checkpointing function which the model sets (GradientCheckpointingLayer).
Of other models, the ``forward`` of each block is replaced.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import types
import weakref
from typing import Any, Callable, Iterable

import torch

class Replaced:
    """A method of one module, replaced by ``make(previous)`` until ``restore``.

    A copy of the module has its own method. Accelerate and TRL replace methods too, before or after this.
    """

    def __init__(self, module: torch.nn.Module, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]):
        self._module = weakref.ref(module)
        self._name = name
        self._held = vars(module).get(name)  # by somebody else
        functools.update_wrapper(self, getattr(module, name))  # its signature, for trainers that look
        del self.__wrapped__  # it holds the module
        self.__signature__ = inspect.signature(getattr(module, name))
        self._instead = make(self._previous)
        setattr(module, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._instead(*args, **kwargs)

    def _previous(self, *args: Any, **kwargs: Any) -> Any:
        if self._held is not None:
            return self._held(*args, **kwargs)
        module = self._module()
        return getattr(type(module), self._name)(module, *args, **kwargs)

    def restore(self) -> None:
        module = self._module()
        if module is not None and vars(module).get(self._name) is self:
            delattr(module, self._name)
            if self._held is not None:
                setattr(module, self._name, self._held)
        else:
            self._instead = self._previous  # somebody has wrapped it since

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._held is not None:
            return copy.deepcopy(self._held, memo)
        twin = memo[id(self._module())]
        return types.MethodType(getattr(type(twin), self._name), twin)

    def __reduce__(self) -> Any:
        raise TypeError("a model cannot be pickled while reprise.enable is in effect: save its state_dict()")


# Runs one block as a region: run(name, function, args, kwargs).
Runner = Callable[[str, Callable[..., Any], tuple, dict], Any]


def base_of(model: torch.nn.Module) -> torch.nn.Module:
    """The model inside peft's, which is the one that has the blocks."""
    if hasattr(model, "get_base_model"):
        model = model.get_base_model()
    return model


def _layer_type() -> type | None:
    """transformers' layers that can be checkpointed, if transformers is in use."""
    if "transformers.modeling_utils" not in sys.modules:
        return None
    from transformers.modeling_layers import GradientCheckpointingLayer

    return GradientCheckpointingLayer


def checkpointable_layers(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    layer_type = _layer_type()
    if layer_type is None or not getattr(model, "supports_gradient_checkpointing", False):
        return {}
    return {name: module for name, module in model.named_modules() if isinstance(module, layer_type)}


def named_blocks(model: torch.nn.Module, blocks: Iterable[Any]) -> dict[str, torch.nn.Module]:
    """The modules that ``blocks`` names: classes, names of classes, or names of modules."""
    modules = {name: module for name, module in model.named_modules() if name}
    found: dict[str, torch.nn.Module] = {}
    for block in [blocks] if isinstance(blocks, (str, type)) else list(blocks):
        if isinstance(block, type):
            named = {name: module for name, module in modules.items() if isinstance(module, block)}
        elif isinstance(block, str):
            named = {name: m for name, m in modules.items() if name == block or type(m).__name__ == block}
        else:
            raise TypeError(f"blocks are given as module classes or names, got {block!r}")
        if not named:
            types = sorted({type(module).__name__ for module in modules.values()})
            raise ValueError(f"{type(model).__name__} has no block {block!r}. Its modules are: {', '.join(types)}")
        found |= named
    return found


def refuse_compiled(blocks: dict[str, torch.nn.Module]) -> None:
    for name, block in blocks.items():
        if getattr(block, "_compiled_call_impl", None) is not None or hasattr(block, "_orig_mod"):
            raise ValueError(
                f"{name} is compiled (torch.compile), and a region inside it would end the compiled part: its "
                "recompute would run uncompiled code. Compile the modules inside the blocks instead, such as attention "
                "and MLP."
            )


# What compiles frames of this thread; None or False: nothing does.
compiler = torch._C._dynamo.eval_frame.get_eval_frame_callback


def refuse_compiler(name: str) -> None:
    raise RuntimeError(
        f"{name} is compiled (torch.compile), but it runs regions, at which a compiled part ends: the compiler would "
        "have next to no effect. Compile modules inside the blocks instead, such as attention and MLP."
    )


class LayerRegions:
    """The layers of a transformers model as regions, until ``remove``."""

    def __init__(self, model: Any, layers: dict[str, torch.nn.Module], run: Runner):
        self._model = weakref.ref(model)
        self._names = {id(module): name for name, module in layers.items()}
        self._run = run
        self.blocks = layers
        self._set_own = type(model)._set_gradient_checkpointing
        self._set_own(model, enable=True, gradient_checkpointing_func=self._checkpoint)
        # Trainers switch checkpointing on and off by themselves, with PyTorch's function.
        self._replaced = Replaced(model, "_set_gradient_checkpointing", lambda own: self._set)

    def remove(self) -> None:
        self._replaced.restore()
        self._set_own(self._model(), enable=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> LayerRegions:
        return self  # layers of copies run as regions too

    def why_none(self) -> str:
        """Why no layer ran as a region."""
        if not any(layer.gradient_checkpointing for layer in self.blocks.values()):
            return "their checkpointing was disabled (gradient_checkpointing_disable)"
        if not any(layer._gradient_checkpointing_func == self._checkpoint for layer in self.blocks.values()):
            return "something else has set their checkpointing function"
        if not any(layer.training for layer in self.blocks.values()):
            return "they are in evaluation mode: call model.train()"
        return "none was called"

    def _checkpoint(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        layer = function.args[0] if isinstance(function, functools.partial) and function.args else None
        return self._run(self._names.get(id(layer), ""), function, args, kwargs)

    def _set(self, enable: bool = True, gradient_checkpointing_func: Any = None, every_n_layers: int = 1) -> None:
        asked = dict(getattr(gradient_checkpointing_func, "keywords", None) or {})
        is_reentrant = asked.pop("use_reentrant", None)
        of_torch = getattr(gradient_checkpointing_func, "func", torch.utils.checkpoint.checkpoint)
        is_other = of_torch is not torch.utils.checkpoint.checkpoint
        if enable and (asked or is_reentrant or every_n_layers != 1 or is_other):
            raise ValueError(
                "reprise.enable decides how this model is checkpointed, so activation_checkpointing_kwargs "
                "(gradient_checkpointing_kwargs) such as use_reentrant=True, every_n_layers or offload have no effect: "
                "leave them out, or call reprise.disable(model)."
            )
        self._set_own(self._model(), enable=enable, gradient_checkpointing_func=self._checkpoint)


class ForwardRegions:
    """Any modules as regions, until ``remove``."""

    def __init__(self, blocks: dict[str, torch.nn.Module], run: Runner):
        self.blocks = blocks
        self._replaced = [
            Replaced(block, "forward", functools.partial(_region_forward, name, weakref.ref(block), run))
            for name, block in blocks.items()
        ]

    def remove(self) -> None:
        for replaced in self._replaced:
            replaced.restore()

    def why_none(self) -> str:
        if not any(block.training for block in self.blocks.values()):
            return "they are in evaluation mode: call model.train()"
        return "none was called"


def _region_forward(
    name: str, block: weakref.ref[torch.nn.Module], run: Runner, forward: Callable[..., Any]
) -> Callable[..., Any]:
    def region(*args: Any, **kwargs: Any) -> Any:
        return run(name, forward, args, kwargs) if block().training else forward(*args, **kwargs)

    return region
