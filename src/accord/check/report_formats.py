"""The report as text, JSON, JUnit XML and HTML."""

from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Any, Final
from xml.etree import ElementTree

from accord import __version__
from accord.check.findings import CHAPTERS, VERDICTS, CheckReport, Finding, Verdict
from accord.trace.step_summary import escape_controls


def report_json(report: CheckReport, *, command: list[str], date: str) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "accordCheck": 1,
        "checked": report.kind,
        "name": report.name,
        "version": report.version,
        "command": command,
        "script": report.script,
        "by": f"accord {__version__}",
        "date": date,
        **({"interrupted": report.interrupted} if report.interrupted else {}),
        "counts": report.counts,
        "rules": [_finding_json(finding) for finding in report.findings],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    return {
        "id": rule.id,
        "slug": rule.slug,
        "chapter": rule.chapter,
        "level": rule.level,
        "stable": rule.stable,
        "basis": rule.basis,
        "source": rule.source,
        "rule": rule.text,
        "how": rule.how,
        "verdict": finding.verdict,
        "why": finding.why,
        "scenes": list(finding.cases),
        "frames": [
            {"talk": frame.connection, "number": frame.number, "from": frame.sender, "text": frame.text}
            for frame in finding.frames
        ],
    }


def _findings_by_chapter(report: CheckReport) -> Iterator[tuple[str, list[Finding]]]:
    """The chapters with findings, in the order of `CHAPTERS`."""
    for chapter in CHAPTERS:
        findings = [finding for finding in report.findings if finding.rule.chapter == chapter]
        if findings:
            yield chapter, findings


def _interruption(report: CheckReport) -> str:
    return f"interrupted: {report.interrupted}"


_CONTROL_CHARACTERS: Final = {code: None for code in range(32) if chr(code) not in "\t\n\r"}


def report_junit(report: CheckReport) -> bytes:
    """The report as JUnit XML: a suite per chapter, a case per rule.

    A warning is a passed case with its text in `system-out`. "Not applicable" and "not shown" are skipped.
    An interrupted run is an error.
    """
    root = ElementTree.Element("testsuites", name=f"accord check {report.kind}: {_xml_text(report.name)}")
    if report.interrupted:
        counts = {"tests": "1", "failures": "0", "skipped": "0", "errors": "1"}
        suite = ElementTree.SubElement(root, "testsuite", {"name": "The run of the check", **counts})
        case = ElementTree.SubElement(suite, "testcase", classname="acp.run", name="all cases were run")
        ElementTree.SubElement(case, "error", message=_interruption(report))
    for chapter, findings in _findings_by_chapter(report):
        suite = ElementTree.SubElement(root, "testsuite", name=CHAPTERS[chapter], tests=str(len(findings)))
        suite.set("failures", str(sum(finding.verdict == "fail" for finding in findings)))
        suite.set("skipped", str(sum(finding.verdict.startswith("not ") for finding in findings)))
        suite.set("errors", "0")
        for finding in findings:
            _add_junit_case(suite, chapter, finding)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _add_junit_case(suite: ElementTree.Element, chapter: str, finding: Finding) -> None:
    rule = finding.rule
    name = f"{rule.label} {_xml_text(rule.text)}"
    case = ElementTree.SubElement(suite, "testcase", classname=f"acp.{chapter}", name=name)
    frames = "\n".join(f"{frame.sender} {frame.number}: {frame.text}" for frame in finding.frames)
    match finding.verdict:
        case "fail":
            failure = ElementTree.SubElement(case, "failure", message=_xml_text(finding.why), type=rule.level)
            failure.text = _xml_text(frames)
        case "warn":
            ElementTree.SubElement(case, "system-out").text = _xml_text(f"warning: {finding.why}\n{frames}")
        case "not applicable" | "not shown":
            message = _xml_text(f"{finding.verdict}: {finding.why}")
            ElementTree.SubElement(case, "skipped", message=message)
        case "pass":
            pass


def _xml_text(text: str) -> str:
    return text.translate(_CONTROL_CHARACTERS).encode("utf-8", "replace").decode()


