# SPDX-License-Identifier: GPL-2.0-or-later
"""Charts as SVG text, complete without scripts.

Colours are classes (c0 to c7, and roles) that the page's style defines, so
that the same chart fits light, dark and paper. Equal inputs give equal bytes.
"""

import math
from html import escape

WIDTH = 360             # of a chart, in its own units: a phone's width
SERIES = 8              # colours there are


def fmt(value):
    """A coordinate."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def number(value):
    """An axis' label."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def _open(width, height, title):
    return (f'<svg viewBox="0 0 {fmt(width)} {fmt(height)}" role="img" '
            f'aria-label="{escape(title)}">')


def _text(x, y, text, anchor="start", kind=""):
    extra = f' class="{kind}"' if kind else ""
    return (f'<text x="{fmt(x)}" y="{fmt(y)}" text-anchor="{anchor}"{extra}>'
            f"{escape(str(text))}</text>")


def _rect(x, y, width, height, kind, title=""):
    return (f'<rect x="{fmt(x)}" y="{fmt(y)}" width="{max(width, 0.2):.2f}" '
            f'height="{fmt(height)}" class="{kind}">'
            + (f"<title>{escape(title)}</title>" if title else "")
            + "</rect>")


def ticks(low, high, log):
    """Round values that lie in [low, high]."""
    if log:
        found = [m * 10 ** e
                 for e in range(math.floor(math.log10(low)),
                                math.ceil(math.log10(high)) + 1)
                 for m in (1, 2, 5)]
        found = [t for t in found if low <= t <= high]
        if len(found) > 7:
            found = [t for t in found
                     if f"{t:.0e}".startswith("1")] or found[::3]
        return found
    step = 10 ** math.floor(math.log10((high - low) / 2))
    while (high - low) / step > 6:
        step *= 2 if f"{step:.0e}"[0] != "2" else 2.5
    return [step * n for n in range(math.ceil(low / step - 1e-9),
                                    math.floor(high / step + 1e-9) + 1)]


def lines(title, series, unit):
    """Scaling curves. `series` is [(label, [(cpus, value)], {cpus:
    published})]; the published ones are dashed, in the same colour."""
    left, right, top, bottom = 44, 12, 24, 34
    height = 230
    xs = sorted({x for _, points, published in series
                 for x in [p[0] for p in points] + list(published)})
    values = [v for _, points, published in series
              for v in [p[1] for p in points] + list(published.values())
              if v > 0]
    if not values:
        return ""
    log = max(values) / min(values) > 20
    low, high = (min(values) / 1.3, max(values) * 1.3) if log \
        else (0, max(values) * 1.08)
    x0, x1 = math.log2(xs[0]), math.log2(xs[-1])
    inner = WIDTH - left - right

    def px(x):
        return left + (inner * (math.log2(x) - x0) / (x1 - x0)
                       if x1 > x0 else inner / 2)

    def py(y):
        part = math.log(y / low) / math.log(high / low) if log \
            else (y - low) / (high - low)
        return height - bottom - part * (height - top - bottom)

    out = [_open(WIDTH, height, title), _text(left, 14, unit, kind="unit")]
    for tick in ticks(low, high, log):
        y = py(tick)
        out.append(f'<line x1="{left}" x2="{WIDTH - right}" y1="{fmt(y)}" '
                   f'y2="{fmt(y)}" class="grid"/>')
        out.append(_text(left - 5, y + 4, number(tick), "end"))
    last = None
    for x in xs:
        if last is None or px(x) - px(last) > 17:
            out.append(_text(px(x), height - bottom + 16, x, "middle"))
            last = x
    out.append(_text(WIDTH - right, height - 4, "CPUs", "end", "unit"))
    for i, (label, points, published) in enumerate(series):
        colour = f"c{i % SERIES}"
        for kind, pairs in (("pub", sorted(published.items())),
                            ("sim", sorted(points))):
            pairs = [(x, y) for x, y in pairs if y > 0]
            if len(pairs) > 1:
                path = " ".join(f"{fmt(px(x))},{fmt(py(y))}"
                                for x, y in pairs)
                out.append(f'<polyline points="{path}" '
                           f'class="{kind} {colour}"/>')
            for x, y in pairs:
                tip = (f"{label}, {x} CPUs: {number(y)} "
                       + ("published" if kind == "pub" else "simulated"))
                out.append(
                    f'<circle cx="{fmt(px(x))}" cy="{fmt(py(y))}" r="3" '
                    f'class="{kind} {colour}"><title>{escape(tip)}</title>'
                    "</circle>")
    out.append("</svg>")
    return "".join(out)


