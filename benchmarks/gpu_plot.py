"""Time against memory as an SVG, without any package: ours as curves, every peer with a colour and a shape.

Both tell the series apart, so that colour alone never has to (colours: Okabe and Ito). Memory is on a logarithmic
scale, since ways to checkpoint differ by factors.
"""
import html
import math

from gpu_points import BUDGET, OURS, SIDES

WIDTH, HEIGHT = 1000, 640
LEFT, RIGHT, TOP, BOTTOM = 80, 30, 64, 150  # margins of the plot's frame
FONT = 12
STYLES = {  # colour, shape
    "reprise": ("#0072B2", "circle"),
    "recorded": ("#0072B2", "ring"),  # ours too
    "planned": ("#0072B2", "circle"),
    "reprise_policy": ("#0072B2", "ring"),
    "liger": ("#D55E00", "square"),
    "liger_flash": ("#E69F00", "diamond"),
    "hf": ("#000000", "triangle"),
    "trl_head": ("#009E73", "flipped"),
    "compile_blocks": ("#CC79A7", "cross"),
    "compile_budget": ("#56B4E9", "plus"),
}
TICKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def marker(shape, x, y, colour, r=6):
    around = {
        "square": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "diamond": [(0, -r * 1.3), (r * 1.3, 0), (0, r * 1.3), (-r * 1.3, 0)],
        "triangle": [(0, -r * 1.2), (r * 1.1, r * 0.9), (-r * 1.1, r * 0.9)],
        "flipped": [(0, r * 1.2), (r * 1.1, -r * 0.9), (-r * 1.1, -r * 0.9)],
    }
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r + 1}" fill="{colour}" stroke="#fff"/>'
    if shape == "ring":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r - 0.5}" fill="#fff" stroke="{colour}" stroke-width="2.5"/>'
    if shape in around:
        corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in around[shape])
        return f'<polygon points="{corners}" fill="{colour}" stroke="#fff"/>'
    turn = 45 if shape == "cross" else 0
    return (f'<path d="M{-r} 0H{r}M0 {-r}V{r}" transform="translate({x:.1f} {y:.1f}) rotate({turn})" '
            f'stroke="{colour}" stroke-width="3.5"/>')


def text(x, y, content, anchor="start", size=FONT, colour="#333", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}" '
            f'stroke="#fff" stroke-width="3" stroke-linejoin="round" paint-order="stroke"{extra}>'
            f"{html.escape(content)}</text>")


def nice_step(span):
    rough = span / 6
    power = 10 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)


class Axes:
    def __init__(self, points, floors):
        memory = [p.gib for p in points]
        times = [p.ms for p in points] + list(floors)
        self.low, self.high = min(memory) * 0.62, max(memory) * 1.45
        span = max(times) - min(times) or max(times)
        self.bottom, self.top = min(times) - 0.08 * span, max(times) + 0.06 * span

    def x(self, gib):
        share = math.log(gib / self.low) / math.log(self.high / self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, ms):
        return HEIGHT - BOTTOM - (ms - self.bottom) / (self.top - self.bottom) * (HEIGHT - TOP - BOTTOM)

    def drawn(self):
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        for tick in (t for t in TICKS if self.low <= t <= self.high):
            x = self.x(tick)
            yield f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="#e4e4e4"/>'
            yield text(x, bottom + 18, str(tick), "middle")
        step = nice_step(self.top - self.bottom)
        ms = math.ceil(self.bottom / step) * step
        while ms <= self.top:
            y = self.y(ms)
            yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#e4e4e4"/>'
            yield text(LEFT - 8, y + 4, f"{ms:g}", "end")
            ms += step
        yield f'<rect x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}" fill="none" stroke="#888"/>'
        yield text((LEFT + right) / 2, bottom + 40, "peak memory, GiB (logarithmic)", "middle", 14)
        yield text(0, 0, "time of a step, ms", "middle", 14,
                   extra=f' transform="translate(24 {(TOP + bottom) / 2:.0f}) rotate(-90)"')


