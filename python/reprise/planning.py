"""Byte budgets: ``plan = reprise.plan(step, budget="6GiB")``, then ``with plan: step()``."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Sequence

import torch

from reprise import _C
from reprise.report import write_report

__all__ = ["Plan", "bytes_of", "plan"]

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def bytes_of(size: int | str) -> int:
    """``6442450944``, ``"6GiB"``, ``"512 MiB"`` or ``"1.5GB"`` in bytes."""
    if isinstance(size, int) and not isinstance(size, bool) and size < 2**63:
        return size
    text = size if isinstance(size, str) else ""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+(?=\s*[kmgKMG]))?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError(f"expected a number of bytes such as 6GiB or 512MiB, got {size!r}")
    return int(float(match[1]) * _UNITS[match[2].lower()])


class Plan:
    """What a step does with its regions. ``with plan:`` around one forward and backward applies it.

    The step must have the planned regions, in the same order and with the same shapes: another one is an error, and
    so is one that takes more bytes than the budget.
    """

    def __init__(self, plan: _C.MemoryPlan):
        self._plan = plan
        self._scopes: list[Any] = []

    @property
    def budget(self) -> int:
        """Most activation bytes of a step."""
        return self._plan.budget

    @property
    def peak_bytes(self) -> int:
        """Predicted; at most ``budget``."""
        return self._plan.peak_bytes

    @property
    def host_bytes(self) -> int:
        """Host memory for offloaded tensors."""
        return self._plan.host_bytes

    @property
    def extra_ms(self) -> float:
        """Predicted, over the same step without regions."""
        return self._plan.extra_ms

    @property
    def curve(self) -> list[tuple[int, float]]:
        """All plans worth having as (peak bytes, extra milliseconds), from the fewest bytes to the most."""
        return self._plan.curve

    def with_budget(self, budget: int | str) -> Plan:
        """The same step under another budget."""
        return Plan(self._plan.with_budget(bytes_of(budget)))

    def describe(self) -> str:
        """What every region does, with one line for each run of regions that do the same."""
        return self._plan.describe()

    def report(
        self,
        path: str | os.PathLike[str],
        title: str = "Memory plan",
        *,
        model: str = "",
        measured_peaks: Sequence[int] = (),
    ) -> None:
        """Writes the plan as a page that opens without network, such as memory.html."""
        write_report(self._plan, path, title, model=model, measured_peaks=measured_peaks)

    def __enter__(self) -> Plan:
        scope = self._plan.apply()
        scope.__enter__()
        self._scopes.append(scope)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._scopes.pop().__exit__(*exception)

    def __repr__(self) -> str:
        return f"<reprise.Plan: {self.peak_bytes} of {self.budget} bytes, {self.extra_ms:.3g} ms extra>"


def plan(
    step: Callable[[], Any],
    budget: int | str,
    *,
    device: torch.device | str | None = None,
    host_budget: int | str = 0,
    allow_lossy: bool = False,
    counts_gradients: bool = False,
) -> Plan:
    """Runs ``step`` (a forward and a backward) once to trace it, twice on a GPU, and plans it.

    Afterwards gradients, generators and buffers are as they were before.

    Args:
        budget: most activation bytes of a step: 6442450944 or ``"6GiB"``.
        device: where the step's activations are; the current GPU if there is one, otherwise the CPU.
        host_budget: most host bytes for offloaded tensors.
        allow_lossy: results may be compressed; gradients then change.
        counts_gradients: the budget covers the gradients that the step creates too.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    options = _C.PlanOptions(
        budget=bytes_of(budget),
        host_budget=bytes_of(host_budget),
        allow_lossy=allow_lossy,
        counts_gradients=counts_gradients,
    )
    return Plan(_C.plan(step, device, options))
