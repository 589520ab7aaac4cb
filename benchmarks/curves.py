"""Losses over steps as an SVG, without any package: a panel for each method, ours in front of theirs.

Ours is a thin line over a wide one of the peer's, so that curves that agree are seen to.
"""
import html

PANEL_WIDTH, PANEL_HEIGHT, GAP, TOP = 310, 200, 40, 40
OURS, THEIRS = "#0072B2", "#E69F00"
COLUMNS = 3


def path(losses, scale, colour, width):
    points = "L".join(f"{scale.x(step):.1f} {scale.y(loss):.1f}" for step, loss in enumerate(losses))
    return f'<path d="M{points}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>'


class Scale:
    """Where a step and a loss are drawn, in a panel whose upper left corner is given."""

    def __init__(self, left, top, curves):
        values = [loss for losses in curves for loss in losses]
        self.left, self.top = left, top
        self.low, self.high = min(values), max(values)
        self.steps = max(len(losses) for losses in curves)

    def x(self, step):
        return self.left + PANEL_WIDTH * step / max(self.steps - 1, 1)

    def y(self, loss):
        return self.top + PANEL_HEIGHT * (self.high - loss) / max(self.high - self.low, 1e-12)


def text(x, y, content, anchor="start", size=12, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="#333">{html.escape(content)}</text>')


def panel(place, name, ours, theirs):
    left = GAP + place % COLUMNS * (PANEL_WIDTH + 2 * GAP)
    top = TOP + 30 + place // COLUMNS * (PANEL_HEIGHT + 2 * GAP)
    scale = Scale(left, top, [ours, theirs])
    yield f'<rect x="{left}" y="{top}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" fill="none" stroke="#bbb"/>'
    yield text(left, top - 6, name, weight="bold")
    yield text(left - 4, top + 10, f"{scale.high:.2f}", "end", 10)
    yield text(left - 4, top + PANEL_HEIGHT, f"{scale.low:.2f}", "end", 10)
    yield text(left + PANEL_WIDTH, top + PANEL_HEIGHT + 14, f"step {scale.steps}", "end", 10)
    yield path(theirs, scale, THEIRS, 4)
    yield path(ours, scale, OURS, 1.2)


def page(title, peer, methods):
    """methods: {name: (our losses, the peer's losses)}."""
    rows = (len(methods) + COLUMNS - 1) // COLUMNS
    width = COLUMNS * (PANEL_WIDTH + 2 * GAP)
    height = TOP + 20 + rows * (PANEL_HEIGHT + 2 * GAP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
             f'height="{height}" font-family="Helvetica, Arial, sans-serif">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>', text(GAP, 26, title, size=18),
             text(width - GAP, 26, f"thin: reprise; wide: {peer}", "end")]
    for place, (name, (ours, theirs)) in enumerate(methods.items()):
        parts += panel(place, name, ours, theirs)
    return "\n".join([*parts, "</svg>", ""])
