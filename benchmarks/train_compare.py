"""`reprise sft` against TRL's SFTTrainer: same model, data, machine, in turns. Prints ratios.

    train_compare.py PROGRAM PYTHON [--turns 2] [--steps 5] [--batch 4] [--length 410] [--threads 2]

Checkpointing is on in both. Peak memory is the largest resident set of the whole process. TRL projects every position
onto the vocabulary here and drops the ignored ones afterwards; all positions of these rows are trained on, so that
does not count against it.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def run(command, environment, watched=None):
    """What the command printed, its peak resident set in bytes, and after how many seconds `watched` had a line."""
    seen = None
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.time()
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=errors, env=environment)
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG if watched and seen is None else 0)
            if pid != 0:
                break
            if watched.exists() and "\n" in watched.read_text():
                seen = time.time() - started
            time.sleep(0.005)
        output.seek(0), errors.seek(0)
        if status != 0:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{errors.read()[-3000:]}")
        return output.read(), usage.ru_maxrss * 1024, seen


def ours(program, folder, options, environment):
    output = folder / "reprise"
    shutil.rmtree(output, ignore_errors=True)
    metrics = output / "metrics.jsonl"
    _, peak, first = run([program, "sft", "--model", folder / "model", "--data", folder / "data.jsonl", "--output_dir", output,
                   "--per_device_train_batch_size", str(options.batch), "--max_steps", str(options.steps),
                   "--max_length", str(options.length), "--gradient_checkpointing", "--device", "cpu",
                   "--save_steps", "0", "--cache_dir", folder / "cache"], environment, metrics)
    shutil.rmtree(folder / "cache")  # tokenising is part of every start
    steps = [json.loads(line) for line in metrics.read_text().splitlines()]
    return {"start_ms": first * 1000 - steps[0]["step_ms"], "step_ms": [step["step_ms"] for step in steps],
            "tokens": [step["tokens"] for step in steps], "loss": [step["loss"] for step in steps], "peak": peak}


def theirs(python, folder, options, environment):
    peer = pathlib.Path(__file__).with_name("train_peer.py")
    output, peak, _ = run([python, peer, "run", folder, "--steps", str(options.steps), "--batch", str(options.batch),
                        "--length", str(options.length), "--threads", str(options.threads)], environment)
    return {**json.loads(output.strip().splitlines()[-1]), "peak": peak}


def summary(results):
    rates = [tokens / ms * 1000 for result in results
             for tokens, ms in list(zip(result["tokens"], result["step_ms"]))[1:]]
    return {"tokens_per_s": statistics.median(rates), "peak": statistics.median(r["peak"] for r in results),
            "start_ms": statistics.median(r["start_ms"] for r in results)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("python")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=410)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "HF_HUB_OFFLINE": "1",
                   "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run([options.python, pathlib.Path(__file__).with_name("train_peer.py"), "make", folder,
             "--length", str(options.length)], environment)
        pairs = [(ours(options.program, folder, options, environment),
                  theirs(options.python, folder, options, environment)) for _ in range(options.turns)]
    own, peer = summary([pair[0] for pair in pairs]), summary([pair[1] for pair in pairs])
    print("| | reprise | TRL | ratio |\n|---|---|---|---|")
    print(f"| tokens/s | {own['tokens_per_s']:.1f} | {peer['tokens_per_s']:.1f} "
          f"| {own['tokens_per_s'] / peer['tokens_per_s']:.2f} |")
    print(f"| peak resident set, MB | {own['peak'] / 1e6:.0f} | {peer['peak'] / 1e6:.0f} "
          f"| {own['peak'] / peer['peak']:.2f} |")
    print(f"| start to first step, s | {own['start_ms'] / 1e3:.2f} | {peer['start_ms'] / 1e3:.2f} "
          f"| {own['start_ms'] / peer['start_ms']:.3f} |")
    losses = [(a, b) for pair in pairs for a, b in zip(pair[0]["loss"], pair[1]["loss"])]
    print(f"\nLargest relative difference of a loss: {max(abs(a - b) / abs(b) for a, b in losses):.1e}")


if __name__ == "__main__":
    main()
