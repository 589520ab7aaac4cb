"""Which training step a thread is in: it begins with a forward of a model and ends with the next backward call.

``_Engine`` (``_engine.py``) says when a backward call of this thread is over.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Step(Protocol):
    """What is told how its step ended."""

    is_in_forward: bool

    def end(self, has_failed: bool) -> None: ...


class _Thread(threading.local):
    step: Any = None
    backward_depth = 0


_thread = _Thread()


def current() -> Step | None:
    """The step of this thread whose backward has not run yet."""
    return _thread.step


def begin(step: Step) -> None:
    _thread.step = step


def forget(step: Step) -> None:
    """The step ends without a backward call: its forward failed."""
    if _thread.step is step:
        _thread.step = None


class BackwardCall:
    """``with BackwardCall():`` around each backward call of PyTorch."""

    def __enter__(self) -> None:
        _thread.backward_depth += 1

    def __exit__(self, exception_type: Any, *exception: Any) -> None:
        _thread.backward_depth -= 1
        step = _thread.step
        # A backward call inside a forward, or inside another backward call, ends no step.
        if step is not None and _thread.backward_depth == 0 and not step.is_in_forward:
            _thread.step = None
            step.end(exception_type is not None)
