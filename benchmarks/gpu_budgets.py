"""Our plans for memory budgets beside the peers' ways to save memory: the page of the parts `budgets` and `long`.

A budget is of all that is on the device, as the peak of a peer is. A peer lies below our curve if it is faster than our
plans at the same peak; between two measured budgets the curve is a straight line.
"""
import collections
import dataclasses
import statistics

from gpu_points import BUDGET, GIB, OURS, SIDES, is_budget, kind_of, points_of, shape_of
from gpu_report import find, machine_lines

POLICY = "reprise_policy"  # ours without a plan, as a side of its own
ASKED = ("10", "14")  # GiB that the page answers for by name
SAME = 0.001  # of a peak: so small a difference is the allocator's rounding
NOISE = 0.005  # of a time: two measurements of one step differ by as much
TERMS = (
    "A budget is of all bytes on the device: weights, gradients and activations; so are the predicted and the measured"
    " peak. The predicted ratio is what the plan promised.")


@dataclasses.dataclass(frozen=True)
class Held:
    """A budget over all turns: every turn planned anew."""

    name: str
    results: tuple

    def most(self, key):
        return max(result[key] for result in self.results)

    @property
    def is_asked(self):
        """The least and the most are what their plans take, so they are held by nature."""
        return self.name not in ("min", "max")

    @property
    def use(self):
        return max(r["peak_bytes"] / r["budget_bytes"] for r in self.results)

    @property
    def error(self):
        """Of the prediction: the one that is furthest off."""
        return max((r["peak_bytes"] / r["predicted_bytes"] - 1 for r in self.results), key=abs)


def planned(results, shape):
    groups = collections.defaultdict(list)
    for result in results:
        if is_budget(result) and "times" in result and shape_of(result) == str(shape):
            groups[result["mode"].removeprefix(BUDGET)].append(result)
    return [Held(name, tuple(group)) for name, group in groups.items()]


def curve_of(points):
    """(GiB, ms) from the least memory on; a plan of fewer bytes also fits more."""
    curve, fastest = [], float("inf")
    for point in sorted(points, key=lambda p: p.gib):
        fastest = min(fastest, point.ms)
        curve.append((point.gib, fastest))
    return curve


def time_at(curve, gib):
    """Of our plans within so much memory; infinite below the least."""
    if gib < curve[0][0] * (1 - SAME):
        return float("inf")
    for (low, slow), (high, fast) in zip(curve, curve[1:]):
        if gib < high:
            gib = max(gib, low)
            return slow + (fast - slow) * (gib - low) / (high - low)
    return curve[-1][1]


def below(points, curve, margin=0.0):
    return [p for p in points if p.ms < (1 - margin) * time_at(curve, p.gib)]


def named(points, curve):
    texts = (f"{SIDES[p.side]}, {p.label} ({p.ms:.1f} ms at {p.gib:.2f} GiB, our plans {time_at(curve, p.gib):.1f})"
             for p in points)
    return "; ".join(texts) or "none"


def verdicts(budgets, points):
    """What the table says, in sentences. `points` has our plans under our name, our policies under POLICY."""
    curve = curve_of([p for p in points if p.side == OURS])
    asked = [held for held in budgets if held.is_asked]
    kept = sum(held.use <= 1 for held in asked)
    if asked:
        used, error = statistics.median(h.use for h in asked), max(abs(held.error) for held in budgets)
        yield (f"- Budgets held: {kept} of {len(asked)}; of a budget are used {used:.1%} (median). Predictions of"
               f" all bytes are off by {error:.3%} at most.")
    none = find(points, POLICY, "none")
    for gib in ASKED:
        mine = find(points, OURS, BUDGET + gib)
        if mine and none:
            yield (f"- {gib} GiB of {none.gib:.2f}: {mine.ms / none.ms:.3f} of the time without checkpointing"
                   f" ({mine.ms:.1f} ms, {none.ms:.1f}).")
    peers = [p for p in points if p.side not in (OURS, POLICY)]
    if peers:
        yield f"- Of {len(peers)} points of peers lie below our curve: {named(below(peers, curve), curve)}."
    policies = [p for p in points if p.side == POLICY]
    if policies:
        yield (f"- Of our fixed policies lie more than {NOISE:.1%} below it:"
               f" {named(below(policies, curve, NOISE), curve)}.")


