"""The report as JUnit XML, which build servers read: a suite for each chapter, a case for each rule."""

from xml.etree import ElementTree

from accord.check.report import Report
from accord.check.verdict import CHAPTERS, Finding

_CONTROL = {code: None for code in range(32) if chr(code) not in "\t\n\r"}


def junit(report: Report) -> bytes:
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
