"""What gpu_compare.py measures, in which order: the first turn of everything, then the second turns.

The first turn has five steps or more, so that what only had that one has a median too.
"""
import dataclasses

from gpu_points import OURS
from gpu_shapes import Shape

ALL_MODES = ("none", "attention", "matmuls", "every2", "attention_but_last", "full_but_last", "full")
LONG = 32768  # tokens from which a step takes about a second
PARTS = ("kernels", "launch", "step", "graph", "training", "lora", "deterministic", "compile", "budget",
         "budgets", "long")
PEERLESS = {"kernels", "graph", "deterministic", "long"}  # parts in which ours runs alone
LAUNCH_SHAPE = Shape("1b", 1, 512)
# GiB in all: 1b:8x2048 takes 5.8 to 18.6. What other shapes cannot do is named as not measured.
BUDGETS = tuple(f"budget:{size}" for size in (
    "min", "6", "6.5", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "max"))
LENGTHS = (32768, 65536, 131072, 262144)  # of one row; each takes up to four times as long as the one before


@dataclasses.dataclass(frozen=True)
class Job:
    """Measurements that run without another side's between them."""

    side: str
    shape: Shape
    modes: tuple
    steps: int
    warmup: int
    flags: tuple = ()  # of bench_gpu
    seconds: int = 60  # for one mode of a peer, or for all of ours

    def __str__(self):
        return f"{self.side} {self.shape} {','.join(self.modes)}"

    def missing(self, why):
        flags = {flag.removeprefix("--"): True for flag in self.flags if flag.startswith("--")}
        return {"side": self.side, "shape": str(self.shape), "mode": ",".join(self.modes), **flags, "error": why}


def step_jobs(shape, turn, is_first, peers):
    """One turn of a shape: ours, then each peer. The first shape has all peers, the others the strongest and HF."""
    tokens = shape.batch * shape.seq
    steps, warmup = (5, 1 if tokens >= LONG else 2) if turn == 0 else (3, 1)
    if shape.is_launch_bound:
        steps *= 5
    # Ours counts regions in a step of its own before it times: a warm-up too.
    jobs = [Job(OURS, shape, ALL_MODES, steps, warmup - 1, seconds=120)]
    modes = {"liger": ("none", "gc", "selective"), "hf": ("none", "gc")}
    if is_first:
        modes = {"liger": ("none", "gc", "selective", "every2"), "liger_flash": ("none", "gc", "selective"),
                 "hf": ("none", "gc", "every2", "offload", "selective"),
                 "trl_head": ("none", "gc", "every2", "offload", "selective")}
    jobs += [Job(p, shape, m, steps, warmup) for p, m in modes.items() if p in peers]
    return jobs if turn % 2 == 0 else jobs[::-1]  # a card grows warm, and slower: nobody is always first


def whole_jobs(shape, side, flags, peers):
    """Ours and its peers with an optimizer or with adapters, plain and checkpointed: one turn."""
    jobs = [Job(OURS, shape, ("none", "full"), 5, 2, flags, 90)]
    return jobs + [Job(p, shape, ("none", "gc"), 5, 2) for p in peers if side in p]


def launch_jobs(turn, peers):
    """A step of few tokens, where the time is the launches': ours also as a recording, which is one launch."""
    steps, warmup = 25, 5
    jobs = [Job(OURS, LAUNCH_SHAPE, ("none", "full"), steps, warmup),
            Job(OURS, LAUNCH_SHAPE, ("none", "full"), steps, warmup, ("--graph",))]
    jobs += [Job(p, LAUNCH_SHAPE, ("none", "gc"), steps, warmup) for p in ("liger", "hf") if p in peers]
    return jobs if turn % 2 == 0 else jobs[::-1]


def graph_jobs(shapes):
    return [Job(OURS, shape, ("none", "attention", "full"), 5, 2, ("--graph",), 120) for shape in shapes]


def budgets_jobs(shape, turn, peers):
    """Our plans for budgets, our fixed policies, and the peers' ways to save memory: one turn."""
    steps, warmup = 5, 2
    ours = ("none", "full", "attention", "every2", "matmuls", *BUDGETS)
    # A GPU is fastest while it is cool: what is first in one turn is last in the next.
    jobs = [Job(OURS, shape, ours if turn % 2 == 0 else ours[::-1], steps, warmup, seconds=240)]
    modes = {"liger": ("none", "gc", "selective", "every2"), "hf": ("none", "gc", "every2", "offload", "selective")}
    jobs += [Job(p, shape, m, steps, warmup) for p, m in modes.items() if p in peers]
    return jobs if turn % 2 == 0 else jobs[::-1]


def long_job():
    """Rows of rising length, until memory or a minute a step run out: the step that counts regions, and one more."""
    lengths = ",".join(map(str, LENGTHS))
    return Job(OURS, Shape("1b", 1, LENGTHS[0]), ("full_offload",), 1, 0, ("--lengths", lengths), 240)


def compile_jobs(shape, parts, budgets):
    """Compiling takes half a minute to two for each mode."""
    jobs = []
    if "compile" in parts:
        jobs.append(Job("compile_blocks", shape, ("none", "gc", "selective"), 5, 2, seconds=150))
    if "budget" in parts:
        jobs.append(Job("compile_budget", shape, tuple(budgets), 5, 2, seconds=180))
    return jobs


def whole_plan(arguments):
    """What is measured once."""
    parts, peers, first = arguments.parts, arguments.peers, arguments.shapes[0]
    jobs = []
    if not {"step", "budgets"} & set(parts) and {"graph", "compile", "budget"} & set(parts):
        # So that their run can be compared with that of the step.
        jobs.append(Job(OURS, first, ("none", "full"), 5, 2, seconds=90))
    if "graph" in parts:
        jobs += graph_jobs(arguments.shapes)
    if "training" in parts:
        jobs += whole_jobs(Shape("1b", 8, 2048), "_train", ("--optimizer",), peers)
    if "lora" in parts:
        jobs += whole_jobs(Shape("8b", 1, 4096), "_lora", ("--lora",), peers)
    if "deterministic" in parts:
        jobs.append(Job(OURS, first, ALL_MODES, 5, 2, ("--deterministic",), 120))
    if "long" in parts:
        jobs.append(long_job())
    return jobs + compile_jobs(first, parts, arguments.budgets)


def plan(arguments):
    jobs = []
    for turn in range(arguments.turns):
        if "launch" in arguments.parts:
            jobs += launch_jobs(turn, arguments.peers)
        if "step" in arguments.parts:
            for shape in arguments.shapes:
                jobs += step_jobs(shape, turn, shape == arguments.shapes[0], arguments.peers)
        if "budgets" in arguments.parts:
            jobs += budgets_jobs(arguments.shapes[0], turn, arguments.peers)
        if turn == 0:
            jobs += whole_plan(arguments)
    return jobs