def budget_table(budgets, points):
    none = find(points, POLICY, "none")
    yield ("| budget, GiB | predicted, GiB | peak, GiB | error | used | ms | / no checkpointing | ratio predicted"
           " | plain blocks | reserved, GiB |")
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for held in sorted(budgets, key=lambda h: h.most("peak_bytes")):
        point, last = find(points, OURS, BUDGET + held.name), held.results[-1]
        extra = statistics.median(r["predicted_extra_ms"] for r in held.results)
        cells = [f"{last['budget_bytes'] / GIB:.2f}" if held.is_asked else {"min": "least", "max": "all"}[held.name],
                 f"{last['predicted_bytes'] / GIB:.3f}", f"{point.gib:.3f}", f"{held.error:+.3%}",
                 f"{held.use:.1%}" if held.is_asked else "",
                 f"{point.ms:.1f}", f"{point.ms / none.ms:.3f}" if none else "",
                 f"{1 + extra / none.ms:.3f}" if none else "", f"{last['plain_regions']} of {last['regions']}",
                 f"{point.reserved_gib:.2f}"]
        yield f"| {' | '.join(cells)} |"


def others_table(points):
    curve = curve_of([p for p in points if p.side == OURS])
    yield from ("| | | ms | GiB | our plans at that memory, ms | ratio |", "|---|---|---|---|---|---|")
    for p in (p for side in SIDES for p in points if p.side == side != OURS):
        ours = time_at(curve, p.gib)
        shown = (f"{ours:.1f}", f"{ours / p.ms:.3f}") if ours < float("inf") else ("less than any plan takes", "")
        yield f"| {SIDES[p.side]} | {p.label} | {p.ms:.1f} | {p.gib:.2f} | {' | '.join(shown)} |"


def long_results(results):
    """Of the part `long`, the last of each length."""
    found = {r["seq"]: r for r in results if r.get("mode") == "full_offload" and "host_bytes" in r}
    return [found[seq] for seq in sorted(found)]


def long_section(results):
    rows = long_results(results)
    if not rows:
        return
    yield from ("", f"## Long rows: {rows[0]['shape']} shape, full recompute, inputs of blocks on the host", "",
                "| tokens | s | tokens / s | device, GiB | host, GiB |", "|---|---|---|---|---|")
    for r in rows:
        yield (f"| {r['seq']} | {r['ms'] / 1e3:.2f} | {r['batch'] * r['seq'] / r['ms'] * 1e3:.0f} |"
               f" {r['peak_bytes'] / GIB:.2f} | {r['host_bytes'] / GIB:.2f} |")


def budget_points(results, shape):
    """All points of a shape; ours without a plan are a side of their own."""
    return [p if p.side != OURS or p.mode.startswith(BUDGET) else dataclasses.replace(p, side=POLICY)
            for p in points_of(results, shape) if p.mode == p.way]


def shape_planned(results):
    """The shape, as text, whose budgets were measured."""
    return next((shape_of(r) for r in results if is_budget(r) and kind_of(r) == "step"), None)


def budget_page(measured, shape, plot):
    lines = ["# Memory budgets on the GPU, against its peers", "", *machine_lines(measured, TERMS)]
    if shape:
        budgets, points = planned(measured.results, shape), budget_points(measured.results, shape)
        seconds = max(held.most("plan_ms") for held in budgets) / 1e3
        lines += ["", f"![Time of a step against peak memory]({plot})", "", f"## {shape.title}", "",
                  *budget_table(budgets, points), "",
                  f"Tracing and planning took {seconds:.1f} s, once for all budgets.", "",
                  *verdicts(budgets, points), "", "### The same step without a plan, ours and peers", "",
                  *others_table(points)]
    lines += long_section(measured.results)
    missing = measured.missing()
    if missing:
        lines += ["", "## Not measured", "", *(f"- {line}" for line in missing)]
    return "\n".join(lines) + "\n"
