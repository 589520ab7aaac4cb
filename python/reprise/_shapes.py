"""Plans for the batch shapes of a run.

A plan is used for all batches that it covers and that are not much smaller. Between two recorded shapes a plan is made
from both, in milliseconds. Only a shape beyond all recorded ones is recorded.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch.utils import _pytree as pytree

from reprise import _C

# A plan is used for batches of at least this share of its numbers.
_LEAST_SHARE = 0.85
# Between two recorded shapes, plans are made at multiples of an eighth of the way.
_STEPS_BETWEEN = 8
# Counts that are divided by, and change nothing else.
_NO_SHAPE = "num_items_in_batch"


@dataclasses.dataclass(frozen=True)
class Shape:
    """What the bytes of a step depend on. Batches of one ``structure`` run the same operators."""

    structure: tuple
    sizes: tuple[int, ...]

    @staticmethod
    def of(args: tuple, kwargs: dict[str, Any]) -> Shape:
        """The shape of a call of the model."""
        structure: list[Any] = []
        sizes: list[int] = []
        for path, value in pytree.tree_flatten_with_path((args, kwargs))[0]:
            name = pytree.keystr(path)
            if _NO_SHAPE in name:
                continue
            if isinstance(value, torch.Tensor):
                structure.append((name, value.dtype, value.device.type, value.dim(), _hides_nothing(name, value)))
                sizes.extend(value.shape)
            elif isinstance(value, (bool, int, str, type(None))):
                structure.append((name, value))
        return Shape(tuple(structure), tuple(sizes))

    @property
    def numbers(self) -> int:
        """How much there is of the first tensor, such as tokens."""
        dims = next((entry[3] for entry in self.structure if len(entry) == 5 and entry[3] > 0), 0)
        return math.prod(self.sizes[:dims])

    def covers(self, other: Shape) -> bool:
        """Whether memory that is enough for this shape is enough for the other."""
        return self.structure == other.structure and all(a >= b for a, b in zip(self.sizes, other.sizes))

    def suits(self, wanted: Shape) -> bool:
        return self.covers(wanted) and wanted.numbers >= _LEAST_SHARE * self.numbers

    def way_to(self, end: Shape, wanted: Shape) -> float:
        """How far from here to ``end`` one must go to cover ``wanted``; above 1: beyond it."""
        if self.structure != wanted.structure or not end.covers(self):
            return math.inf
        way = 0.0
        for first, last, size in zip(self.sizes, end.sizes, wanted.sizes):
            if size > first:
                way = max(way, (size - first) / (last - first) if last > first else math.inf)
        return way

    def moved(self, end: Shape, share: float) -> Shape:
        sizes = tuple(a + math.floor((b - a) * share) for a, b in zip(self.sizes, end.sizes))
        return Shape(self.structure, sizes)


def _hides_nothing(name: str, value: torch.Tensor) -> bool:
    """Whether this is a mask of ones, which models leave out."""
    return "mask" in name and value.dim() == 2 and bool(value.bool().all())


@dataclasses.dataclass
class ShapePlan:
    shapes: tuple[Shape, ...]  # of the forwards of the step: one, in most programs
    plan: _C.MemoryPlan
    is_recorded: bool
    measured: list[int] = dataclasses.field(default_factory=list)  # peaks of steps

    @property
    def shape(self) -> Shape:
        return self.shapes[0]


class ShapePlans:
    """All plans of one model, the latest last."""

    def __init__(self) -> None:
        self.all: list[ShapePlan] = []

    def find(self, shape: Shape) -> ShapePlan | None:
        """The plan to use; None: the step has to be recorded."""
        suiting = [planned for planned in self.all if planned.shape.suits(shape)]
        if suiting:
            return min(suiting, key=lambda planned: planned.shape.numbers)
        return self._between(shape)

    def add(self, planned: ShapePlan) -> None:
        self.all.append(planned)

    def drop(self, planned: ShapePlan) -> None:
        self.all = [other for other in self.all if other is not planned]

    def _between(self, shape: Shape) -> ShapePlan | None:
        recorded = [planned for planned in self.all if planned.is_recorded and len(planned.shapes) == 1]
        for start in recorded:
            for end in recorded:
                way = start.shape.way_to(end.shape, shape)
                if start is end or way > 1:
                    continue
                share = math.ceil(way * _STEPS_BETWEEN) / _STEPS_BETWEEN
                middle = start.shape.moved(end.shape, share)
                plan = _C.MemoryPlan.between(start.plan, end.plan, share) if middle.suits(shape) else None
                if plan is not None:
                    planned = ShapePlan((middle,), plan, is_recorded=False)
                    self.add(planned)
                    return planned
        return None
