"""Optimizer steps of several Gloo processes, ours against PyTorch's DDP and FSDP2, in turns. Writes dist-cpu.md.

    dist_compare.py BENCH_DIST PYTHON [--turns 5] [--steps 5] [--warmup 2] [--ranks 2] [--batch 4] [--tokens 256]

Every process has one thread. Both sides open the same checkpoint, which the peer writes, and their losses must agree
after every step. The page goes to $OUT if that is set, else to benchmarks/results.
"""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile

from budgets import processor

HERE = pathlib.Path(__file__).parent
PEER = HERE / "dist_peer.py"
STRATEGIES = ("ddp", "zero2", "fsdp")
HAVE_PEERS = ("ddp", "fsdp")
SIZES = {"turns": 5, "steps": 5, "warmup": 2, "ranks": 2, "batch": 4, "tokens": 256}
LOSS_TOLERANCE = 1e-4
LIMIT = 600  # seconds, of one start of a world
MB = 1e6


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("python")
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_world(command, ranks):
    """What the processes of a world printed, one object with lists of the slowest process's figures for each step."""
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
             "REPRISE_WORLD_SECRET": secrets.token_hex(32), "OMP_NUM_THREADS": "1", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    with tempfile.TemporaryDirectory() as folder:
        errors = [open(pathlib.Path(folder) / str(rank), "w+") for rank in range(ranks)]
        processes = [subprocess.Popen(list(map(str, command)), text=True, stdout=subprocess.PIPE, stderr=errors[rank],
                                      env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                     for rank in range(ranks)]
        try:
            outputs = [process.communicate(timeout=LIMIT)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        for process, file in zip(processes, errors):
            file.seek(0)
            if process.returncode != 0:
                sys.exit(f"{' '.join(map(str, command))} failed:\n{file.read()[-3000:]}")
            file.close()
    results = [json.loads(output.strip().splitlines()[-1]) for output in outputs]
    return {
        "ms": [max(times) for times in zip(*(result["ms"] for result in results))],
        "processor_ms": [max(times) for times in zip(*(result["processor_ms"] for result in results))],
        "loss": [statistics.mean(losses) for losses in zip(*(result["loss"] for result in results))],
        "state_bytes": max(result["state_bytes"] for result in results),
        "peak_bytes": max(result["peak_bytes"] for result in results),
    }


def measure(sides, arguments, flags):
    """Results of each side, over all turns: lists joined, bytes of the median turn."""
    sizes = itertools.chain.from_iterable((f"--{name}", str(getattr(arguments, name)))
                                          for name in ("batch", "tokens", "warmup", "steps"))
    options = [*flags, *sizes]
    turns = [[run_world([*side, *options], arguments.ranks) for side in sides] for _ in range(arguments.turns)]
    return [{
        **{key: [value for result in results for value in result[key]] for key in ("ms", "processor_ms", "loss")},
        **{key: statistics.median(result[key] for result in results) for key in ("state_bytes", "peak_bytes")},
    } for results in zip(*turns)]


def check_losses(ours, peer):
    """The largest relative difference, if it is small."""
    apart = max(abs(a - b) / abs(b) for a, b in zip(ours["loss"], peer["loss"]))
    if apart > LOSS_TOLERANCE:
        sys.exit(f"losses differ by {apart:.1e}, so the sides do not do the same work: {ours['loss']}, {peer['loss']}")
    return apart


def time_cells(ours, peer):
    def cell(result):
        low, middle, high = statistics.quantiles(result["ms"], n=4)
        return f"{middle:.0f} ({low:.0f} to {high:.0f})"

    def ratio(key):
        return f"{statistics.median(ours[key]) / statistics.median(peer[key]):.3f}"

    mine = statistics.median(ours["processor_ms"])
    if peer is None:
        return f"{cell(ours)} | | | {mine:.0f} | |"
    return (f"{cell(ours)} | {cell(peer)} | {ratio('ms')} | {mine:.0f} | "
            f"{statistics.median(peer['processor_ms']):.0f} | {ratio('processor_ms')}")


def byte_cells(ours, peer):
    cells = []
    for key in ("state_bytes", "peak_bytes"):
        cells += [f"{ours[key] / MB:.0f}", f"{peer[key] / MB:.0f}" if peer else ""]
    return " | ".join(cells)


def table(arguments, folder):
    """Rows of the page, and the largest difference of losses."""
    rows, apart = [], 0
    for strategy, checkpoints in itertools.product(STRATEGIES, (False, True)):
        sides = [[arguments.program, folder]]
        if strategy in HAVE_PEERS:
            sides.append([arguments.python, PEER, "step", folder])
        flags = ["--strategy", strategy, *(["--checkpoint"] if checkpoints else [])]
        ours, *others = measure(sides, arguments, flags)
        peer = others[0] if others else None
        if peer:
            apart = max(apart, check_losses(ours, peer))
        name = f"{strategy}, checkpointing" if checkpoints else strategy
        rows.append(f"| {name} | {time_cells(ours, peer)} | {byte_cells(ours, peer)} |")
        print(rows[-1], file=sys.stderr, flush=True)
    return rows, apart


def versions(python):
    program = "import torch, transformers as t; print(f'torch {torch.__version__}, transformers {t.__version__}')"
    return subprocess.run([python, "-c", program], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def page(arguments, load, rows, apart):
    build = f"BUILD={os.environ['BUILD']} " if os.environ.get("BUILD") else ""
    flags = " ".join(f"--{name} {getattr(arguments, name)}" for name in SIZES)
    return "\n".join([
        "# Optimizer steps of several processes, against PyTorch's DDP and FSDP2", "",
        f"`{build}script/bench dist {flags}`; {datetime.date.today()}, {os.cpu_count()} cores of {processor()},"
        f" {versions(arguments.python)}. {arguments.ranks} processes of one thread on Gloo, in turns with the peer:"
        f" {arguments.turns} turns of {arguments.steps} steps after {arguments.warmup} that do not count. Other"
        f" programs were a load of {load:.1f} when it began.", "",
        f"A llama of 9.0 million parameters in float32 (6 blocks of width 256, 8192 tokens), {arguments.batch} x"
        f" {arguments.tokens} tokens a process: forward, backward, clipping of the joint norm, fused AdamW. The peer is"
        " transformers' llama under `DistributedDataParallel` (gradients as views of its buckets) or `fully_shard` of"
        " every block and the whole, with `checkpoint_wrapper` (not reentrant) around every block.", "",
        "| | ms, reprise (quartiles) | PyTorch | ratio | processor ms, reprise | PyTorch | ratio | state MB, reprise"
        " | PyTorch | peak MB, reprise | PyTorch |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *rows, "",
        "Medians over all steps of all turns, of each step the slower process. Processor ms are of all threads of a"
        " process: what it works, without waiting. State is a process's parameters, gradients and moments. Peak is how"
        " far its resident set rose above what it was before the model was opened. zero2 is shown without a peer.", "",
        f"Losses of the sides differ by at most {apart:.1e}, relatively, after any step.", ""])


def main():
    arguments = parse()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "model"
        subprocess.run([arguments.python, PEER, "make", folder], check=True, stderr=subprocess.DEVNULL)
        text = page(arguments, load, *table(arguments, folder))
    print(text)
    (pathlib.Path(os.environ.get("OUT") or HERE / "results") / "dist-cpu.md").write_text(text)


if __name__ == "__main__":
    main()