class Labels:
    """Puts labels beside their points, where they cover neither a point nor each other."""

    def __init__(self, spots):
        self.taken = [(x - 8, y - 8, x + 8, y + 8) for x, y in spots]

    def place(self, x, y, content, bold):
        width, height = len(content) * FONT * (0.58 if bold else 0.54) + 2, FONT + 1
        # Our curve falls to the right, so there is room below it to the left.
        distances, sides = ((15, 30, 45, 60, -15), ("end", "start")) if bold else (
            (0, 15, -15, 30, -30, 45, -45, 60, -60), ("start", "end"))
        for distance in distances:
            for side in sides:
                left = x + 11 if side == "start" else x - 11 - width
                box = (left, y + distance - height / 2, left + width, y + distance + height / 2)
                if LEFT < box[0] and box[2] < WIDTH - RIGHT and TOP < box[1] and not any(
                        box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in self.taken):
                    self.taken.append(box)
                    edge = x + 10 if side == "start" else x - 10
                    leader = "" if distance == 0 else (
                        f'<path d="M{x:.1f} {y:.1f}L{edge:.1f} {y + distance:.1f}" stroke="#999" stroke-width="0.7"/>')
                    weight = ' font-weight="bold"' if bold else ""
                    return leader + text(edge, y + distance + 4, content, side, extra=weight)
        return ""  # no room: the legend still tells whose it is


def style_of(point):
    if point.way.startswith(BUDGET):
        return "planned"
    return "recorded" if point.mode != point.way else point.side


def has_label(point):
    """A recorded step lies beside the same step as it is, which has the label; a budget is told by the axis."""
    return point.mode == point.way and (style_of(point) != "planned" or point.label in ("least", "all"))


def legend(sides):
    columns, top = 3, HEIGHT - BOTTOM + 66
    for place, side in enumerate(sides):
        x = LEFT + (place % columns) * (WIDTH - LEFT - RIGHT) / columns
        y = top + place // columns * 22
        colour, shape = STYLES[side]
        yield marker(shape, x + 8, y - 4, colour)
        own = {"recorded": f"{SIDES[OURS]}, the step recorded", "planned": f"{SIDES[OURS]}, planned for budgets"}
        is_ours = side.startswith(OURS) or side in own
        name = own.get(side) or SIDES[side]
        yield text(x + 22, y, name, extra=' font-weight="bold"' if is_ours else "")


def pareto(title, points, floor=None):
    """The SVG of points that gpu_report.py made; `floor` draws what the hardware allows."""
    points = [p for p in points if p.side in STYLES and p.gib > 0]
    lines = {f"floor, {label}": floor[key] for key, label in (("none", "no recompute"), ("full", "full recompute"))
             } if floor else {}
    axes = Axes(points, lines.values())
    ours = sorted((p for p in points if p.side == OURS), key=lambda p: p.gib)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
             f'height="{HEIGHT}" font-family="Helvetica, Arial, sans-serif">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
             text(LEFT, 28, title, size=18, colour="#000"),
             text(LEFT, 48, "Forward and backward; lower and further left is better."), *axes.drawn()]
    for label, ms in lines.items():
        y = axes.y(ms)
        parts += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#666" stroke-dasharray="6 4"/>',
                  text(WIDTH - RIGHT - 6, y - 5, label, "end", colour="#555")]
    for style, dashes in ((OURS, ""), ("planned", ""), ("recorded", ' stroke-dasharray="3 3"')):
        curve = "L".join(f"{axes.x(p.gib):.1f} {axes.y(p.ms):.1f}" for p in ours if style_of(p) == style)
        if curve:
            parts.append(
                f'<path d="M{curve}" fill="none" stroke="{STYLES[style][0]}" stroke-width="2.5"{dashes}/>')
    spots = {id(p): (axes.x(p.gib), axes.y(p.ms)) for p in points}
    labels = Labels(spots.values())
    drawn = ours + [p for p in points if p.side != OURS]
    parts += [labels.place(*spots[id(p)], p.label, p.side == OURS) for p in drawn if has_label(p)]
    # Crosses last: a filled shape would hide them.
    upwards = sorted(reversed(drawn), key=lambda p: STYLES[p.side][1] in ("cross", "plus"))
    parts += [marker(STYLES[style_of(p)][1], *spots[id(p)], STYLES[p.side][0]) for p in upwards]
    parts += legend([style for style in STYLES if any(style_of(p) == style for p in points)])
    return "\n".join([*filter(None, parts), "</svg>", ""])