_HTML_HEAD: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>%s</title><style>
:root { color-scheme: light dark;
  --line: #8884; --pass: #2a8a3e; --fail: #d2322d; --warn: #b8790a; --none: #888 }
body { font: 14px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 1.5rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem; margin-bottom: .2rem } h2 { font-size: 1.05rem; margin: 1.4rem 0 .3rem }
form { position: sticky; top: 0; background: Canvas; padding: .5rem 0;
  display: flex; gap: 1rem; flex-wrap: wrap; align-items: center }
details { border-top: 1px solid var(--line) }
summary { display: grid; grid-template-columns: 18rem 8rem 1fr 9rem; gap: .6rem;
  cursor: pointer; list-style: none; padding: .2rem 0 }
.id { opacity: .7 } .level { opacity: .7; text-align: right }
.pass .verdict { color: var(--pass) } .fail .verdict { color: var(--fail); font-weight: 600 }
.warn .verdict { color: var(--warn); font-weight: 600 }
.not-applicable .verdict, .not-shown .verdict { color: var(--none) }
p { margin: .2rem 0 .2rem 1rem }
pre { margin: .2rem 0 .4rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px }
[hidden] { display: none }
@media (max-width: 45rem) { summary { grid-template-columns: 8rem 6rem 1fr } .level { display: none } }
</style></head><body>
"""
_HTML_TAIL: Final = """<script>
const boxes = [...document.querySelectorAll("input[name=verdict]")], text = document.getElementById("text");
function filter() {
  const wanted = boxes.filter(box => box.checked).map(box => box.value), words = text.value.toLowerCase();
  for (const row of document.querySelectorAll("details"))
    row.hidden = !wanted.includes(row.className) || !row.textContent.toLowerCase().includes(words);
  for (const part of document.querySelectorAll("section"))
    part.hidden = !part.querySelector("details:not([hidden])");
}
for (const box of [...boxes, text]) box.addEventListener("input", filter);
</script></body></html>
"""


def report_html(report: CheckReport, *, date: str) -> Iterator[str]:
    """The report as one self-contained HTML page, in parts."""
    title = _html_text(f"accord check: {report.name} {report.version}".rstrip())
    yield _HTML_HEAD % title
    about = f"{_html_text(date)} · script: {_html_text(report.script)} · by accord {__version__}"
    yield f"<h1>{title}</h1><div>{about}</div>\n"
    if report.interrupted:
        yield f'<div class="warn"><span class="verdict">{_html_text(_interruption(report))}</span></div>\n'
    yield "<form>"
    for verdict, count in report.counts.items():
        name = _css_class(verdict)
        box = f'<input type="checkbox" name="verdict" value="{name}" checked>'
        yield f'<label class="{name}">{box} <span class="verdict">{count} {verdict}</span></label>'
    yield '<label>text <input id="text"></label></form>\n'
    for chapter, findings in _findings_by_chapter(report):
        yield f"<section><h2>{_html_text(CHAPTERS[chapter])}</h2>\n"
        yield from map(_html_row, findings)
        yield "</section>\n"
    yield _HTML_TAIL


def _html_row(finding: Finding) -> str:
    rule = finding.rule
    cells = (
        f'<span class="id">{rule.label}</span><span class="verdict">{finding.verdict}</span>'
        f"<span>{_html_text(rule.text)}</span>"
        f'<span class="level">{rule.level}{"" if rule.stable else " · unstable"}</span>'
    )
    body = f"<p>{_html_text(finding.why)}</p><p><small>Source: {_html_text(rule.source)}."
    body += (
        f" Test: {_html_text(rule.how)}. Cases: {_html_text(', '.join(finding.cases) or 'none')}.</small></p>"
    )
    for frame in finding.frames:
        arrow = "→" if frame.sender == "client" else "←"
        body += f"<pre>{arrow} {_html_text(frame.connection)} #{frame.number}\n{_html_text(frame.text)}</pre>"
    return f'<details class="{_css_class(finding.verdict)}"><summary>{cells}</summary>{body}</details>\n'


def _css_class(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _html_text(text: str) -> str:
    return escape(escape_controls(text))


_SIGNS: Final[dict[Verdict, str]] = {
    "pass": "+",
    "fail": "x",
    "warn": "!",
    "not applicable": "-",
    "not shown": "?",
}
_MAX_FRAME_WIDTH: Final = 240
_MAX_NOT_SHOWN_LINES: Final = 3  # more "not shown" rules are listed in one line


def report_text(report: CheckReport, *, verbose: bool = False, quiet: bool = False) -> Iterator[str]:
    """The lines of the report. `verbose`: a line per rule; `quiet`: only broken rules and the totals."""
    name = escape_controls(f"{report.name} {report.version}".strip())
    if quiet:
        for finding in report.of("fail", "warn"):
            yield from _finding_lines(finding)
        yield f"{name}: {totals_line(report)}"
        if report.interrupted:
            yield f"{name}: {_interruption(report)}"
        return
    yield f"{name}, with the script: {report.script}"
    not_shown = report.of("not shown")
    printed_verdicts = (
        {*VERDICTS}
        if verbose
        else {"fail", "warn", *(["not shown"] if len(not_shown) <= _MAX_NOT_SHOWN_LINES else [])}
    )
    for chapter, findings in _findings_by_chapter(report):
        yield ""
        counts = Counter(finding.verdict for finding in findings)
        totals = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
        yield f"{CHAPTERS[chapter]}: {totals}"
        for finding in findings:
            if finding.verdict in printed_verdicts:
                yield from _finding_lines(finding)
    if "not shown" not in printed_verdicts:
        yield ""
        ids = ", ".join(finding.rule.label for finding in not_shown)
        yield f"Not shown: {ids} (use --verbose for the reasons)"
    yield ""
    if report.interrupted:
        yield f"{_interruption(report)}; the rules of the others are not shown"
    yield totals_line(report)


def totals_line(report: CheckReport) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items())


def _finding_lines(finding: Finding) -> Iterator[str]:
    rule = finding.rule
    level = f"{rule.level}{'' if rule.stable else ', unstable'}"
    yield f"  {_SIGNS[finding.verdict]} {rule.label}  {finding.verdict}  {rule.text} [{level}; {rule.basis}]"
    if finding.why:
        yield f"      {_shorten(finding.why, 400)}"
    if finding.verdict in ("fail", "warn"):
        yield f"      source: {rule.source}; cases: {', '.join(finding.cases[:4])}"
        for frame in finding.frames:
            arrow = "->" if frame.sender == "client" else "<-"
            yield f"      {arrow} {frame.number:>4}  {_shorten(frame.text, _MAX_FRAME_WIDTH)}"


def _shorten(text: str, width: int) -> str:
    clean_text = escape_controls(text)
    return clean_text if len(clean_text) <= width else f"{clean_text[:width]}..."
