"""The report as text for a terminal: what is broken first with its frames, then every chapter in a few lines."""

from collections.abc import Iterator

from accord.check.report import Report
from accord.check.verdict import CHAPTERS, VERDICTS, Finding, Verdict
from accord.schema.rules import BASES
from accord.trace.summary import clean

_MARKS: dict[Verdict, str] = {"pass": "+", "fail": "x", "warn": "!", "not applicable": "-", "not shown": "?"}
_WIDTH = 240
_FEW = 3  # rules that were not shown have a line each, as long as there are no more


def text(report: Report, *, verbose: bool = False, quiet: bool = False) -> Iterator[str]:
    """The lines of the report; with `verbose` every rule has one, with `quiet` only the broken ones have."""
    name = clean(f"{report.name} {report.version}".strip())
    if quiet:
        for finding in report.of("fail", "warn"):
            yield from _finding(finding)
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
                yield from _finding(finding)
    if "not shown" not in told:
        yield ""
        yield f"Not shown: {', '.join(finding.subject.id for finding in unseen)} (--verbose says why)"
    yield ""
    yield summary(report)


def summary(report: Report) -> str:
    """One line."""
    return ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items())


def _finding(finding: Finding) -> Iterator[str]:
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
