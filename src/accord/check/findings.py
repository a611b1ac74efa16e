"""Rules, notes about them, the findings of a report, and the type of a check case."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from accord.schema.conformance_rules import BASES, REVISIONS, RULES, RULES_V2
from accord.trace.wire_line import Evidence

Verdict: TypeAlias = Literal["pass", "fail", "warn", "not applicable", "not shown"]
VERDICTS: Final[tuple[Verdict, ...]] = ("pass", "fail", "warn", "not applicable", "not shown")

SCHEMA: Final = "schema"
"""The id of the check that every message matches the schema, where no other rule says so."""

RuleId: TypeAlias = str
"""The slug of a conformance rule, `schema`, or a fault."""

FAULTS: Final[dict[RuleId, tuple[str, str]]] = {
    "fault-dies": ("Ends clearly when the other side dies, in any phase", "Die in each phase"),
    "fault-stalls": ("Continues, or ends clearly, when the other side does not answer", "Answer nothing"),
    "fault-twice": ("A second answer changes nothing", "Answer twice, the second time differently"),
    "fault-unknown-ids": ("An answer without a request changes nothing", "Answer with unknown ids"),
    "fault-types": ("Values of the wrong type do no harm and are not consent", "Send wrong types everywhere"),
    "fault-huge": ("Huge messages do no harm", "Send messages of many megabytes"),
    "fault-noise": ("Lines that are not messages do no harm", "Send such lines between messages"),
    "fault-slow": ("A slow reader does no harm", "Read nothing for a while"),
    "fault-pieces": ("Messages that arrive byte by byte are read", "Send messages byte by byte"),
    "fault-reordered": ("Answers may arrive in any order", "Answer the last request first"),
    "dialects": (
        "Understands the dialects of real programs",
        "Use the dialects; nothing is lost, nothing counts as consent",
    ),
}
"""Checks besides the rules, each with its text and how it is tested: the other side misbehaves."""
CHAPTERS: Final[dict[str, str]] = {
    **RULES.chapters,
    **RULES_V2.chapters,
    "faults": "When the other side misbehaves",
}
"""The chapters of a report: key to title."""


class HasEvidence(Protocol):
    """Something that lines of a connection show: a line, a call with its answer, a turn."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The lines."""
        ...


class CheckedRule(Struct, frozen=True):
    """A rule of the protocol, `schema`, or a fault."""

    slug: str
    id: str
    """Its number, if it has one; otherwise the slug."""
    chapter: str
    level: str
    basis: str
    stable: bool
    text: str
    how: str
    revision: str = ""
    """The revision of the draft of version 2 that has it; empty in version 1."""

    @property
    def label(self) -> str:
        """The slug with the number, as reports show it."""
        return self.slug if self.id == self.slug else f"{self.slug} ({self.id})"

    @property
    def source(self) -> str:
        """What the rule is based on, with the revision of a draft."""
        source = BASES[self.basis]  # pyright: ignore[reportArgumentType]
        return f"{source}, in {self.revision}" if self.revision else source


class Finding(Struct, frozen=True):
    """The verdict on one rule."""

    rule: CheckedRule
    verdict: Verdict
    why: str
    cases: tuple[str, ...] = ()
    frames: tuple[Evidence, ...] = ()


def checked_rule(rule: RuleId) -> CheckedRule:
    """The rule with this slug."""
    if rule == SCHEMA:
        return CheckedRule(
            slug=SCHEMA,
            id=SCHEMA,
            chapter="framing",
            level="MUST",
            basis="S",
            stable=True,
            text="Every message it sends matches the schema, also where no other rule says so",
            how="Strict validation of every message",
        )
    if rule in FAULTS:
        text, how = FAULTS[rule]
        level, basis = ("SHOULD", "Accord") if rule == "dialects" else ("MUST", "I")
        return CheckedRule(rule, rule, "faults", level, basis, stable=True, text=text, how=how)
    found = RULES.by_slug.get(rule) or RULES_V2.by_slug[rule]
    return CheckedRule(
        slug=rule,
        id=str(found.id),
        chapter=found.chapter,
        level=found.level or "",
        basis=found.basis,
        stable=found.status == "stable",
        text=found.text,
        how=found.how,
        revision=REVISIONS.get(found.revision, ""),
    )


