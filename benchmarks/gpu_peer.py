"""The work of bench_gpu with transformers and what its users switch on. Prints one JSON object a peer and mode.

    gpu_peer.py --shape 1b:8x2048 --peers liger,hf [--modes none,gc] [--steps 7] [--warmup 3] [--packages DIR]
    gpu_peer.py --kernels [--shape ...]      what the hardware allows: gpu_floor.py
    gpu_peer.py --serve                      one request a line on standard input, {"shape", "peer", "mode", "steps",
                                             "warmup"} or {"kernels": true} or {"floor": shape}; one answer each

Forward, loss and backward of a step; gradients are set to none between steps, outside the timed part. --packages is a
folder with liger_kernel, trl or peft, where they are not installed. The peers and their modes are in
gpu_peer_models.py.
"""
import argparse
import contextlib
import gc
import importlib.metadata
import json
import os
import statistics
import sys
import time

import torch
from gpu_peer_models import DEVICE, PEERS, loss_function, peer_model, settings
from gpu_shapes import Shape


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed_steps(peer, model, loss_of, ids, steps, warmup):
    """(milliseconds, milliseconds until all was launched) of each step after the warm-up, and the last loss."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-6, fused=True) if peer.trains else None
    autocast = torch.autocast(DEVICE, torch.bfloat16, enabled=peer.dtype == torch.float32)
    times = []
    for step in range(warmup + steps):
        if step == warmup and DEVICE == "cuda":
            torch.cuda.reset_peak_memory_stats()
        synchronize()
        start = time.perf_counter()
        with autocast:
            loss = loss_of(ids)
        loss.backward()
        if optimizer:
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
        launched = time.perf_counter()
        synchronize()
        end = time.perf_counter()
        model.zero_grad(set_to_none=True)
        if step >= warmup:
            times.append(((end - start) * 1e3, (launched - start) * 1e3))
    return times, loss.item()


def measured(peer, shape, mode, steps, warmup):
    model = peer_model(peer, shape, mode)
    ids = torch.randint(0, shape.model.vocabulary, (shape.batch, shape.seq), device=DEVICE)
    times, loss = timed_steps(peer, model, loss_function(peer, model, mode), ids, steps, warmup)
    result = {"loss": loss, "times": [t[0] for t in times], "ms": statistics.median(t[0] for t in times),
              "cpu_ms": statistics.median(t[1] for t in times)}
    if DEVICE == "cuda":
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
        result["reserved_bytes"] = torch.cuda.max_memory_reserved()
    return result


def release():
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


def versions():
    packages = ("torch", "transformers", "liger_kernel", "trl", "peft")
    found = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def answer(request):
    if request.get("kernels"):
        import gpu_floor

        return {"machine": gpu_floor.machine(), "versions": versions()}
    if "floor" in request:
        import gpu_floor

        return {"shape": request["floor"], "floor": gpu_floor.floor(Shape.parse(request["floor"]))}
    shape, peer = Shape.parse(request["shape"]), PEERS[request["peer"]]
    line = {"side": request["peer"], "shape": shape.name, "batch": shape.batch, "seq": shape.seq,
            "mode": request["mode"]}
    if peer.compiles:
        torch._dynamo.reset()
    with settings(peer):
        return line | measured(peer, shape, request["mode"], request["steps"], request["warmup"])


def answered(request):
    """An error is an answer too: a peer that is not installed, or does not fit, must not end the others."""
    try:
        return answer(request)
    except Exception as error:
        known = {key: request[key] for key in ("peer", "shape", "mode", "floor") if key in request}
        return {**known, "error": f"{type(error).__name__}: {error}"[:300]}
    finally:
        release()


def requests_of(arguments):
    if arguments.kernels:
        yield {"kernels": True}
        yield from ({"floor": shape} for shape in arguments.shape)
    for shape in arguments.shape:
        for name in arguments.peers:
            for mode in arguments.modes or PEERS[name].modes:
                yield {"shape": shape, "peer": name, "mode": mode, "steps": arguments.steps,
                       "warmup": arguments.warmup}


def words(text):
    return [word for word in text.split(",") if word]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=words, default=["1b:8x2048"])
    parser.add_argument("--peers", type=words, default=[], help=", ".join(PEERS))
    parser.add_argument("--modes", type=words, default=[])
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--packages", "--liger", help="folder with packages that are not installed")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--serve", action="store_true")
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.packages:
        sys.path.insert(0, arguments.packages)
    # Libraries print to standard output as they like; answers have it for themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    requests = map(json.loads, sys.stdin) if arguments.serve else requests_of(arguments)
    for request in requests:
        print(json.dumps(answered(request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
