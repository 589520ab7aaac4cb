"""Small programs that do around a region what training programs do. Each takes ``region``, which calls a function
plainly or as a region, and returns what must be the same in both cases, to the last bit."""

from __future__ import annotations

import re
from typing import Any, Callable, NamedTuple

import torch


class Program(NamedTuple):
    run: Callable[[Callable[..., Any]], Any]
    refused: re.Pattern[str] | None  # what the error of a region says, or of plain PyTorch
    ways: tuple[str, ...]  # in which a region is refused; none: in all

    @property
    def name(self) -> str:
        return f"{self.run.__module__.rpartition('.')[2]}.{self.run.__name__}"

    def is_refused(self, way: str) -> bool:
        return self.refused is not None and (not self.ways or way in self.ways)


PROGRAMS: list[Program] = []

IS_OLDEST = torch.__version__.startswith("2.11.")  # of the versions that Reprise works with


def program(function: Callable | None = None, *, refused: str | None = None, ways: tuple[str, ...] = ()) -> Callable:
    """Adds a program. ``refused``: what the error says that it ends with; ``ways``: only in these."""

    def add(run):
        PROGRAMS.append(Program(run, re.compile(refused, re.DOTALL) if refused else None, ways))
        return run

    return add if function is None else add(function)


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def grads(loss: torch.Tensor, *leaves: torch.Tensor) -> list[Any]:
    """The loss, and the gradient of every leaf after its backward."""
    loss.backward()
    return [loss.detach(), *(leaf.grad for leaf in leaves)]


from law import arguments, draws, functions, graphs, hooks, modes, modules, views, writes  # noqa: E402,F401
