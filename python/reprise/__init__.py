"""Activation checkpointing that is exact and takes a byte budget.

``reprise.checkpoint`` takes the arguments of ``torch.utils.checkpoint.checkpoint`` and gives the same loss and
gradients as plain training, to the last bit. ``import reprise as checkpoint`` stands in for the module
``torch.utils.checkpoint``.
"""

from reprise import _load  # noqa: F401  first: it checks the PyTorch that is installed
from torch.utils.checkpoint import (
    DefaultDeviceType,
    check_backward_validity,
    detach_variable,
    get_device_states,
    set_device_states,
)

from reprise import policies
from reprise._C import (
    CheckpointError,
    LiveTensorReport,
    NamedRange,
    PeakTracker,
    is_recomputing,
    live_bytes,
    offload_use,
    peak_bytes,
    register_effectful_op,
    reset_peak_bytes,
    reset_stats,
    set_offload_settings,
    stats,
    trim_offload_memory,
)
from reprise._C import record_stats
from reprise._build import VERSION as __version__
from reprise._engine import install as _install
from reprise.checkpointing import (
    CheckpointFunction,
    GraphExecGroup,
    checkpoint,
    checkpoint_sequential,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from reprise.enabling import Enabled, disable, enable
from reprise.planning import Plan, plan
from reprise.policies import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

_install()
record_stats(True)


def __getattr__(name):
    if name == "TrainerCallback":  # needs transformers, which the rest does not
        from reprise.trainer import TrainerCallback

        return TrainerCallback
    raise AttributeError(f"module 'reprise' has no attribute {name!r}")


__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "Enabled",
    "GraphExecGroup",
    "LiveTensorReport",
    "NamedRange",
    "PeakTracker",
    "Plan",
    "SAC_IGNORED_OPS",
    "SelectiveCheckpointContext",
    "TrainerCallback",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "disable",
    "enable",
    "get_device_states",
    "is_recomputing",
    "live_bytes",
    "noop_context_fn",
    "offload_use",
    "peak_bytes",
    "plan",
    "policies",
    "register_effectful_op",
    "reset_peak_bytes",
    "reset_stats",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
    "set_offload_settings",
    "stats",
    "trim_offload_memory",
]
