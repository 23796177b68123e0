"""The one report of a sweep: figures, what is not as it should be, and the command that shows it alone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import msgspec

from motet.verify.sweep.jobs import Done

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0;
text-align: left; vertical-align: top; } .good { color: #1a7f37; } .bad { color: #b3261e; }
code { font: 13px ui-monospace, monospace; }
"""


class Sweep(msgspec.Struct, frozen=True):
    """All that came of a sweep."""

    done: tuple[Done, ...]
    seconds: float
    #: where it ran
    master: str

    @property
    def is_good(self) -> bool:
        return all(each.is_good for each in self.done)

    @property
    def verdicts(self) -> dict[str, int]:
        """How many of each."""
        counts: dict[str, int] = {}
        for each in self.done:
            counts[each.verdict] = counts.get(each.verdict, 0) + 1
        return counts

    @property
    def cpu_seconds(self) -> float:
        return sum(each.cpu_seconds for each in self.done)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())
        return (
            f"{len(self.done)} jobs: {counts or 'none'}; {self.seconds:.1f} s, "
            f"{self.cpu_seconds:.1f} s of it CPU in jobs, on {self.master}"
        )


def html_sweep(sweep: Sweep) -> str:
    """A page; it needs nothing but itself."""
    first = sorted(sweep.done, key=lambda each: each.is_good)
    rows = "\n".join(_rows(first))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>sweep: {len(sweep.done)} jobs</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>A sweep</h1><p>{escape(str(sweep))}</p>\n<table><tr><th>verdict</th><th>job</th>"
        f"<th>what</th><th>CPU s</th><th>alone</th></tr>\n{rows}\n</table></body></html>\n"
    )


def _rows(done: Sequence[Done]) -> list[str]:
    return [
        f'<tr><td class="{"good" if each.is_good else "bad"}">{escape(each.verdict)}</td>'
        f"<td>{escape(each.job.title)}</td><td>{escape(each.detail)}</td>"
        f"<td>{each.cpu_seconds:.2f}</td><td><code>{escape(each.job.command)}</code></td></tr>"
        for each in done
    ]
