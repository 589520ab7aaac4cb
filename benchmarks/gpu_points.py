"""What bench_gpu and gpu_peer.py measured, as points of time and memory, and the names of sides and modes.

A result is one line of either. Lines of several turns are one point: the median over all their steps, the most over
their peaks.
"""
import collections
import dataclasses
import statistics

GIB = 2**30
OURS = "reprise"
SIDES = {
    "reprise": "Reprise",
    "reprise_policy": "Reprise, a fixed policy",  # beside plans for budgets
    "liger": "HF + Liger, cuDNN attention",
    "liger_flash": "HF + Liger, flash attention",
    "hf": "HF transformers",
    "trl_head": "HF + TRL's chunked head",
    "compile_blocks": "blocks compiled, Liger's loss, cuDNN attention",
    "compile_budget": "torch.compile of the whole model",
    "hf_train": "HF, bfloat16 weights and moments",
    "liger_train": "HF + Liger + cuDNN, bfloat16 weights and moments",
    "hf_train32": "HF, float32 weights, autocast",
    "liger_train32": "HF + Liger + cuDNN, float32 weights, autocast",
    "hf_lora": "HF + peft",
    "liger_lora": "HF + peft + Liger + cuDNN",
}
MODES = {"none": "no checkpointing", "full": "full recompute", "gc": "full recompute", "attention": "attention kept",
         "selective": "attention kept", "matmuls": "every second matmul kept", "every2": "every second block",
         "full_but_last": "full, but for the last block",
         "attention_but_last": "attention kept, last block plain",
         "full_offload": "full, inputs offloaded",
         "offload": "full, inputs offloaded"}
BUDGET = "budget:"  # GiB in all, min or max: a mode of bench_gpu
RECORDED = " (recorded)"  # a mode whose step was recorded once and is replayed: bench_gpu --graph


@dataclasses.dataclass(frozen=True)
class Point:
    side: str
    mode: str
    ms: float
    cpu_ms: float
    gib: float
    reserved_gib: float
    loss: float
    steps: int

    @property
    def way(self):
        """How it checkpoints, recorded or not."""
        return self.mode.removesuffix(RECORDED)

    @property
    def label(self):
        name = MODES.get(self.way, f"budget {self.way}")
        if self.way.startswith(BUDGET):
            size = self.way.removeprefix(BUDGET)
            name = {"min": "least", "max": "all"}.get(size, f"{size} GiB")
        return name + (RECORDED if self.mode != self.way else "")


def is_budget(result):
    """Whether it is of a plan of ours for a budget."""
    return result.get("side") == OURS and result.get("mode", "").startswith(BUDGET)


def mode_of(result):
    return result["mode"] + (RECORDED if result.get("graph") else "")


def shape_of(line):
    """1b:8x2048, of a result or of a request."""
    return f"{line['shape']}:{line['batch']}x{line['seq']}" if "batch" in line else line["shape"]


def kind_of(result):
    """What was measured: a step, a step with its update, one of adapters, or one with deterministic kernels."""
    side = result["side"]
    if result.get("optimizer") or "train" in side:
        return "training"
    if result.get("lora") or "lora" in side:
        return "lora"
    return "deterministic" if result.get("deterministic") else "step"


def points_of(results, shape, kind="step"):
    """The points of a shape, in the order in which they were first measured.

    Of ours count the runs that measured Liger too, if any did: ratios are between what one run measured.
    """
    groups, beside_liger = collections.defaultdict(list), set()
    for result in results:
        if "times" in result and shape_of(result) == str(shape) and kind_of(result) == kind:
            groups[result["side"], mode_of(result)].append(result)
            beside_liger |= {result.get("of_run")} if result["side"].startswith("liger") else set()
    for (side, _), group in groups.items():
        if side == OURS:
            group[:] = [r for r in group if r.get("of_run") in beside_liger] or group
    return [merged(side, mode, group) for (side, mode), group in groups.items()]


def difference_between_runs(results):
    """The largest difference of the same measurement of ours in two runs, as a share; none with a single run."""
    medians = collections.defaultdict(lambda: collections.defaultdict(list))
    for result in results:
        if "times" in result and result["side"] == OURS:
            measurement = shape_of(result), kind_of(result), mode_of(result)
            medians[measurement][result.get("of_run")] += result["times"]
    repeated = [[statistics.median(times) for times in runs.values()] for runs in medians.values() if len(runs) > 1]
    return max((max(times) / min(times) - 1 for times in repeated), default=None)


def merged(side, mode, group):
    times = [ms for result in group for ms in result["times"]]
    return Point(
        side, mode, statistics.median(times), statistics.median(r["cpu_ms"] for r in group),
        max(r.get("peak_bytes", 0) for r in group) / GIB, max(r.get("reserved_bytes", 0) for r in group) / GIB,
        group[-1]["loss"], len(times))
