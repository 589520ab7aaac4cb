"""``Trainer(..., callbacks=[reprise.TrainerCallback(budget="6GiB")])``: for transformers' Trainer and those of TRL."""

from __future__ import annotations

from typing import Any

import transformers

from reprise.enabling import Enabled, disable, enable, enabled_for

__all__ = ["TrainerCallback"]


class TrainerCallback(transformers.TrainerCallback):
    """Calls ``reprise.enable`` for the trained model when training begins, and ``reprise.disable`` at its end.

    After each optimizer step it checks that checkpointing took effect. A model that was enabled before, with
    ``reprise.enable(model, ...)``, is only checked: ``TrainerCallback()``.
    """

    def __init__(self, **options: Any):
        self.options = options
        self.enabled: Enabled | None = None  #: plans and figures, from the beginning of training on
        self._is_ours = False

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if self._is_ours and enabled_for(model) is self.enabled:
            disable(model)  # training ended with an error before
        _refuse_settings(args)
        self.enabled = enabled_for(model)
        self._is_ours = self.enabled is None
        if not self._is_ours and self.options:
            raise ValueError(
                "reprise.enable was called for this model, so the options of TrainerCallback have no effect: leave "
                "them out, or leave out reprise.enable."
            )
        if self._is_ours:
            self.enabled = enable(model, **self.options)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.enabled.check()

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if self._is_ours:
            disable(model)
            self._is_ours = False


def _refuse_settings(args: Any) -> None:
    """Settings of the trainer's own checkpointing, which this one replaces."""
    if not getattr(args, "activation_checkpointing", None):
        return
    asked = dict(getattr(args, "activation_checkpointing_kwargs", None) or {})
    if asked.pop("use_reentrant", False) or asked:
        raise ValueError(
            "TrainerCallback decides how the model is checkpointed, so activation_checkpointing_kwargs "
            "(gradient_checkpointing_kwargs) such as use_reentrant=True or every_n_layers have no effect: leave them "
            "out."
        )
