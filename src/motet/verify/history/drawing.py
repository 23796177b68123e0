"""Operations drawn as bars on lanes, one lane for each process, as SVG and on a page of HTML.

The horizontal axis has the events in their order, not to scale, as in the timelines made of text. The
operations of the witness are in strong colours; those that were open beside them are pale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from motet.verify.history.operation import FOREVER, Operation
from motet.verify.history.record import History, Verdict

neighbours_max = 40
"""Operations that are drawn beside the witness."""

_CELL, _LANE, _BAR, _MARGIN = 46, 40, 22, 12
_LETTER = 7.2
_COLOURS = {"ok": "#2563a8", "failed": "#8a8a8a", "unknown": "#a86a10"}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } .ok { color: #1a7f37; } .violated { color: #b3261e; } .unknown { color: #8a6d00; }
.drawing { overflow-x: auto; } pre { font: 13px/1.5 ui-monospace, monospace; overflow-x: auto; }
"""


def neighbours(history: History, shown: Sequence[Operation]) -> list[Operation]:
    """The latest operations that were open while the witness happened, and are not part of it."""
    if not shown:
        return []
    first = min(op.began for op in shown)
    last = max(op.began if op.ended == FOREVER else op.ended for op in shown)
    known = {op.id for op in shown}
    beside = [
        op
        for op in history.operations
        if op.id not in known and op.began < last and op.ended > first
    ]
    return beside[-neighbours_max:]


def svg(shown: Sequence[Operation], beside: Iterable[Operation] = ()) -> str:
    """The drawing alone; it needs nothing but itself."""
    pale = list(beside)
    drawn = sorted([*shown, *pale], key=lambda op: op.began)
    moments = sorted({at for op in drawn for at in (op.began, op.ended) if at != FOREVER})
    lanes = {process: row for row, process in enumerate(dict.fromkeys(op.process for op in drawn))}
    left = _MARGIN * 2 + _LETTER * max((len(name) for name in lanes), default=0)
    column = {moment: left + _CELL * place for place, moment in enumerate(moments)}
    column[FOREVER] = left + _CELL * len(moments)
    width, height = column[FOREVER] + _CELL * 3, _MARGIN * 2 + _LANE * len(lanes)
    faint = {op.id for op in pale}
    body = [_lane(name, row, width) for name, row in lanes.items()]
    body += [
        _bar(op, column[op.began], column[op.ended], lanes[op.process], faint=op.id in faint)
        for op in drawn
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="system-ui, sans-serif" font-size="12">\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _lane(name: str, row: int, width: float) -> str:
    y = _MARGIN + _LANE * row + _LANE - 8
    return (
        f'<text x="{_MARGIN}" y="{y - 10}" fill="#444">{escape(name)}</text>'
        f'<line x1="{_MARGIN}" y1="{y}" x2="{width:.0f}" y2="{y}" stroke="#ddd"/>'
    )


def _bar(op: Operation, start: float, end: float, row: int, *, faint: bool) -> str:
    y = _MARGIN + _LANE * row + 4
    colour, opacity = _COLOURS[op.outcome], "0.25" if faint else "1"
    is_open = op.ended == FOREVER
    dashes = ' stroke-dasharray="4 3"' if is_open else ""
    label = f"{op.call} {op.answer}"
    times = f"{op.began_at}..{'' if op.ended_at is None else op.ended_at}"
    return (
        f'<g opacity="{opacity}"><title>{escape(f"{op} ({times})")}</title>'
        f'<rect x="{start:.0f}" y="{y}" width="{end - start:.0f}" height="{_BAR}" rx="3" '
        f'fill="{colour}" fill-opacity="0.18" stroke="{colour}"{dashes}/>'
        f'<text x="{start + 5:.0f}" y="{y + 15}" fill="#111">{escape(label)}</text></g>'
    )


def html_page(checker: str, history: History, verdict: Verdict) -> str:
    """A page with the verdict, and the witness drawn."""
    witness = verdict.witness
    body = [
        f"<h1>A history of {len(history):,} operations, checked as: {escape(checker)}</h1>",
        f'<p class="{verdict.status}"><strong>{verdict.status}</strong>',
    ]
    if verdict.reason is not None:
        body.append(escape(verdict.reason))
    if witness is not None:
        beside = neighbours(history, witness.operations)
        body += [
            f"{escape(witness.fault)}: {escape(witness.sentence)}</p>",
            f'<div class="drawing">{svg(witness.operations, beside)}</div>',
            "<p>The operations that show it, and paler those beside them.</p>",
            f"<pre>{escape(str(witness))}</pre>",
        ]
    else:
        body.append("</p>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(checker)}: {verdict.status}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{chr(10).join(body)}\n</body></html>\n"
    )