def bars(title, rows, top=None):
    """Horizontal bars. `rows` is [(label, value, text, mark)]: a mark is a
    line across the bar, or None."""
    top = top or max([v for _, v, _, _ in rows]
                     + [m for *_, m in rows if m]) or 1
    step = 34
    out = [_open(WIDTH, step * len(rows) + 4, title)]
    inner = WIDTH - 70
    for i, (label, value, text, mark) in enumerate(rows):
        y = i * step
        out.append(_text(0, y + 12, label))
        out.append(_rect(0, y + 16, inner * value / top, 12, "c0 bar",
                         f"{label}: {text}"))
        out.append(_text(inner * value / top + 5, y + 26, text, kind="unit"))
        if mark:
            x = inner * mark / top
            out.append(f'<line x1="{fmt(x)}" x2="{fmt(x)}" y1="{y + 13}" '
                       f'y2="{y + 31}" class="mark"><title>published'
                       "</title></line>")
    out.append("</svg>")
    return "".join(out)


def stack(title, rows, kinds):
    """Bars that are split. `rows` is [(label, {kind: share})], `kinds` all
    of them in order; shares are of 1."""
    step = 30
    out = [_open(WIDTH, step * len(rows) + 4, title)]
    for i, (label, shares) in enumerate(rows):
        y, x = i * step, 0.0
        out.append(_text(0, y + 11, label))
        for place, kind in enumerate(kinds):
            width = WIDTH * shares.get(kind, 0)
            if width >= 0.2:
                out.append(_rect(x, y + 14, width, 12,
                                 f"c{place % SERIES} bar",
                                 f"{label}: {kind} "
                                 f"{100 * shares[kind]:.1f} %"))
            x += width
    out.append("</svg>")
    return "".join(out)


def lanes(title, start, end, occupancy, rows):
    """What happened from `start` to `end` (ps): `occupancy` is [(ps, n)],
    steps, the first of them at `start`; `rows` is [(label, [(from, to, kind, tip)], [ps of marks])]."""
    left, width, strip = 46, 720, 70
    step = max(6, min(16, 420 // max(1, len(rows))))
    height = strip + 26 + step * len(rows) + 24
    scale = (width - left - 8) / max(1, end - start)
    most = max([n for _, n in occupancy] or [0]) or 1

    def px(ps):
        return left + (min(max(ps, start), end) - start) * scale

    out = [_open(width, height, title),
           _text(left, 10, f"commands in the queue, up to {most}",
                 kind="unit")]
    path = [f"M{left},{strip}"]
    for ps, n in occupancy:
        path.append(f"H{fmt(px(ps))}V"
                    f"{fmt(strip - (strip - 16) * n / most)}")
    path.append(f"H{width - 8}V{strip}Z")
    out.append(f'<path d="{"".join(path)}" class="fill"/>')
    y = strip + 22
    out.append(_text(left, y - 6, "CPUs", kind="unit"))
    for i, (label, spans, marks) in enumerate(rows):
        if step >= 10 or i % 4 == 0:
            out.append(_text(left - 5, y + step - 2, label, "end", "small"))
        out.append(_rect(left, y, width - left - 8, step - 1, "lane"))
        for a, b, kind, tip in spans:
            out.append(_rect(px(a), y, px(b) - px(a), step - 1, kind, tip))
        for mark in marks:
            out.append(_rect(px(mark), y, 1.2, step - 1, "door"))
        y += step
    for part in range(5):
        ps = start + (end - start) * part // 4
        out.append(_text(px(ps), height - 6, f"{ps / 1e6:.2f}"
                         + (" us" if part == 4 else ""),
                         "end" if part == 4 else
                         "start" if part == 0 else "middle"))
    out.append("</svg>")
    return "".join(out)
