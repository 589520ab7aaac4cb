"""The page of gpu_compare.py: what was measured, as markdown."""
from gpu_kernel_table import kernel_section
from gpu_points import OURS, RECORDED, SIDES, difference_between_runs, points_of

RIVAL = "liger"
# Which way of the peers is which of ours.
SAME_WAY = {"none": "none", "full": "gc", "attention": "selective", "every2": "every2"}
FLOOR_OF = {"none": "none", "full": "full", "gc": "full", "offload": "full", "attention": "attention",
            "selective": "attention"}
LOSS_TOLERANCE = 0.5  # weights are random and not the same, so losses only agree roughly
AIM = 0.95


def find(points, side, mode):
    return next((p for p in points if (p.side, p.mode) == (side, mode)), None)


def ratio(mine, theirs):
    return f"{mine / theirs:.3f}" if mine and theirs else ""


def rival_of(points, point, rival):
    return find(points, rival, SAME_WAY.get(point.way)) if point.side == OURS else None


def row(points, point, floor, rival):
    other = rival_of(points, point, rival)
    cells = [
        SIDES.get(point.side, point.side), point.label, f"{point.ms:.1f}", f"{point.gib:.2f}",
        ratio(point.ms, other and other.ms), ratio(point.gib, other and other.gib),
        ratio(point.ms, (floor or {}).get(FLOOR_OF.get(point.way))), f"{point.cpu_ms:.1f}",
        ratio(point.reserved_gib, point.gib), str(point.steps)]
    return f"| {' | '.join(cells)} |"


def in_order(points):
    order = {side: place for place, side in enumerate(SIDES)}
    return sorted(points, key=lambda p: order.get(p.side, len(order)))


def table(points, floor=None, rival=RIVAL):
    return ["| | | ms | GiB | ms / Liger's | GiB / Liger's | ms / floor | CPU ms | reserved / allocated | steps |",
            "|---|---|---|---|---|---|---|---|---|---|", *(row(points, p, floor, rival) for p in in_order(points))]


def launch_table(points):
    """Of a step so short that launching is what takes the time."""
    lines = ["| | | ms | CPU ms to launch | ms / Liger's | CPU ms / Liger's | GiB | steps |",
             "|---|---|---|---|---|---|---|---|"]
    for p in in_order(points):
        other = rival_of(points, p, RIVAL)
        cells = [SIDES.get(p.side, p.side), p.label, f"{p.ms:.2f}", f"{p.cpu_ms:.2f}", ratio(p.ms, other and other.ms),
                 ratio(p.cpu_ms, other and other.cpu_ms), f"{p.gib:.2f}", str(p.steps)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def verdicts(points, rival=RIVAL):
    """What the table says about the aims, in sentences."""
    lines = []
    for mode in (way + recorded for recorded in ("", RECORDED) for way in ("none", "attention", "full")):
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


TERMS = (
    "CPU ms is the time until the last kernel was launched. Ratios to Liger are to the same way to checkpoint with"
    " Liger's kernels and cuDNN's attention. The floor is the time of the matrix products and of attention alone, each"
    " measured by itself; of a recompute without the down projection, which early stop spares.")


def machine_lines(measured, terms=TERMS):
    """What was measured where and how; `terms` says what the page's own words mean."""
    run, runs = (measured.runs or [{}])[-1], measured.runs
    versions = ", ".join(f"{name} {version}" for name, version in measured.versions.items())
    yield f"{run.get('gpu', 'no GPU')}; {versions or 'no peer'}; {run.get('date', '')}. Written by:"
    yield from ("", "```", *(each["command"] for each in runs), "```", "")
    yield (
        "bfloat16, random weights and tokens, forward and backward; medians over all steps of all turns, in which the"
        f" sides took their turns on one GPU within one run. GiB is the peak of what was allocated. {terms}")
    difference = difference_between_runs(measured.results)
    if difference is not None:
        yield ""
        yield (f"Parts were measured in {len(runs)} runs. Ratios are between what one run measured where it measured"
               f" both; what of ours was measured in several runs differs by at most {difference:.1%}.")
    if measured.machine:
        yield ""
        yield (f"A copy moves {measured.machine['copy_gb_per_s']:.0f} GB/s, read and written; an 8192-cubed bfloat16"
               f" product runs at {measured.machine['matmul_tflop_per_s']:.0f} TFLOP/s.")


def shape_section(measured, shape):
    floor = measured.floors.get(str(shape))
    for kind, (heading, rival) in SECTIONS.items():
        points = points_of(measured.results, shape, kind)
        if not points:
            continue
        if kind == "step" and shape.is_launch_bound:
            yield from ("", f"## Launch-bound: {shape.title}", "", *launch_table(points))
            continue
        own_floor = floor if kind == "step" else None
        yield from ("", f"## {heading.format(shape.title)}", "", *table(points, own_floor, rival))
        if own_floor:
            parts = ", ".join(f"{name} {ms:.1f}" for name, ms in floor["parts"].items())
            yield ""
            yield (f"Floor: {floor['none']:.1f} ms, with attention kept {floor['attention']:.1f}, with full recompute"
                   f" {floor['full']:.1f} ({parts}).")
        said = verdicts(points, rival)
        yield from ("", *said) if said else ()


def page(measured, shapes, plot=None):
    """All that was measured, in markdown."""
    lines = ["# A training step on the GPU, against its peers", "", *machine_lines(measured)]
    if plot:
        lines += ["", f"![Time of a step against peak memory]({plot})"]
    for shape in shapes:
        lines += shape_section(measured, shape)
    lines += kernel_section(measured.kernels)
    missing = measured.missing()
    if missing:
        lines += ["", "## Not measured", "", *(f"- {line}" for line in missing)]
    return "\n".join(lines) + "\n"
