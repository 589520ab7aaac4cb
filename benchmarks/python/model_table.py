#!/usr/bin/env python3
"""reprise.enable under tiny models of transformers, one for each model type, compared with no checkpointing and with
torch.utils.checkpoint; budgets on eight of them. Writes benchmarks/results/python-models.md.

usage: model_table.py [--only TYPE…] [--out FILE]

For each type: loss and every gradient with everything recomputed, bit for bit those of plain training, and the bytes
that forward keeps, at most those of torch.utils.checkpoint (use_reentrant=False). Ends with an error if one differs.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gc
import os
import pathlib
import sys
import warnings
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import torch.utils.checkpoint  # noqa: E402
import transformers  # noqa: E402

import reprise  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from families import BY_NAME, FAMILIES, Family, loss_of  # noqa: E402

BUDGETED = ("llama", "gpt2", "qwen3", "mixtral", "bart", "vit", "mamba", "jamba")
BUDGETS = 6


def step(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[list[torch.Tensor | None], int]:
    """Loss and gradients, and the bytes that forward keeps."""
    model.zero_grad()
    torch.manual_seed(2)
    gc.collect()
    before = reprise.live_bytes("cpu")
    loss = loss_of(model, inputs)
    gc.collect()  # outputs of the model that only cycles hold
    kept = reprise.live_bytes("cpu") - before
    loss.backward()
    return [loss.detach()] + [parameter.grad for parameter in model.parameters()], kept


def same_bits(a: list[torch.Tensor | None], b: list[torch.Tensor | None]) -> bool:
    return all((x is None and y is None) or (x is not None and y is not None and _equal(x, y)) for x, y in zip(a, b))


def _equal(x: torch.Tensor, y: torch.Tensor) -> bool:
    bits = functools.partial(torch.Tensor.view, dtype=torch.uint8)
    return x.dtype == y.dtype and torch.equal(bits(x.reshape(-1).contiguous()), bits(y.reshape(-1).contiguous()))


def compared(family: Family) -> dict[str, Any]:
    model, inputs = family.model(), family.inputs()
    step(model, inputs)  # caches of rotary tables and such
    plain, plain_kept = step(model, inputs)
    enabled = reprise.enable(model)
    ours, kept = step(model, inputs)
    reprise.disable(model)
    torchs = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
    model._set_gradient_checkpointing(True, torchs)
    _, torchs_kept = step(model, inputs)
    return dict(
        blocks=len(enabled.blocks), same=same_bits(ours, plain), plain=plain_kept, ours=kept, torch=torchs_kept
    )


def budgets(family: Family) -> dict[str, Any]:
    """Budgets between the least and all: whether each is held, exact, and costs no more than a smaller one."""
    model, inputs = family.model(), family.inputs(rows=4, length=48)
    plain, _ = step(model, inputs)
    reprise.enable(model, budget="16GiB")
    step(model, inputs)
    curve = reprise.enabling.enabled_for(model).plans[0].curve
    reprise.disable(model)
    least, most = curve[0][0], curve[-1][0]
    held, same, is_monotone, over, off = True, True, True, 0, 0.0
    for i in range(BUDGETS):
        budget = int((least + (most - least) * i / (BUDGETS - 1)) * 1.011) + (17 << 10)
        enabled = reprise.enable(model, budget=budget)
        for _ in range(3):
            same = same and same_bits(step(model, inputs)[0], plain)
            held = held and enabled.peak_bytes <= budget
            over = max(over, enabled.peak_bytes - budget)
        off = max(off, abs(enabled.plans[0].peak_bytes / enabled.peak_bytes - 1))
        extra = [enabled.plans[0].with_budget(budget * (8 + k) // 8).extra_ms for k in range(4)]
        is_monotone = is_monotone and extra == sorted(extra, reverse=True)
        reprise.disable(model)
    return dict(least=least, most=most, same=same, held=held, over=over, monotone=is_monotone, off=off)


def kib(size: int) -> str:
    return f"{size / 2**10:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", default=str(ROOT / "benchmarks/results/python-models.md"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)

    rows, wrong = [], []
    for family in FAMILIES:
        if arguments.only and family.name not in arguments.only:
            continue
        result = compared(family)
        is_right = result["same"] and result["ours"] <= result["torch"] < result["plain"]
        wrong += [] if is_right else [family.name]
        rows.append((family, result))
        print(family.name, result, flush=True)
    table = []
    for name in BUDGETED:
        if arguments.only and name not in arguments.only:
            continue
        result = budgets(BY_NAME[name])
        wrong += [] if result["same"] and result["held"] and result["monotone"] else [f"budgets of {name}"]
        table.append((BY_NAME[name], result))
        print(name, result, flush=True)
    if not arguments.only:
        pathlib.Path(arguments.out).write_text(page(rows, table))
    print("differ: " + ", ".join(wrong) if wrong else f"{len(rows)} model types, {len(table)} with budgets: all right")
    return 1 if wrong else 0


def page(rows: list[tuple[Family, dict[str, Any]]], table: list[tuple[Family, dict[str, Any]]]) -> str:
    kinds = collections.Counter(kind for family, _ in rows for kind in family.kind.split(", "))
    yes = {True: "yes", False: "**no**"}
    lines = [
        "# Python: models of transformers",
        "",
        f"Made by `python benchmarks/python/model_table.py`: transformers {transformers.__version__}, torch "
        f"{torch.__version__.split('+')[0]}, two cores, no GPU, float32. Tiny",
        "configurations with random weights (`tests/python/families.py`) in training mode, dropout as configured.",
        "",
        f"{len(rows)} model types: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()) + ".",
        "",
        "## Everything recomputed",
        "",
        "`reprise.enable(model)`: whether loss and every gradient are those of no checkpointing, bit for bit; and the "
        "KiB",
        "that forward keeps without checkpointing, with transformers' own (`torch.utils.checkpoint`,",
        "`use_reentrant=False`), and here.",
        "",
        "| model type | kind | blocks | same bits | none | torch | reprise |",
        "|---|---|---|---|---|---|---|",
    ]
    for family, result in rows:
        lines.append(
            f"| {family.name} | {family.kind} | {result['blocks']} | {yes[result['same']]} | {kib(result['plain'])} | "
            f"{kib(result['torch'])} | {kib(result['ours'])} |"
        )
    lines += [
        "",
        "## Budgets",
        "",
        f"`reprise.enable(model, budget=...)` with {BUDGETS} budgets between the least and all that a step takes, "
        "three steps",
        "each: one that is recorded, two that are planned. \"Over\" is the most bytes that a planned step took beyond "
        "its",
        "budget.",
        "",
        "| model type | least KiB | all KiB | same bits | held | over, bytes | monotone | prediction off by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for family, result in table:
        lines.append(
            f"| {family.name} | {kib(result['least'])} | {kib(result['most'])} | {yes[result['same']]} | "
            f"{yes[result['held']]} | {result['over']} | {yes[result['monotone']]} | {result['off'] * 100:.1f} % |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
