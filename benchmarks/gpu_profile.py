#!/usr/bin/env python3
"""Where a step's time goes on the GPU: gpu_profile.py TRACE.json prints milliseconds, launches and share by kernel.

The trace is what bench_gpu --profile writes. Gaps are the time between the first kernel's start and the last one's end in
which none ran.
"""
import argparse
import collections
import gzip
import json
import pathlib
import re

# Kernel names are long; what they are for is enough. First match counts.
KINDS = [
    ("our norm", r"reprise::cuda.*(rms|dweight|norm)"),
    ("our gated activation", r"reprise::cuda.*gated"),
    ("our rotary embedding", r"reprise::cuda.*rope"),
    ("our cross entropy", r"reprise::cuda.*cross"),
    ("attention", r"fmha|flash|cudnn.*(attn|sdpa|bprop|fprop)|sdpa"),
    ("matrix products", r"gemm|cutlass|nvjet|xmma|splitK|cublas"),
    ("embedding", r"embedding|krn_partial|compute_grad_weight|sum_and_scatter"),
    ("copies and fills", r"Memset|Memcpy|copy|fill|FillFunctor"),
    ("index", r"index|scatter|gather"),
    ("reductions", r"reduce"),
    ("elementwise", r"elementwise"),
]


def kind_of(name):
    return next((kind for kind, pattern in KINDS if re.search(pattern, name, re.IGNORECASE)), "other")


def device_events(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    return sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"])


def busy_time(events):
    """Microseconds in which something ran, whatever overlaps."""
    busy, end = 0.0, 0.0
    for event in events:
        start, stop = event["ts"], event["ts"] + event["dur"]
        busy += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return busy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--kernels", type=int, default=30, help="how many single kernels are listed")
    options = parser.parse_args()
    events = device_events(options.trace)
    if not events:
        raise SystemExit(f"{options.trace}: no kernel in it")
    span = max(e["ts"] + e["dur"] for e in events) - events[0]["ts"]
    by_kind, by_name = collections.defaultdict(lambda: [0.0, 0]), collections.defaultdict(lambda: [0.0, 0])
    for event in events:
        for table, key in ((by_kind, kind_of(event["name"])), (by_name, event["name"])):
            table[key][0] += event["dur"]
            table[key][1] += 1
    print(f"{span / 1e3:.1f} ms from first to last kernel, {(span - busy_time(events)) / 1e3:.1f} ms of gaps, "
          f"{len(events)} launches\n\n| what | ms | launches | share |\n|---|---|---|---|")
    for kind, (time, count) in sorted(by_kind.items(), key=lambda item: -item[1][0]):
        print(f"| {kind} | {time / 1e3:.2f} | {count} | {time / span:.1%} |")
    print("\n| kernel | ms | launches | us each |\n|---|---|---|---|")
    for name, (time, count) in sorted(by_name.items(), key=lambda item: -item[1][0])[:options.kernels]:
        print(f"| {name[:110]} | {time / 1e3:.2f} | {count} | {time / count:.1f} |")


if __name__ == "__main__":
    main()
