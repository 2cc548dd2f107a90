# SPDX-License-Identifier: GPL-2.0-or-later
"""The HTML of a report: one file, no scripts, nothing fetched."""

from html import escape

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c1c1c;--dim:#5a5a5a;
--rule:#d8d8d8;--lane:#eee;--bad:#a30000;--c0:#0072b2;--c1:#d98200;
--c2:#00805e;--c3:#d55e00;--c4:#b8518c;--c5:#56a4d9;--c6:#8c6d1f;--c7:#8a8a8a}
@media (prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e6e6e6;
--dim:#a5a5a5;--rule:#3a3f46;--lane:#23272d;--bad:#ff8f8f;--c0:#4ea5e0;
--c1:#f0b429;--c2:#2fc79b;--c3:#ff8a4c;--c4:#e39ac4;--c5:#8fd0f5;--c6:#c9a94a;
--c7:#aaa}}
*{box-sizing:border-box}
body{margin:0 auto;padding:16px;max-width:1200px;background:var(--bg);
color:var(--fg);font:15px/1.45 system-ui,sans-serif}
h1{font-size:1.5em;margin:.2em 0}
h2{font-size:1.25em;margin:1.8em 0 .2em;padding-top:.6em;
border-top:1px solid var(--rule)}
h2 small{display:block;font-size:.75em;font-weight:normal;color:var(--dim)}
h3{font-size:1.05em;margin:1.4em 0 .4em}
p{margin:.5em 0;overflow-wrap:anywhere}
.verdict{font-weight:600;border-left:4px solid var(--c0);padding-left:10px}
.bad{color:var(--bad)}
.scroll{overflow-x:auto;margin:.5em 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;
font-size:.9em}
caption{text-align:left;color:var(--dim)}
th,td{padding:2px 9px 2px 0;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--rule);vertical-align:top}
th.t,td.t{text-align:left}
td.t{white-space:normal;overflow-wrap:anywhere;min-width:11em}
details{margin:.5em 0}
summary{cursor:pointer;color:var(--c0)}
.charts{display:grid;gap:20px;
grid-template-columns:repeat(auto-fit,minmax(min(320px,100%),1fr))}
figure{margin:.5em 0;max-width:560px}
figure.wide{max-width:none}
figure.wide svg{min-width:640px}
figcaption{color:var(--dim);font-size:.85em}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 14px;margin:4px 0;
padding:0;font-size:.85em}
.legend i{display:inline-block;width:11px;height:11px;margin-right:5px;
print-color-adjust:exact;-webkit-print-color-adjust:exact}
svg{display:block;width:100%;height:auto;print-color-adjust:exact;
-webkit-print-color-adjust:exact}
svg text{font:11px system-ui,sans-serif;fill:var(--fg)}
svg text.unit{fill:var(--dim);font-size:10px}
svg text.small{font-size:8px}
.grid{stroke:var(--rule);stroke-width:1}
.lane{fill:var(--lane)}.fill{fill:var(--c0);opacity:.75}
.door{fill:var(--fg);background:var(--fg)}
.mark{stroke:var(--fg);stroke-width:2}
polyline{fill:none;stroke-width:2}
polyline.pub{stroke-dasharray:5 4;opacity:.75}
circle.pub{fill:var(--bg)!important;stroke-width:1.5}
""" + "".join(
    f".c{n}{{stroke:var(--c{n});fill:var(--c{n})}}"
    f"i.c{n}{{background:var(--c{n})}}" for n in range(8)) + """
polyline{fill:none!important}.bar{stroke:none}
@media print{body{max-width:none;padding:0;font-size:11px}
details::details-content{content-visibility:visible;block-size:auto}
section,figure{break-inside:avoid-page}section{break-inside:auto}
.scroll{overflow:visible}figure.wide svg{min-width:0}}
"""

# Nothing may be fetched, and no script may run.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title, body):
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            '<meta name="viewport" content="width=device-width,'
            f'initial-scale=1"><title>{escape(title)}</title>'
            f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n")


def header(title, verdict):
    return f"<h1>{escape(title)}</h1>" + paragraph(verdict, "verdict")


def heading(level, title, more=""):
    small = f"<small>{escape(more)}</small>" if more else ""
    return f"\n<h{level}>{escape(title)}{small}</h{level}>"


def paragraph(text, kind=""):
    return (f'<p class="{kind}">' if kind else "<p>") + escape(text) + "</p>"


def items(texts):
    return "<ul>" + "".join(f"<li>{escape(t)}</li>" for t in texts) + "</ul>"


def table(head, rows, caption="", text=1):
    """The first `text` columns are words, the others numbers."""
    def row(tag, values):
        return "<tr>" + "".join(
            f'<{tag}{" class=t" if n < text else ""}>{escape(str(v))}</{tag}>'
            for n, v in enumerate(values)) + "</tr>"

    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return ('<div class="scroll"><table>' + title
            + (row("th", head) if any(head) else "")
            + "\n".join(row("td", r) for r in rows) + "</table></div>")


def details(title, body, opened=False):
    return (f"<details{' open' if opened else ''}><summary>{escape(title)}"
            f"</summary>{body}</details>")


def figure(chart, caption="", legend=(), colours=None, wide=False):
    """A chart, with a legend in the order of its colours."""
    if not chart:
        return ""
    keys = "".join(
        '<li><i class="{}"></i>{}</li>'.format(
            c if isinstance(c, str) else f"c{c % 8}", escape(str(label)))
        for label, c in zip(legend, colours or range(len(legend))))
    return ("<figure" + (' class="wide"' if wide else "") + ">"
            + (f'<ul class="legend">{keys}</ul>' if keys else "")
            + (f'<div class="scroll">{chart}</div>' if wide else chart)
            + (f"<figcaption>{escape(caption)}</figcaption>" if caption
               else "") + "</figure>")
