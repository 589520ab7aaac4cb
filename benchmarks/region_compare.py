"""Runs bench_region and its Python peer in turns and compares what a region costs.

usage: region_compare.py <bench_region> [python with a full torch]

The cost of a region is its time beyond plain training plus one more forward, both measured in the same process.
"""
import sys

from turns import in_turns

TURNS = 3
SAVED_PER_LINK = 3  # mm saves two tensors, tanh one
OPS_PER_LINK = 2


def best_of(commands):
    """The least time of each measurement over all turns."""
    return [
        {name: min(result[name] for result in results) for name in results[0]}
        for results in in_turns(commands, TURNS)
    ]


def extra(times, depth, variant):
    return times[f"{depth}.{variant}"] - times[f"{depth}.plain"] - times[f"{depth}.forward"]


def main():
    ours_command = [sys.argv[1]]
    peer_command = [sys.argv[2], __file__.replace("_compare", "_peer")] if len(sys.argv) > 2 else None
    results = best_of([ours_command] + ([peer_command] if peer_command else []))
    ours, peer = results[0], results[1] if peer_command else None

    print(f"{'microseconds':34} {'reprise':>9} {'torch.utils':>12} {'ratio':>7}")

    def row(label, a, b):
        right = f"{b:12.1f} {b / a:6.1f}x" if b is not None else ""
        print(f"{label:34} {a:9.1f} {right}")

    for depth in (10, 40):
        for name in ("plain", "forward"):
            key = f"{depth}.{name}"
            row(f"{depth} links, {name}", ours[key], peer and peer[key])
        for name in ("checkpoint", "reentrant", "policy_keep_mm"):
            row(f"{depth} links, {name}: extra", extra(ours, depth, name), peer and extra(peer, depth, name))

    def per_saved(times):
        return (extra(times, 40, "checkpoint") - extra(times, 10, "checkpoint")) / (30 * SAVED_PER_LINK)

    def per_op():
        """Of a policy, for an operator that is seen twice: in forward and in recompute."""
        return (ours["40.policy_recompute_all"] - ours["40.checkpoint"]) / (40 * OPS_PER_LINK * 2)

    row("per saved tensor", per_saved(ours), peer and per_saved(peer))
    row("policy, per operator call", per_op(), None)


if __name__ == "__main__":
    main()