def failure_verdict(checked: CheckedRule, *, ours: bool) -> Verdict:
    """The verdict on a broken rule. `ours`: the program is Accord's own, so Accord's choices apply to it."""
    if checked.level == "SHOULD" or (checked.basis == "Accord" and not ours):
        return "warn"
    return "fail"


Outcome: TypeAlias = Literal["fail", "unjudged", "pass", "not applicable", "not shown"]

_DECISIVE_ORDER: Final[tuple[Outcome, ...]] = ("fail", "unjudged", "pass", "not applicable", "not shown")
"""The decisive outcome of a rule is the first of these that was noted."""
_MAX_FRAMES: Final = 6
_MAX_REASONS: Final = 4
_MAX_NOTES: Final = 200  # per rule and outcome, in one case


class RuleNote(NamedTuple):
    """One observation about a rule."""

    rule: RuleId
    outcome: Outcome
    reason: str
    frames: tuple[Evidence, ...]
    case: str
    from_schema: bool = False
    """Whether schema validation found it."""


class RuleNotes:
    """The notes about all rules, collected while a case runs. Repeated notes are limited."""

    def __init__(self, case: str = "") -> None:
        self.case = case
        self.entries: list[RuleNote] = []
        self._repeats: Counter[tuple[RuleId, Outcome, str]] = Counter()
        self._counts: Counter[tuple[RuleId, Outcome]] = Counter()

    def add_pass(self, rule: RuleId, reason: str, *shown: HasEvidence) -> None:
        """The rule was tested and kept."""
        self._add(rule, "pass", reason, shown)

    def add_fail(self, rule: RuleId, reason: str, *shown: HasEvidence, from_schema: bool = False) -> None:
        """The rule was broken. `from_schema`: schema validation found it."""
        self._add(rule, "fail", reason, shown, from_schema=from_schema)

    def add_unjudged(self, rule: RuleId, reason: str, *shown: HasEvidence) -> None:
        """A message could not be judged: the rule is "not shown" even if it was kept elsewhere."""
        self._add(rule, "unjudged", reason, shown)

    def add_not_applicable(self, rule: RuleId, reason: str) -> None:
        """The rule does not apply: the program does not support the feature."""
        self._add(rule, "not applicable", reason, ())

    def add_not_shown(self, rule: RuleId, reason: str) -> None:
        """The situation of the rule did not occur."""
        self._add(rule, "not shown", reason, ())

    def add_skipped_part(self, rule: RuleId, reason: str) -> None:
        """A part of the rule was not tested; noted only if the rest passed."""
        notes = self.for_rule(rule)
        if notes and all(note.outcome == "pass" for note in notes):
            self.add_pass(rule, reason)

    def judge(
        self, rule: RuleId, passed: bool, pass_reason: str, fail_reason: str, *shown: HasEvidence
    ) -> bool:
        """Note a pass or a failure, each with its reason; returns `passed`."""
        if passed:
            self.add_pass(rule, pass_reason, *shown)
        else:
            self.add_fail(rule, fail_reason, *shown)
        return passed

    def for_rule(self, rule: RuleId) -> list[RuleNote]:
        """The notes about one rule."""
        return [note for note in self.entries if note.rule == rule]

    def extend(self, other: "RuleNotes") -> None:
        """Append all notes of another collection."""
        self.entries += other.entries

    def _add(
        self,
        rule: RuleId,
        outcome: Outcome,
        reason: str,
        shown: Iterable[HasEvidence],
        *,
        from_schema: bool = False,
    ) -> None:
        # Equal notes are limited, because a program may repeat a violation thousands of times.
        if self._repeats[rule, outcome, reason] < _MAX_FRAMES and self._counts[rule, outcome] < _MAX_NOTES:
            self._repeats[rule, outcome, reason] += 1
            self._counts[rule, outcome] += 1
            frames = tuple(frame for one in shown for frame in one.evidence)
            self.entries.append(RuleNote(rule, outcome, reason, frames, self.case, from_schema))


def make_findings(notes: RuleNotes, rules: Sequence[RuleId], *, ours: bool) -> list[Finding]:
    """One finding per rule, in the order of the rules."""
    by_rule: dict[RuleId, list[RuleNote]] = {rule: [] for rule in rules}
    for note in notes.entries:
        if note.rule in by_rule:
            by_rule[note.rule].append(note)
        elif note.from_schema and SCHEMA in by_rule:  # the rule itself was not selected
            by_rule[SCHEMA].append(note)
    return [_make_finding(rule, entries, ours) for rule, entries in by_rule.items()]


