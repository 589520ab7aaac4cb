"""The work of region.cpp with torch.utils.checkpoint. Prints one JSON object of microseconds."""
import functools
import json
import sys
import time

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

CALLS = 50


def variants(depth):
    x = torch.randn(4, 16, requires_grad=True)
    w = torch.randn(16, 16, requires_grad=True)

    def chain(h):
        for _ in range(depth):
            h = torch.tanh(torch.mm(h, w))
        return h

    def step(**options):
        return lambda: checkpoint(chain, x, **options).sum().backward()

    keep_mm = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    return {
        f"{depth}.plain": lambda: chain(x).sum().backward(),
        f"{depth}.forward": lambda: chain(x),
        f"{depth}.checkpoint": step(use_reentrant=False),
        f"{depth}.reentrant": step(use_reentrant=True),
        f"{depth}.policy_keep_mm": step(use_reentrant=False, context_fn=keep_mm),
    }


def microseconds_per_call(run):
    start = time.perf_counter()
    for _ in range(CALLS):
        run()
    return (time.perf_counter() - start) / CALLS * 1e6


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    torch.set_num_threads(1)
    torch.manual_seed(0)
    everything = {**variants(10), **variants(40)}
    best = dict.fromkeys(everything, float("inf"))
    for _ in range(rounds):
        for name, run in everything.items():
            best[name] = min(best[name], microseconds_per_call(run))
    print(json.dumps(best))


if __name__ == "__main__":
    main()
