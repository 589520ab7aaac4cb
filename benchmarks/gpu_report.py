"""The tables of gpu_compare.py: what was measured, as markdown.

A result is one line of bench_gpu or gpu_peer.py. Lines of several turns are one point: the median over all their steps,
the most over their peaks.
"""
import collections
import dataclasses
import statistics

GIB = 2**30
OURS = "reprise"
RIVAL = "liger"
SIDES = {
    "reprise": "Reprise",
    "liger": "HF + Liger, cuDNN attention",
    "liger_flash": "HF + Liger, flash attention",
    "hf": "HF transformers",
    "trl_head": "HF + TRL's chunked head",
    "compile_blocks": "blocks compiled, Liger's loss, cuDNN attention",
    "compile_budget": "torch.compile, memory budget",
    "hf_train": "HF, bfloat16 weights and moments",
    "liger_train": "HF + Liger + cuDNN, bfloat16 weights and moments",
    "hf_train32": "HF, float32 weights, autocast",
    "liger_train32": "HF + Liger + cuDNN, float32 weights, autocast",
    "hf_lora": "HF + peft",
    "liger_lora": "HF + peft + Liger + cuDNN",
}
MODES = {"none": "no checkpointing", "full": "full recompute", "gc": "full recompute", "attention": "attention kept",
         "selective": "attention kept", "matmuls": "every second matmul kept", "every2": "every second block",
         "offload": "full, inputs offloaded"}
# Which way of the peers is which of ours.
SAME_WAY = {"none": "none", "full": "gc", "attention": "selective", "every2": "every2"}
FLOOR_OF = {"none": "none", "full": "full", "gc": "full", "offload": "full", "attention": "attention",
            "selective": "attention"}
LOSS_TOLERANCE = 0.5  # weights are random and not the same, so losses only agree roughly
AIM = 0.95


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
    def label(self):
        return MODES.get(self.mode, f"budget {self.mode}")


def kind_of(result):
    """What was measured: a step, a step with its update, one of adapters, or one with deterministic kernels."""
    side = result["side"]
    if result.get("optimizer") or "train" in side:
        return "training"
    if result.get("lora") or "lora" in side:
        return "lora"
    return "deterministic" if result.get("deterministic") else "step"


def points_of(results, shape, kind="step"):
    """The points of a shape, in the order in which they were first measured."""
    groups = collections.defaultdict(list)
    for result in results:
        if "times" in result and (result["shape"], result["batch"], result["seq"]) == (
                shape.name, shape.batch, shape.seq) and kind_of(result) == kind:
            groups[result["side"], result["mode"]].append(result)
    return [merged(side, mode, group) for (side, mode), group in groups.items()]


def merged(side, mode, group):
    times = [ms for result in group for ms in result["times"]]
    return Point(
        side, mode, statistics.median(times), statistics.median(r["cpu_ms"] for r in group),
        max(r.get("peak_bytes", 0) for r in group) / GIB, max(r.get("reserved_bytes", 0) for r in group) / GIB,
        group[-1]["loss"], len(times))


def find(points, side, mode):
    return next((p for p in points if (p.side, p.mode) == (side, mode)), None)


def ratio(mine, theirs):
    return f"{mine / theirs:.3f}" if mine and theirs else ""


def rival_of(points, point, rival):
    return find(points, rival, SAME_WAY.get(point.mode)) if point.side == OURS else None


def row(points, point, floor, rival):
    other = rival_of(points, point, rival)
    cells = [
        SIDES.get(point.side, point.side), point.label, f"{point.ms:.1f}", f"{point.gib:.2f}",
        ratio(point.ms, other and other.ms), ratio(point.gib, other and other.gib),
        ratio(point.ms, (floor or {}).get(FLOOR_OF.get(point.mode))), f"{point.cpu_ms:.1f}",
        ratio(point.reserved_gib, point.gib), str(point.steps)]
    return f"| {' | '.join(cells)} |"


