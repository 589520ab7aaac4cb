"""Runs bench_gpu, bench_kernels and their peers in turns on one GPU, and writes the tables and the plot of time against
memory.

usage: gpu_compare.py <bench_gpu> <python with torch and transformers> [--shapes 1b:8x2048,...] [--parts step,training]
       gpu_compare.py --merge FILE.jsonl ...       the page of one run or several, without a GPU

Each result is written at once to a file of JSON lines, so that a run that is stopped leaves what it has: gpu.jsonl in
$OUT if that is set, else in build/bench. With --raw FILE it goes there and the page is only printed: parts can be
measured in runs of their own and merged. h200.md, h200.svg and, with a converter (gpu_png.py), h200.png go to $OUT
too, else to benchmarks/results. The peers' process lives through the whole run, since importing torch and transformers
takes a quarter of a minute. What does not fit into --minutes is left out and named: second turns first.

Parts: step (the shapes, all peers but the compiled), launch (a step of 512 tokens), graph (ours recorded), kernels
(each by itself), training and lora (with an optimizer, with adapters), deterministic, compile (torch.compile, block by
block), budget (torch.compile of the whole model with each of --budgets). Compiling takes up to two minutes for each.

budgets (our plans for memory budgets, our policies, HF and Liger at the first shape) and long (one row of up to 262,144
tokens) have a page of their own, budgets-h200.md: --parts budgets,budget,long puts torch.compile's budgets beside ours.
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

from gpu_budgets import budget_page, budget_points, long_results, shape_planned
from gpu_plan import PARTS, PEERLESS, plan
from gpu_plot import pareto
from gpu_png import write_png
from gpu_points import OURS, points_of
from gpu_processes import PeerProcess, run_kernels, run_ours
from gpu_raw import Measured, read
from gpu_report import page
from gpu_shapes import Shape

HERE = pathlib.Path(__file__).parent
SHAPES = "1b:8x2048,1b:2x8192,8b:1x4096,1b:1x32768"
KERNEL_SECONDS = 180
OWN_PAGE = {"budgets", "long"}


class Run:
    """What was measured so far, in memory and in the file."""

    def __init__(self, arguments):
        self.end = time.monotonic() + 60 * arguments.minutes
        self.measured = Measured()
        arguments.raw.parent.mkdir(parents=True, exist_ok=True)
        self.file = arguments.raw.open("w")
        self.add({"run": {
            "command": command_line(sys.argv[3:]), "date": str(datetime.date.today()),
            "gpu": gpu_name(), "shapes": [str(s) for s in arguments.shapes] if "step" in arguments.parts else []}})

    def left(self):
        return self.end - time.monotonic()

    def add(self, line):
        self.measured.add(line)
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        shown = {key: value for key, value in line.items() if key not in ("times", "floor")}
        print(f"{self.left():5.0f} s left  {json.dumps(shown)}", flush=True)

    def leave_out(self, job):
        missing = job.missing("no time was left")
        if self.measured.has(missing):
            print(f"no time for another turn of {job}", flush=True)
        else:
            self.add(missing)


def command_line(flags):
    """As one would type it elsewhere: without folders of this machine."""
    shown, rest = [], iter(flags)
    for flag in rest:
        if flag == "--raw":
            next(rest)
        elif flag in ("--packages", "--liger"):
            shown += [flag, "<folder with liger_kernel, peft and trl>"]
            next(rest)
        else:
            shown.append(shlex.quote(flag))
    return " ".join(["script/bench", "gpu", *shown])


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
        if "kernels" in arguments.parts:
            program = pathlib.Path(arguments.program).with_name("bench_kernels")
            for line in run_kernels(program, min(KERNEL_SECONDS, run.left())):
                run.add(line)
        if set(arguments.parts) - PEERLESS:
            run.add(peer.ask({"kernels": True}, 120))
        with_floor = arguments.shapes if "step" in arguments.parts else arguments.shapes[:1]
        for shape in with_floor if {"step", "budgets"} & set(arguments.parts) else ():
            run.add(peer.ask({"floor": str(shape)}, 40))
        for job in plan(arguments):
            perform(job, run, arguments.program, peer)
    return run.measured


def step_files(measured):
    """The name of its files, the page, the shape to draw and what gives its points."""
    shapes = [Shape.parse(shape) for shape in measured.shapes]
    drawn = next((s for s in shapes if not s.is_launch_bound and points_of(measured.results, s)), None)
    return "h200", page(measured, shapes, "h200.svg" if drawn else None), drawn, points_of


def budget_files(measured):
    shape = shape_planned(measured.results)
    drawn = Shape.parse(shape) if shape else None
    return "budgets-h200", budget_page(measured, drawn, "budgets-h200.svg"), drawn, budget_points


def write(measured, folder):
    """Without a folder the page is only printed."""
    has_budgets = shape_planned(measured.results) or long_results(measured.results)
    name, text, drawn, points_for = (budget_files if has_budgets else step_files)(measured)
    print(text)
    if not folder:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text)
    if drawn:
        title = f"{drawn.title}, bfloat16, {measured.runs[-1]['gpu'].split(',')[0]}"
        svg = folder / f"{name}.svg"
        svg.write_text(pareto(title, points_for(measured.results, drawn), measured.floors.get(str(drawn))))
        print(write_png(svg), file=sys.stderr)


def words(text):
    return [word for word in text.split(",") if word]


def parts_named(text):
    unknown = [part for part in words(text) if part not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {', '.join(unknown)}: expected {', '.join(PARTS)}")
    return words(text)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("python", nargs="?")
    parser.add_argument("--shapes", type=lambda text: [Shape.parse(s) for s in words(text)], default=SHAPES)
    parser.add_argument("--parts", type=parts_named, default="kernels,launch,step,training,lora")
    parser.add_argument("--peers", type=words,
                        default="liger,hf,liger_flash,trl_head,liger_train32,liger_train,hf_train32,hf_train,"
                                "liger_lora,hf_lora")
    parser.add_argument("--budgets", type=words, default="1.0,0.8,0.6,0.4,0.2,gc,selective",
                        help="of activation memory; gc: full recompute, selective: attention kept")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--packages", "--liger", help="folder with liger_kernel, trl, peft, if not installed")
    parser.add_argument("--raw", type=pathlib.Path, help="where the lines of this run go, to be merged")
    parser.add_argument("--merge", type=pathlib.Path, nargs="+", help="raw files of runs, oldest first")
    arguments = parser.parse_args()
    if not arguments.merge and not arguments.python:
        parser.error("bench_gpu and a Python are needed, or --merge")
    if arguments.merge and arguments.raw:
        parser.error("--raw is for a run, and --merge runs nothing")
    if not arguments.merge and OWN_PAGE & set(arguments.parts) and set(arguments.parts) - OWN_PAGE - {"budget"}:
        parser.error("budgets and long have a page of their own: of the other parts only budget goes with them")
    return arguments


def main():
    arguments = parse()
    out = pathlib.Path(os.environ["OUT"]) if os.environ.get("OUT") else None
    pages = None if arguments.raw else out or HERE / "results"
    arguments.raw = arguments.raw or (out or HERE.parent / "build" / "bench") / "gpu.jsonl"
    write(read(arguments.merge) if arguments.merge else measure(arguments), pages)


if __name__ == "__main__":
    main()
