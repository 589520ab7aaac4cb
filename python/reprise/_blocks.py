"""Makes the blocks of a model regions, and undoes it.

transformers' models have layers that call a checkpointing function which the model sets (GradientCheckpointingLayer).
Of other models, the ``forward`` of each block is replaced.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from typing import Any, Callable, Iterable

import torch

class Replaced:
    """A method of one module, replaced: calls ``instead(*args, **kwargs)``. A copy of the module has its own method."""

    def __init__(self, module: torch.nn.Module, name: str, instead: Callable[..., Any]):
        functools.update_wrapper(self, getattr(module, name))  # its signature, for trainers that look
        self._module = weakref.ref(module)
        self._name = name
        self._instead = instead

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._instead(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
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


def refuse_replaced(modules: dict[str, torch.nn.Module]) -> None:
    for name, module in modules.items():
        if "forward" in vars(module):
            raise ValueError(
                f"the forward of {name} was replaced already (by accelerate, for example): call reprise.enable before that."
            )


def refuse_compiled(blocks: dict[str, torch.nn.Module]) -> None:
    for name, block in blocks.items():
        if getattr(block, "_compiled_call_impl", None) is not None or hasattr(block, "_orig_mod"):
            raise ValueError(
                f"{name} is compiled (torch.compile), and a region inside it would end the compiled part: its recompute "
                "would run uncompiled code. Compile the modules inside the blocks instead, such as attention and MLP."
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
        model._set_gradient_checkpointing = Replaced(model, "_set_gradient_checkpointing", self._set)

    def remove(self) -> None:
        model = self._model()
        del model._set_gradient_checkpointing
        self._set_own(model, enable=False)

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
        if enable and (asked or is_reentrant or every_n_layers != 1 or of_torch is not torch.utils.checkpoint.checkpoint):
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
        for name, block in blocks.items():
            block.forward = Replaced(block, "forward", _region_forward(name, block, run))

    def remove(self) -> None:
        for block in self.blocks.values():
            del block.forward

    def why_none(self) -> str:
        if not any(block.training for block in self.blocks.values()):
            return "they are in evaluation mode: call model.train()"
        return "none was called"


def _region_forward(name: str, block: torch.nn.Module, run: Runner) -> Callable[..., Any]:
    held, forward = weakref.ref(block), type(block).forward

    def region(*args: Any, **kwargs: Any) -> Any:
        module = held()
        bound = functools.partial(forward, module)
        return run(name, bound, args, kwargs) if module.training else bound(*args, **kwargs)

    return region