def _make_finding(rule: RuleId, notes: list[RuleNote], ours: bool) -> Finding:
    checked = checked_rule(rule)
    noted: list[Outcome] = sorted((note.outcome for note in notes), key=_DECISIVE_ORDER.index)
    outcome: Outcome = noted[0] if noted else "not shown"
    decisive = [note for note in notes if note.outcome == outcome]
    cases = tuple(dict.fromkeys(note.case for note in decisive if note.case))
    reasons = list(dict.fromkeys(note.reason for note in decisive if note.reason))
    why = "; ".join(reasons[:_MAX_REASONS])
    if len(reasons) > _MAX_REASONS:
        why += f"; and {len(reasons) - _MAX_REASONS} more"
    frames = _first_frames(decisive)
    match outcome:
        case "fail":
            verdict = failure_verdict(checked, ours=ours)
        case "pass":
            verdict = "pass"
        case "not applicable":
            verdict = "not applicable"
        case "unjudged":
            verdict = "not shown"
        case "not shown":
            verdict = "not shown"
            why = why or "no message was about it"
    return Finding(checked, verdict, why, cases, frames)


def _first_frames(notes: list[RuleNote]) -> tuple[Evidence, ...]:
    """The first few lines of evidence, without duplicates from other connections."""
    found: list[Evidence] = []
    connections: dict[tuple[str, str], str] = {}
    for frame in dict.fromkeys(frame for note in notes for frame in note.frames):
        if connections.setdefault((frame.sender, frame.text), frame.connection) == frame.connection:
            found.append(frame)
        if len(found) == _MAX_FRAMES:
            break
    return tuple(found)


class CheckReport(Struct, frozen=True):
    """The result of a run. `kind` is "agent" or "client"."""

    kind: str
    name: str
    version: str
    script: str
    findings: list[Finding]
    interrupted: str = ""
    """How many cases ran, if the run was stopped early."""

    @property
    def counts(self) -> dict[Verdict, int]:
        """The number of findings per verdict."""
        counts = Counter(finding.verdict for finding in self.findings)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    @property
    def failed(self) -> bool:
        """Whether a mandatory rule is broken."""
        return any(finding.verdict == "fail" for finding in self.findings)

    def of(self, *verdicts: Verdict) -> list[Finding]:
        """The findings with these verdicts."""
        return [finding for finding in self.findings if finding.verdict in verdicts]


FixtureT = TypeVar("FixtureT")
CaseFunction: TypeAlias = Callable[[FixtureT], Awaitable[None]]


class CaseUnavailable(Exception):
    """The case cannot continue: the script lacks an action, or the program did not do what it asks."""


class CheckCase(NamedTuple, Generic[FixtureT]):
    """One test case: one or a few connections that test several rules.

    The case is skipped if it names a `capability` that the program does not advertise.
    """

    name: str
    about: str
    rules: tuple[RuleId, ...]
    run: CaseFunction[FixtureT]
    capability: str = ""


class CaseList(Generic[FixtureT]):
    """The cases of a module, in order. A case is added by calling the list as a decorator."""

    def __init__(self) -> None:
        self.cases: list[CheckCase[FixtureT]] = []

    def __call__(
        self, rules: str, capability: str = ""
    ) -> Callable[[CaseFunction[FixtureT]], CaseFunction[FixtureT]]:
        """Add the decorated function as a case. `rules` are separated by spaces.

        Its docstring is the name of the case in reports, a colon, and what the case does.
        """

        def add(run: CaseFunction[FixtureT]) -> CaseFunction[FixtureT]:
            # `python -OO` has no docstrings; then the name of the function is the name of the case.
            title = run.__doc__ or f"{getattr(run, '__name__', '').replace('_', ' ')}: ."
            name, _, about = " ".join(title.split()).partition(": ")
            lower = name if name[1:2].isupper() else name[:1].lower() + name[1:]
            self.add(lower, about.removesuffix("."), rules, run, capability)
            return run

        return add

    def add(
        self, name: str, about: str, rules: str, run: CaseFunction[FixtureT], capability: str = ""
    ) -> None:
        """Add a function as a case."""
        self.cases.append(CheckCase(name, about, tuple(rules.split()), run, capability))
