"""The report as JSON, for programs."""

from typing import Any

from accord import __version__
from accord.check.report import Report
from accord.check.verdict import Finding
from accord.schema.rules import BASES


def data(report: Report, *, command: list[str], date: str) -> dict[str, Any]:
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
