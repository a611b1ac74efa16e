"""The report as text, JSON, JUnit XML and HTML."""

from collections.abc import Iterator
from html import escape
from typing import Any, Final
from xml.etree import ElementTree

from accord import __version__
from accord.check.findings import CHAPTERS, VERDICTS, CheckReport, Finding, Verdict
from accord.schema.conformance_rules import BASES
from accord.trace.step_summary import clean

# MERGED check.show.data: The report as JSON, for programs.


def data(report: CheckReport, *, command: list[str], date: str) -> dict[str, Any]:
    """Everything in the report, as JSON values."""
    return {
        "accordCheck": 1,
        "checked": report.kind,
        "name": report.name,
        "version": report.version,
        "command": command,
        "script": report.script,
        "by": f"accord {__version__}",
        "date": date,
        "counts": report.counts,
        "rules": [_finding(finding) for finding in report.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    subject = finding.subject
    return {
        "id": subject.id,
        "chapter": subject.chapter,
        "level": subject.level,
        "stable": subject.stable,
        "basis": subject.basis,
        "source": BASES[subject.basis],  # pyright: ignore[reportArgumentType]
        "rule": subject.text,
        "how": subject.how,
        "verdict": finding.verdict,
        "why": finding.why,
        "scenes": list(finding.tried),
        "frames": [
            {"talk": frame.talk, "number": frame.number, "from": frame.sender, "text": frame.text}
            for frame in finding.frames
        ],
    }


# MERGED check.show.junit: The report as JUnit XML, which build servers read: a suite for each chapter, a case for each rule.

_CONTROL = {code: None for code in range(32) if chr(code) not in "\t\n\r"}


def junit(report: CheckReport) -> bytes:
    """The document. A warning is a passed case with its text in `system-out`; what could not be judged is skipped."""
    root = ElementTree.Element("testsuites", name=f"accord check {report.kind}: {_clean(report.name)}")
    for chapter, title in CHAPTERS.items():
        found = [finding for finding in report.findings if finding.subject.chapter == chapter]
        if found:
            suite = ElementTree.SubElement(root, "testsuite", name=title, tests=str(len(found)))
            suite.set("failures", str(sum(one.verdict == "fail" for one in found)))
            suite.set("skipped", str(sum(one.verdict.startswith("not ") for one in found)))
            suite.set("errors", "0")
            for finding in found:
                _case(suite, chapter, finding)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _case(suite: ElementTree.Element, chapter: str, finding: Finding) -> None:
    subject = finding.subject
    name = f"{subject.id} {_clean(subject.text)}"
    case = ElementTree.SubElement(suite, "testcase", classname=f"acp.{chapter}", name=name)
    frames = "\n".join(f"{frame.sender} {frame.number}: {frame.text}" for frame in finding.frames)
    match finding.verdict:
        case "fail":
            failure = ElementTree.SubElement(case, "failure", message=_clean(finding.why), type=subject.level)
            failure.text = _clean(frames)
        case "warn":
            ElementTree.SubElement(case, "system-out").text = _clean(f"warning: {finding.why}\n{frames}")
        case "not applicable" | "not shown":
            message = _clean(f"{finding.verdict}: {finding.why}")
            ElementTree.SubElement(case, "skipped", message=message)
        case "pass":
            pass


def _clean(text: str) -> str:
    return text.translate(_CONTROL).encode("utf-8", "replace").decode()


# MERGED check.show.page: The report as one page of HTML that needs nothing else: chapters, verdicts to filter by, frames to open.

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


def page(report: CheckReport, *, date: str) -> Iterator[str]:
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


# MERGED check.show.text: The report as text for a terminal: what is broken first with its frames, then every chapter in a few lines.

_MARKS: dict[Verdict, str] = {"pass": "+", "fail": "x", "warn": "!", "not applicable": "-", "not shown": "?"}
_WIDTH = 240
_FEW = 3  # rules that were not shown have a line each, as long as there are no more


def text(report: CheckReport, *, verbose: bool = False, quiet: bool = False) -> Iterator[str]:
    """The lines of the report; with `verbose` every rule has one, with `quiet` only the broken ones have."""
    name = clean(f"{report.name} {report.version}".strip())
    if quiet:
        for finding in report.of("fail", "warn"):
            yield from _finding_line(finding)
        yield f"{name}: {summary(report)}"
        return
    yield f"{name}, with the script: {report.script}"
    unseen = report.of("not shown")
    told = {*VERDICTS} if verbose else {"fail", "warn", *(["not shown"] if len(unseen) <= _FEW else [])}
    for chapter, title in CHAPTERS.items():
        found = [finding for finding in report.findings if finding.subject.chapter == chapter]
        if not found:
            continue
        yield ""
        counts = [f"{sum(one.verdict == v for one in found)} {v}" for v in VERDICTS]
        yield f"{title}: {', '.join(count for count in counts if not count.startswith('0 '))}"
        for finding in found:
            if finding.verdict in told:
                yield from _finding_line(finding)
    if "not shown" not in told:
        yield ""
        yield f"Not shown: {', '.join(finding.subject.id for finding in unseen)} (--verbose says why)"
    yield ""
    yield summary(report)


def summary(report: CheckReport) -> str:
    """One line."""
    return ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items())


def _finding_line(finding: Finding) -> Iterator[str]:
    subject = finding.subject
    level = f"{subject.level}{'' if subject.stable else ', unstable'}"
    yield f"  {_MARKS[finding.verdict]} {subject.id:>6}  {finding.verdict}  {subject.text} [{level}; {subject.basis}]"
    if finding.why:
        yield f"            {_cut(finding.why, 400)}"
    if finding.verdict in ("fail", "warn"):
        yield f"            by {BASES[subject.basis]}; tried in: {', '.join(finding.tried[:4])}"  # pyright: ignore[reportArgumentType]
        for frame in finding.frames:
            arrow = "->" if frame.sender == "client" else "<-"
            yield f"            {arrow} {frame.number:>4}  {_cut(frame.text, _WIDTH)}"


def _cut(words: str, width: int) -> str:
    shown = clean(words)
    return shown if len(shown) <= width else f"{shown[:width]}..."