def table(points, floor=None, rival=RIVAL):
    order = {side: place for place, side in enumerate(SIDES)}
    lines = [
        "| | | ms | GiB | ms / Liger's | GiB / Liger's | ms / floor | CPU ms | reserved / allocated | steps |",
        "|---|---|---|---|---|---|---|---|---|---|"]
    lines += [row(points, p, floor, rival) for p in sorted(points, key=lambda p: order.get(p.side, len(order)))]
    return lines


def verdicts(points, rival=RIVAL):
    """What the table says about the aims, in sentences."""
    lines = []
    for mode in ("none", "attention", "full"):
        mine = find(points, OURS, mode)
        other = mine and rival_of(points, mine, rival)
        if other:
            held = mine.ms <= AIM * other.ms and mine.gib <= other.gib
            lines.append(
                f"- {mine.label}: {mine.ms / other.ms:.3f} of Liger's time at {mine.gib / other.gib:.3f} of its memory;"
                f" the aim of {AIM} at no more memory is {'reached' if held else 'NOT reached'}.")
    ours = [p for p in points if p.side == OURS]
    unbeaten = [p for p in points if p.side != OURS and not any(o.ms <= p.ms and o.gib <= p.gib for o in ours)]
    if ours and len(ours) < len(points):
        names = "; ".join(f"{SIDES.get(p.side, p.side)}, {p.label} ({p.ms:.1f} ms, {p.gib:.2f} GiB)" for p in unbeaten)
        lines.append(f"- Peers that no point of ours beats in time and memory at once: {names or 'none'}.")
    losses = {p.loss for p in points}
    if losses and max(losses) - min(losses) > LOSS_TOLERANCE:
        lines.append(f"- LOSSES ARE {max(losses) - min(losses):.2f} APART: not all sides do the same work.")
    return lines


SECTIONS = {  # kind: heading, the peer that ratios are of
    "step": ("{}", RIVAL),
    # Ours updates float32 copies of the weights, so the like of it is a peer with float32 weights.
    "training": ("{}: the whole step, with clipping and AdamW", "liger_train32"),
    "lora": ("{}: adapters of rank 16 on all projections", "liger_lora"),
    "deterministic": ("{}: deterministic kernels", None),
}


def machine_lines(run):
    versions = ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())
    rates = run.get("machine")
    yield f"{run.get('gpu', 'no GPU')}; {versions or 'no peer'}; {run.get('date', '')}. Written by:"
    yield from ("", "```", run.get("command", ""), "```", "")
    yield (
        "bfloat16, random weights and tokens, forward and backward; medians over all steps of all turns, in which the"
        " sides took their turns on one GPU within one run. GiB is the peak of what was allocated. CPU ms is the time"
        " until the last kernel was launched. Ratios to Liger are to the same way to checkpoint with Liger's kernels"
        " and cuDNN's attention. The floor is the time of the matrix products and of attention alone, each measured"
        " by itself; of a recompute without the down projection, which early stop spares.")
    if rates:
        yield ""
        yield (f"A copy moves {rates['copy_gb_per_s']:.0f} GB/s, read and written; an 8192-cubed bfloat16 product runs"
               f" at {rates['matmul_tflop_per_s']:.0f} TFLOP/s.")


def page(run, shapes, plot=None):
    """The whole of a run in markdown."""
    lines = ["# A training step on the GPU, against its peers", "", *machine_lines(run)]
    if plot:
        lines += ["", f"![Time of a step against peak memory]({plot})"]
    for shape in shapes:
        floor = run.get("floors", {}).get(str(shape))
        for kind, (heading, rival) in SECTIONS.items():
            points = points_of(run["results"], shape, kind)
            if not points:
                continue
            own_floor = floor if kind == "step" else None
            lines += ["", f"## {heading.format(shape.title)}", "", *table(points, own_floor, rival)]
            if own_floor:
                parts = ", ".join(f"{name} {ms:.1f}" for name, ms in floor["parts"].items())
                lines += ["", f"Floor: {floor['none']:.1f} ms, with attention kept {floor['attention']:.1f}, with full"
                          f" recompute {floor['full']:.1f} ({parts})."]
            lines += ["", *verdicts(points, rival)]
    if run.get("missing"):
        lines += ["", "## Not measured", "", *(f"- {line}" for line in run["missing"])]
    return "\n".join(lines) + "\n"
