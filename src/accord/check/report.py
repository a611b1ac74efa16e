"""A report: who was checked, and the verdict on every rule. The pages beside this file show it."""

from collections import Counter

from msgspec import Struct

from accord.check.verdict import VERDICTS, Finding, Verdict


class Report(Struct, frozen=True):
    """The outcome of a run. `kind` is "agent" or "client"."""

    kind: str
    name: str
    version: str
    script: str
    findings: list[Finding]

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many of each verdict."""
        found = Counter(finding.verdict for finding in self.findings)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @property
    def failed(self) -> bool:
        """Whether any rule is broken that must not be."""
        return any(finding.verdict == "fail" for finding in self.findings)

    def of(self, *verdicts: Verdict) -> list[Finding]:
        """The findings with these verdicts."""
        return [finding for finding in self.findings if finding.verdict in verdicts]
