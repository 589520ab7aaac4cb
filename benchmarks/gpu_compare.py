"""Runs bench_gpu and its peers in turns on one GPU, and writes the table and the plot of time against memory.

usage: gpu_compare.py <bench_gpu> <python with torch and transformers> [--shapes 1b:8x2048,...] [--parts step,training]
       gpu_compare.py --from gpu.json       writes the page again from what a run left, without a GPU

Results go to gpu.json after every measurement, so that a run that is stopped leaves what it has: in $OUT if that is
set, else in build/bench. h200.md and h200.svg go to $OUT too, else to benchmarks/results. The peers' process lives
through the whole run, since importing torch and transformers takes a quarter of a minute. What does not fit into
--minutes is left out and named: second turns first.
"""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

from gpu_plan import plan
from gpu_plot import pareto
from gpu_processes import PeerProcess, run_ours
from gpu_report import OURS, page, points_of
from gpu_shapes import Shape

HERE = pathlib.Path(__file__).parent
SHAPES = "1b:8x2048,1b:2x8192,8b:1x4096,1b:1x32768,1b:1x512"


class Run:
    """What was measured so far, in memory and in the file."""

    def __init__(self, arguments):
        self.path = arguments.out / "gpu.json"
        self.end = time.monotonic() + 60 * arguments.minutes
        self.data = {
            "command": shlex.join(["script/bench", "gpu", *sys.argv[3:]]), "date": str(datetime.date.today()),
            "gpu": gpu_name(), "shapes": [str(shape) for shape in arguments.shapes],
            "results": [], "floors": {}, "missing": []}

    def left(self):
        return self.end - time.monotonic()

    def add(self, result):
        if "error" in result:
            named = " ".join(str(result[key]) for key in ("side", "peer", "shape", "floor", "mode") if key in result)
            line = f"{named or 'the machine'}: {result['error']}"
            self.data["missing"] += [] if line in self.data["missing"] else [line]
        elif "floor" in result:
            self.data["floors"][result["shape"]] = result["floor"]
        elif "machine" in result:
            self.data.update(result)
        else:
            self.data["results"].append(result)
        self.save()
        shown = {key: value for key, value in result.items() if key not in ("times", "floor")}
        print(f"{self.left():5.0f} s left  {json.dumps(shown)}", flush=True)

    def leave_out(self, job):
        if any(point.side == job.side for point in points_of(self.data["results"], job.shape, job.kind)):
            print(f"no time for another turn of {job}", flush=True)
        else:
            self.add(job.missing("no time was left"))

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = self.path.with_suffix(".part")
        whole.write_text(json.dumps(self.data, indent=1))
        whole.replace(self.path)


def gpu_name():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().replace(
            ", ", ", driver ", 1)
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"


def perform(job, run, program, peer):
    if run.left() <= 0:
        run.leave_out(job)
    elif job.side == OURS:
        for result in run_ours(program, job, min(job.seconds, run.left() + 10)):
            run.add(result)
    else:
        for mode in job.modes:
            request = {"peer": job.side, "shape": str(job.shape), "mode": mode, "steps": job.steps,
                       "warmup": job.warmup}
            run.add(peer.ask(request, min(job.seconds, max(run.left(), 0) + 10)))


def measure(arguments):
    run = Run(arguments)
    command = [arguments.python, HERE / "gpu_peer.py", "--serve"]
    if arguments.packages:
        command += ["--packages", arguments.packages]
    with PeerProcess(command) as peer:
        run.add(peer.ask({"kernels": True}, 120))
        for shape in arguments.shapes:
            run.add(peer.ask({"floor": str(shape)}, 40))
        for job in plan(arguments):
            perform(job, run, arguments.program, peer)
    return run.data


def write(data, folder):
    # Training and adapters have shapes of their own.
    measured = [str(Shape(r["shape"], r["batch"], r["seq"])) for r in data["results"]]
    shapes = [Shape.parse(shape) for shape in dict.fromkeys(data["shapes"] + measured)]
    points = points_of(data["results"], shapes[0])
    folder.mkdir(parents=True, exist_ok=True)
    if points:
        title = f"{shapes[0].title}, bfloat16, {data['gpu'].split(',')[0]}"
        (folder / "h200.svg").write_text(pareto(title, points, data["floors"].get(str(shapes[0]))))
    text = page(data, shapes, "h200.svg" if points else None)
    (folder / "h200.md").write_text(text)
    print(text)


def words(text):
    return [word for word in text.split(",") if word]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("python", nargs="?")
    parser.add_argument("--shapes", type=lambda text: [Shape.parse(s) for s in words(text)], default=SHAPES)
    parser.add_argument("--parts", type=words, default="step,training,lora",
                        help="step, training, lora, deterministic, compile")
    parser.add_argument("--peers", type=words,
                        default="liger,hf,liger_flash,trl_head,liger_train32,liger_train,hf_train32,hf_train,"
                                "liger_lora,hf_lora")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--packages", "--liger", help="folder with liger_kernel, trl, peft, if not installed")
    parser.add_argument("--from", dest="source", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=os.environ.get("OUT") or HERE.parent / "build" / "bench")
    arguments = parser.parse_args()
    if not arguments.source and not arguments.python:
        parser.error("bench_gpu and a Python are needed, or --from")
    return arguments


def main():
    arguments = parse()
    data = json.loads(arguments.source.read_text()) if arguments.source else measure(arguments)
    write(data, arguments.out if os.environ.get("OUT") else HERE / "results")


if __name__ == "__main__":
    main()
