"""An exploration as one page of HTML: what was looked at, the verdict, and the trace step by step."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from motet.verify.explore.result import Exploration, Step

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } .ok { color: #1a7f37; } .violated { color: #b3261e; } .unknown { color: #8a6d00; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; }
ol.trace { border-left: 3px solid #999; list-style: none; margin-left: .6rem; padding-left: 1.4rem; }
ol.trace li { margin: 0 0 .9rem; position: relative; }
ol.trace li::before { background: #fff; border: 3px solid #999; border-radius: 50%; content: "";
  height: .5rem; left: -1.95rem; position: absolute; top: .35rem; width: .5rem; }
ol.trace li.last::before { background: #b3261e; border-color: #b3261e; }
code, pre { font: 13px/1.5 ui-monospace, monospace; } pre { margin: .2rem 0; white-space: pre-wrap; }
details { color: #555; } .loop { color: #b3261e; }
"""


def html_report(
    result: Exploration, *, headline: str, variant: str | None = None, script: Sequence[str] = ()
) -> str:
    """The page; it needs nothing but itself. ``script`` are the steps to where it begins."""
    name = result.model if variant is None else f"{result.model} ({variant})"
    body = [
        f"<h1>{escape(name)}</h1>",
        f"<p>{escape(headline)}</p>",
        f'<p class="{result.verdict}"><strong>{escape(_verdict(result))}</strong></p>',
        _figures(result),
    ]
    if result.trace:
        body.append("<h2>The shortest way there</h2>")
        if script:
            steps = ", ".join(f"<code>{escape(step)}</code>" for step in script)
            body.append(f"<p>It begins after {len(script)} steps: {steps}.</p>")
        body.append(_trace(result))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(name)}: {result.verdict}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{chr(10).join(body)}\n</body></html>\n"
    )


def _verdict(result: Exploration) -> str:
    if result.verdict == "ok":
        return "ok: every state was seen, and every property holds"
    if result.verdict == "violated":
        return f"violated: {result.property}, in {len(result.trace)} states"
    return f"unknown: {result.reason}; nothing wrong so far"


def _figures(result: Exploration) -> str:
    rows = {
        "size": " ".join(f"{key}={value}" for key, value in result.settings.items()),
        "states": f"{result.distinct:,}, depth {result.depth}, {result.generated:,} generated",
        "time": f"{result.seconds:.1f} s ({result.cpu_seconds:.1f} s CPU), {result.engine}",
        "properties": ", ".join(result.properties),
        "actions taken": ", ".join(f"{name} {times:,}" for name, times in result.coverage.items()),
    }
    cells = (f"<tr><th>{key}</th><td>{escape(value)}</td></tr>" for key, value in rows.items())
    return f"<table>{''.join(cells)}</table>"


def _trace(result: Exploration) -> str:
    last = len(result.trace) - 1
    items = [
        _step(step, is_last=at == last, loops=result.loops_to == at)
        for at, step in enumerate(result.trace)
    ]
    return f'<ol class="trace">{"".join(items)}</ol>'


def _step(step: Step, *, is_last: bool, loops: bool) -> str:
    back = ' <span class="loop">and from the end back to here, for ever</span>' if loops else ""
    changed = escape("\n".join(step.changed))
    return (
        f"<li{' class=last' if is_last else ''}><code>{escape(step.action)}</code>{back}"
        f"<pre>{changed}</pre><details><summary>the whole state</summary>"
        f"<pre>{escape(step.state)}</pre></details></li>"
    )
