"""A self-contained HTML page: findings, plots of the log's own statistics with the findings marked on them, starts.

No script, no network: plots are inline SVG. Everything from the log is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from vlogdiag.diagnosis.statistics import Statistics
from vlogdiag.model import Finding, Fix, Report
from vlogdiag.report.paste import pastes
from vlogdiag.report.safe import plain
from vlogdiag.timeline import Point, Timeline, remarks

__all__ = ["render"]

WIDTH, HEIGHT, LEFT, BOTTOM = 900, 150, 60, 22
MAX_DRAWN = 1_500
PLOTS: tuple[tuple[str, Callable[[Statistics], float | None], str], ...] = (
    ("KV cache usage (%)", lambda s: None if s.kv_usage is None else 100 * s.kv_usage, "#b3261e"),
    ("running requests", lambda s: s.running, "#1a5fb4"),
    ("waiting requests", lambda s: s.waiting, "#9c5a00"),
    ("generated tokens/s", lambda s: s.generation, "#1b7a3d"),
    ("prompt tokens/s", lambda s: s.prompt, "#6b3fa0"),
    ("preemptions per line", lambda s: s.preemptions, "#b3261e"),
    ("prefix cache hits (%)", lambda s: None if s.prefix_hits is None else 100 * s.prefix_hits, "#1a5fb4"),
)
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 960px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
pre { background: #8881; padding: .6rem .8rem; overflow-x: auto; border-radius: 4px; font-size: 13px; }
.error { color: #b3261e; } .warning { color: #9c5a00; } .info { color: #1a5fb4; } .dim { opacity: .7; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; }
"""


def render(report: Report, timelines: Sequence[Timeline]) -> str:
    """One page for all logs of a report."""
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width,initial-scale=1">',
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>vlogdiag</title><style>{STYLE}</style></head><body><h1>vlogdiag {_text(report.version)}</h1>",
    ]
    for timeline in timelines:
        own = [f for f in report.findings if f.source == timeline.path]
        parts.append(f"<h2>{_text(timeline.path)}</h2>")
        parts.extend(_finding(f) for f in own)
        if not own:
            parts.append("<p>nothing found</p>")
        parts.extend(_plots(timeline, own))
        parts.append(_starts(timeline))
        said = remarks(timeline)
        if said:
            parts.append("<ul>" + "".join(f"<li>{_text(t)}</li>" for t in said) + "</ul>")
    parts.extend(f"<p class=dim>{_text(n)}</p>" for n in report.notices)
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _text(text: str) -> str:
    return escape(plain(text), quote=True)


def _finding(f: Finding) -> str:
    proof = "\n".join(f"{e.line or '':>7} {plain(e.text)}" for e in f.evidence if e.kind == "log")
    fixes = "".join(_fix(fix) for fix in f.fixes)
    then = ", ".join(f"{c.title} ×{c.count}" for c in f.consequences)
    return (
        f"<section><h3 class={f.severity.word}>{_text(f.title)} <span class=dim>{_text(f.id)}, start {f.run}</span></h3>"
        f"<p>{_text(f.cause)}</p><pre>{escape(proof)}</pre>"
        + (f"<p class=dim>then: {_text(then)}</p>" if then else "")
        + (f"<ol>{fixes}</ol>" if fixes else "")
        + "</section>"
    )


def _fix(fix: Fix) -> str:
    typed = "\n".join(plain(p.text) for p in pastes(fix))
    trade = f" <span class=dim>({_text(fix.trade_off)})</span>" if fix.trade_off else ""
    return f"<li>{_text(fix.title)}{trade}" + (f"<pre>{escape(typed)}</pre>" if typed else "") + "</li>"


def _plots(timeline: Timeline, findings: Sequence[Finding]) -> list[str]:
    points = timeline.points[:: max(1, len(timeline.points) // MAX_DRAWN)]
    if len(points) < 2:
        return ["<p class=dim>no statistics lines to plot</p>"]
    begin, end = points[0].time, max(p.time for p in points)
    marks = _marks(timeline, findings, begin, end)
    return [plot for name, read, colour in PLOTS if (plot := _plot(name, points, read, colour, begin, end, marks))]


def _marks(timeline: Timeline, findings: Sequence[Finding], begin: float, end: float) -> list[tuple[float, Finding]]:
    """Where findings stand on the plots: at the statistics line nearest to their stamp."""
    found = []
    for finding in findings:
        stamp = finding.first.time
        later = [p for p in timeline.points if stamp and p.stamp >= stamp and p.run == finding.run]
        time = later[0].time if later else end
        found.append((min(max(time, begin), end), finding))
    return found


def _plot(
    name: str,
    points: Sequence[Point],
    read: Callable[[Statistics], float | None],
    colour: str,
    begin: float,
    end: float,
    marks: Sequence[tuple[float, Finding]],
) -> str:
    known = [(p.time, v) for p in points if (v := read(p.statistics)) is not None]
    if len(known) < 2 or not any(v for _, v in known):
        return ""
    top = max(v for _, v in known) or 1.0
    span = (end - begin) or 1.0

    def x(time: float) -> float:
        return LEFT + (time - begin) / span * (WIDTH - LEFT - 10)

    def y(value: float) -> float:
        return 8 + (1 - value / top) * (HEIGHT - BOTTOM - 8)

    line = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in known)
    lines = "".join(
        f'<g><line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="4" y2="{HEIGHT - BOTTOM}" stroke="#b3261e" stroke-dasharray="4 3"/>'
        f"<title>{_text(f.title)}</title></g>"
        for t, f in marks
    )
    return (
        f'<figure><figcaption>{name}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role=img aria-label="{name}">'
        f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}" stroke="currentColor" opacity=".4"/>'
        f'<text x="{LEFT - 6}" y="14" text-anchor="end">{top:g}</text>'
        f'<text x="{LEFT - 6}" y="{HEIGHT - BOTTOM}" text-anchor="end">0</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 6}">{_text(points[0].stamp)}</text>'
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 6}" text-anchor="end">{_text(points[-1].stamp)}</text>'
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{line}"/>{lines}</svg></figure>'
    )


def _starts(timeline: Timeline) -> str:
    rows = [s for s in timeline.starts if s.stages]
    if not rows:
        return ""
    cells = "".join(
        f"<tr><td>{s.run}</td><td>"
        + _text(", ".join(f"{g.name} {g.seconds:.0f} s" if g.seconds is not None else f"{g.name} …" for g in s.stages))
        + f"</td><td>{'' if s.ready is None else f'{s.ready:.0f} s'}</td></tr>"
        for s in rows
    )
    return f"<table><tr><th>start</th><th>steps</th><th>ready after</th></tr>{cells}</table>"
