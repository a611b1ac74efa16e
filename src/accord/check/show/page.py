"""The report as one page of HTML that needs nothing else: chapters, verdicts to filter by, frames to open."""

from collections.abc import Iterator
from html import escape
from typing import Final

from accord import __version__
from accord.check.report import Report
from accord.check.verdict import CHAPTERS, Finding
from accord.schema.rules import BASES
from accord.trace.summary import clean

_HEAD: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>%s</title><style>
:root { color-scheme: light dark; --line: #8884; --pass: #2a8a3e; --fail: #d2322d; --warn: #b8790a; --none: #888 }
body { font: 14px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 1.5rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem; margin-bottom: .2rem } h2 { font-size: 1.05rem; margin: 1.4rem 0 .3rem }
form { position: sticky; top: 0; background: Canvas; padding: .5rem 0; display: flex; gap: 1rem; flex-wrap: wrap; align-items: center }
details { border-top: 1px solid var(--line) }
summary { display: grid; grid-template-columns: 4rem 8rem 1fr 9rem; gap: .6rem; cursor: pointer; list-style: none; padding: .2rem 0 }
.id { text-align: right; opacity: .7 } .level { opacity: .7; text-align: right }
.pass .verdict { color: var(--pass) } .fail .verdict { color: var(--fail); font-weight: 600 } .warn .verdict { color: var(--warn); font-weight: 600 }
.not-applicable .verdict, .not-shown .verdict { color: var(--none) }
p { margin: .2rem 0 .2rem 4.6rem } pre { margin: .2rem 0 .4rem 4.6rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px }
[hidden] { display: none } @media (max-width: 45rem) { summary { grid-template-columns: 3rem 6rem 1fr } .level { display: none } }
</style></head><body>
"""
_TAIL: Final = """<script>
const boxes = [...document.querySelectorAll("input[name=verdict]")], text = document.getElementById("text");
function filter() {
  const wanted = boxes.filter(box => box.checked).map(box => box.value), words = text.value.toLowerCase();
  for (const row of document.querySelectorAll("details")) row.hidden = !wanted.includes(row.className) || !row.textContent.toLowerCase().includes(words);
  for (const part of document.querySelectorAll("section")) part.hidden = !part.querySelector("details:not([hidden])");
}
for (const box of [...boxes, text]) box.addEventListener("input", filter);
</script></body></html>
"""


def page(report: Report, *, date: str) -> Iterator[str]:
    """The page in pieces."""
    title = _text(f"accord check: {report.name} {report.version}".rstrip())
    yield _HEAD % title
    yield f"<h1>{title}</h1><div>{_text(date)} · script: {_text(report.script)} · by accord {__version__}</div>\n<form>"
    for verdict, count in report.counts.items():
        box = f'<input type="checkbox" name="verdict" value="{_name(verdict)}" checked>'
        yield f'<label class="{_name(verdict)}">{box} <span class="verdict">{count} {verdict}</span></label>'
    yield '<label>text <input id="text"></label></form>\n'
    for chapter, name in CHAPTERS.items():
        found = [finding for finding in report.findings if finding.subject.chapter == chapter]
        if found:
            yield f"<section><h2>{_text(name)}</h2>\n"
            yield from map(_row, found)
            yield "</section>\n"
    yield _TAIL


def _row(finding: Finding) -> str:
    subject = finding.subject
    cells = (
        f'<span class="id">{subject.id}</span><span class="verdict">{finding.verdict}</span>'
        f"<span>{_text(subject.text)}</span>"
        f'<span class="level">{subject.level}{"" if subject.stable else " · unstable"}</span>'
    )
    source = BASES[subject.basis]  # pyright: ignore[reportArgumentType]
    body = f"<p>{_text(finding.why)}</p><p><small>By {_text(source)}. How: {_text(subject.how)}."
    body += f" Tried in: {_text(', '.join(finding.tried) or 'nothing')}.</small></p>"
    for frame in finding.frames:
        arrow = "→" if frame.sender == "client" else "←"
        body += f"<pre>{arrow} {_text(frame.talk)} #{frame.number}\n{_text(frame.text)}</pre>"
    return f'<details class="{_name(finding.verdict)}"><summary>{cells}</summary>{body}</details>\n'


def _name(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _text(text: str) -> str:
    return escape(clean(text))
