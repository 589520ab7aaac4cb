"""Activation checkpointing that is exact and takes a byte budget.

``reprise.checkpoint`` takes the arguments of ``torch.utils.checkpoint.checkpoint`` and gives the same loss and
gradients as plain training, to the last bit. ``import reprise as checkpoint`` stands in for the module
``torch.utils.checkpoint``.
"""

from reprise import _load  # noqa: F401  first: it checks the PyTorch that is installed
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
    GraphExecGroup,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from reprise.enabling import Enabled, disable, enable
from reprise.planning import Plan, plan
from reprise.policies import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

_install()
record_stats(True)

__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "Enabled",
    "GraphExecGroup",
    "LiveTensorReport",
    "NamedRange",
    "PeakTracker",
    "Plan",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "disable",
    "enable",
    "is_recomputing",
    "live_bytes",
    "offload_use",
    "peak_bytes",
    "plan",
    "policies",
    "register_effectful_op",
    "reset_peak_bytes",
    "reset_stats",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_offload_settings",
    "stats",
    "trim_offload_memory",
]
