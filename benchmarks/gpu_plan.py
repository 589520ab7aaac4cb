"""What gpu_compare.py measures, in which order: the first turn of everything, then the second turns.

The first turn has five steps or more, so that what only had that one has a median too.
"""
import dataclasses

from gpu_report import OURS, kind_of
from gpu_shapes import Shape

ALL_MODES = ("none", "attention", "matmuls", "every2", "full")
LONG = 32768  # tokens from which a step takes about a second
SHORT = 1024  # tokens up to which a step is bound by launches, and its time by chance


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

    @property
    def kind(self):
        return kind_of({"side": self.side, **{flag.removeprefix("--"): True for flag in self.flags}})

    def missing(self, why):
        return {"side": self.side, "shape": str(self.shape), "mode": ",".join(self.modes), "error": why}


def step_jobs(shape, turn, is_first, peers):
    """One turn of a shape: ours, then each peer. The first shape has all peers, the others the strongest and HF."""
    tokens = shape.batch * shape.seq
    steps, warmup = (5, 1 if tokens >= LONG else 2) if turn == 0 else (3, 1)
    if tokens <= SHORT:
        steps *= 5
    # Ours counts regions in a step of its own before it times: a warm-up too.
    jobs = [Job(OURS, shape, ALL_MODES, steps, warmup - 1, seconds=120)]
    modes = {"liger": ("none", "gc", "selective"), "hf": ("none", "gc")}
    if is_first:
        modes = {"liger": ("none", "gc", "selective", "every2"), "liger_flash": ("none", "gc", "selective"),
                 "hf": ("none", "gc", "every2", "offload"),
                 "trl_head": ("none", "gc", "every2", "offload", "selective")}
    jobs += [Job(p, shape, m, steps, warmup) for p, m in modes.items() if p in peers]
    return jobs if turn % 2 == 0 else jobs[::-1]  # a card grows warm, and slower: nobody is always first


def whole_jobs(shape, side, flags, peers):
    """Ours and its peers with an optimizer or with adapters, plain and checkpointed: one turn."""
    jobs = [Job(OURS, shape, ("none", "full"), 5, 2, flags, 90)]
    return jobs + [Job(p, shape, ("none", "gc"), 5, 2) for p in peers if side in p]


def compile_jobs(shape):
    """Compiling takes half a minute to two for each mode."""
    return [Job("compile_blocks", shape, ("none", "gc", "selective"), 5, 2, seconds=150),
            Job("compile_budget", shape, ("1.0", "0.5", "0.0"), 5, 2, seconds=180)]


def plan(arguments):
    first = arguments.shapes[0]
    jobs = []
    for turn in range(arguments.turns):
        if "step" in arguments.parts:
            for shape in arguments.shapes:
                jobs += step_jobs(shape, turn, shape == first, arguments.peers)
        if turn == 0 and "training" in arguments.parts:
            jobs += whole_jobs(Shape("1b", 8, 2048), "_train", ("--optimizer",), arguments.peers)
        if turn == 0 and "lora" in arguments.parts:
            jobs += whole_jobs(Shape("8b", 1, 4096), "_lora", ("--lora",), arguments.peers)
        if turn == 0 and "deterministic" in arguments.parts:
            jobs += [Job(OURS, first, ALL_MODES, 5, 2, ("--deterministic",), 120)]
        if turn == 0 and "compile" in arguments.parts:
            jobs += compile_jobs(first)
    return jobs
