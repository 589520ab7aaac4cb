"""A plan as a page that opens without network: memory over a step, time against bytes, and what is kept, and why."""

from __future__ import annotations

import os
from typing import Any, Sequence

from reprise import _C

__all__ = ["write_report"]


def write_report(
    plan: _C.MemoryPlan,
    path: str | os.PathLike[str],
    title: str,
    *,
    model: str = "",
    device: Any = "",
    measured_peaks: Sequence[int] = (),
) -> None:
    """Writes the page. ``measured_peaks``: activation bytes of steps that ran, to be shown beside the prediction."""
    try:
        from reprise import _report
    except ImportError as error:
        raise RuntimeError(
            f"pages are written by the library of the program `reprise`, which this build lacks: {error}"
        ) from error
    _report.write_page(plan, os.fspath(path), title, model, str(device), list(measured_peaks))
