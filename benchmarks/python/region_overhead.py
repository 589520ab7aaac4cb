"""What a region costs: reprise.checkpoint, torch.utils.checkpoint and torch_remat in one process, in turns.

Chains of mm and tanh on 4x16, three saved tensors per link, as in benchmarks/region.cpp. *Extra* is the time of a
training step beyond a plain one and one more forward; per saved tensor it is the slope between the two lengths, per
region what is left without saved tensors. The best of many short turns: other work on the machine only adds time.

    python benchmarks/python/region_overhead.py [--rounds 60]
"""

import argparse
import functools
import time
from importlib.metadata import version

import torch
import torch.utils.checkpoint
import torch_remat

import reprise

LENGTHS = (2, 10, 40)
SAVED_PER_LINK = 3
CALLS = 20


def chain(w, length):
    def run(h):
        for _ in range(length):
            h = torch.tanh(torch.mm(h, w))
        return h

    return run


def keep_products(checkpoint, make_contexts):
    contexts = functools.partial(make_contexts, [torch.ops.aten.mm.default])
    return functools.partial(checkpoint, use_reentrant=False, context_fn=contexts)


def regions():
    """Every way to call a function as a region, by row and peer."""
    peer = torch.utils.checkpoint
    remat = torch_remat.checkpoint(region_name="block")  # it preserves no random state
    return {
        "region": {
            "reprise": reprise.checkpoint,
            "torch": functools.partial(peer.checkpoint, use_reentrant=False),
            "torch_remat": lambda function, *args: remat(function)(*args),
        },
        "reentrant": {
            "reprise": functools.partial(reprise.checkpoint, use_reentrant=True),
            "torch": functools.partial(peer.checkpoint, use_reentrant=True),
        },
        "keeps mm": {
            "reprise": keep_products(reprise.checkpoint, reprise.create_selective_checkpoint_contexts),
            "torch": keep_products(peer.checkpoint, peer.create_selective_checkpoint_contexts),
        },
        "keeps mm, C++": {
            "reprise": functools.partial(
                reprise.checkpoint, policy=reprise.policies.save_ops([torch.ops.aten.mm.default])
            ),
        },
    }


def steps():
    x, w = torch.randn(4, 16, requires_grad=True), torch.randn(16, 16, requires_grad=True)
    made = {}
    for length in LENGTHS:
        block = chain(w, length)
        made["plain", "", length] = lambda block=block: block(x).sum().backward()
        made["forward", "", length] = lambda block=block: block(x)
        for row, peers in regions().items():
            for peer, region in peers.items():
                made[row, peer, length] = lambda block=block, region=region: region(block, x).sum().backward()
    return made


def microseconds(run):
    start = time.perf_counter()
    for _ in range(CALLS):
        run()
    return (time.perf_counter() - start) / CALLS * 1e6


def measure(rounds):
    everything = steps()
    best = dict.fromkeys(everything, float("inf"))
    for _ in range(rounds):
        for key, run in everything.items():
            best[key] = min(best[key], microseconds(run))
    return best


def report(best):
    def extra(row, peer, length):
        return best[row, peer, length] - best["plain", "", length] - best["forward", "", length]

    def line(name, values):
        ratio = values["torch"] / values["reprise"] if "torch" in values else None
        cells = "".join(f"{values[p]:12.1f}" if p in values else " " * 12 for p in ("reprise", "torch", "torch_remat"))
        print(f"{name:32}{cells}" + (f"{ratio:7.1f}x" if ratio and ratio > 0 else ""))

    print(f"{'microseconds':32}{'reprise':>12}{'torch':>12}{'torch_remat':>12}{'ratio':>8}")
    for length in LENGTHS:
        print(f"{f'{length} links, plain step':32}{best['plain', '', length]:12.1f}")
    few, many = LENGTHS[0], LENGTHS[-1]
    for row, peers in regions().items():
        for length in LENGTHS:
            line(f"{length} links, {row}: extra", {peer: extra(row, peer, length) for peer in peers})
        each = {
            peer: (extra(row, peer, many) - extra(row, peer, few)) / (many - few) / SAVED_PER_LINK for peer in peers
        }
        line(f"{row}: per saved tensor", each)
        line(f"{row}: per region", {p: extra(row, p, few) - each[p] * few * SAVED_PER_LINK for p in peers})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}, torch_remat {version('torch_remat')}, one thread, CPU")
    report(measure(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
