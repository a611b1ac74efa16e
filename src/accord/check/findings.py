"""Verdict and evidence per rule, the findings collected during a run, the report, and the case type."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from accord.schema.conformance_rules import RULES, ConformanceRule
from accord.trace.message_redaction import redact_frame
from accord.trace.text_redaction import redact_text

# MERGED check.verdict: What can be said of one rule after a run: a verdict, why, and the frames that show it.

Verdict: TypeAlias = Literal["pass", "fail", "warn", "not applicable", "not shown"]
VERDICTS: Final[tuple[Verdict, ...]] = ("pass", "fail", "warn", "not applicable", "not shown")

SCHEMA: Final[Literal["schema"]] = "schema"
"""The id of the one check that is no numbered rule: everything sent fits the schema, where no rule says it closer."""

Fault: TypeAlias = Literal[
    "fault-dies",
    "fault-stalls",
    "fault-twice",
    "fault-unknown-ids",
    "fault-types",
    "fault-huge",
    "fault-noise",
    "fault-slow",
    "fault-pieces",
    "fault-reordered",
    "dialects",
]
FAULTS: Final[dict[Fault, tuple[str, str]]] = {
    "fault-dies": ("Ends clearly when the other side dies, in whatever phase", "Die in each phase"),
    "fault-stalls": ("Goes on, or ends clearly, when the other side does not answer", "Answer nothing"),
    "fault-twice": ("A second answer changes nothing", "Answer twice, the second time otherwise"),
    "fault-unknown-ids": ("An answer that nobody asked for changes nothing", "Answer under unknown ids"),
    "fault-types": ("Values of the wrong type do no harm, and are no consent", "Send wrong types everywhere"),
    "fault-huge": ("Huge messages do no harm", "Send messages of many megabytes"),
    "fault-noise": ("Lines that are no messages do no harm", "Send all kinds of them between messages"),
    "fault-slow": ("A slow reader does no harm", "Read nothing for a while"),
    "fault-pieces": ("Messages that come in pieces are read whole", "Send them byte by byte"),
    "fault-reordered": ("Answers may come in any order", "Answer the last request first"),
    "dialects": (
        "Understands the dialects of the field",
        "Speak in them; nothing is lost, nothing is consent",
    ),
}
"""What is checked besides the rules: what must happen when the other side misbehaves. Nobody hangs, crashes or consents."""
CHAPTERS: Final[dict[str, str]] = {**RULES.chapters, "faults": "When the other side misbehaves"}
"""The chapters of a report: key to title."""

_SHOWN = 1200
_READ = 1024 * 1024


class Evidence(Struct, frozen=True):
    """One line of the wire. There are many, and few are shown."""

    talk: str
    number: int
    sender: str
    data: bytes

    @property
    def text(self) -> str:
        """As it is shown to people: secrets are taken out, and what is long is cut."""
        head = self.data if len(self.data) <= _READ else self.data[:_READ]
        try:
            text = redact_frame(head).decode()
        except UnicodeDecodeError:
            text = redact_text(head.decode("utf-8", "backslashreplace"))
        if len(text) > _SHOWN:
            text = f"{text[:_SHOWN]}... ({len(self.data)} bytes)"
        return text


class CheckedRule(Struct, frozen=True):
    """What is checked: a rule of the protocol, or the schema as a whole."""

    id: str
    chapter: str
    level: str
    basis: str
    stable: bool
    text: str
    how: str


class Finding(Struct, frozen=True):
    """The verdict on one subject."""

    subject: CheckedRule
    verdict: Verdict
    why: str
    tried: tuple[str, ...] = ()
    frames: tuple[Evidence, ...] = ()


def subject_of(id: str) -> CheckedRule:
    """The subject with this id."""
    if id == SCHEMA:
        return CheckedRule(
            id=SCHEMA,
            chapter="framing",
            level="MUST",
            basis="S",
            stable=True,
            text="Everything it sends fits the schema, also where no rule of its own says so",
            how="Strict walk over every message",
        )
    if id in FAULTS:
        text, how = FAULTS[id]
        level = "SHOULD" if id == "dialects" else "MUST"
        basis = "Accord" if id == "dialects" else "I"
        return CheckedRule(id=id, chapter="faults", level=level, basis=basis, stable=True, text=text, how=how)
    return _of_rule(RULES[int(id)])


def _of_rule(rule: ConformanceRule) -> CheckedRule:
    return CheckedRule(
        id=str(rule.id),
        chapter=rule.chapter,
        level=rule.level or "",
        basis=rule.basis,
        stable=rule.status == "stable",
        text=rule.text,
        how=rule.how,
    )


def severity(subject: CheckedRule, *, ours: bool) -> Verdict:
    """What breaking it counts as. `ours`: the program under test is one of Accord's own, which Accord's choices bind."""
    if subject.level == "SHOULD" or (subject.basis == "Accord" and not ours):
        return "warn"
    return "fail"


# MERGED check.ledger: The ledger of a run: what was seen of each rule, scene by scene, and the verdict that follows from all of it.

Rule: TypeAlias = int | Literal["schema"] | Fault
Outcome: TypeAlias = Literal["broken", "unjudged", "kept", "absent", "unseen"]

_ORDER: Final[tuple[Outcome, ...]] = ("broken", "unjudged", "kept", "absent", "unseen")
_MOST_FRAMES: Final = 6
_MOST_REASONS: Final = 4
_MOST_NOTES: Final = 200  # of one rule with one outcome, in one scene


class RuleNote(NamedTuple):
    """One thing that was seen, or not seen, of a rule."""

    rule: Rule
    outcome: Outcome
    why: str
    frames: tuple[Evidence, ...]
    scene: str
    walked: bool = False
    """Whether the walk by the schema found it."""


class RuleNotes:
    """Takes notes while scenes are played. `scene` is the one that plays now, for those who write."""

    def __init__(self, scene: str = "") -> None:
        self.scene = scene
        self.notes: list[RuleNote] = []
        self._told: Counter[tuple[Rule, Outcome, str]] = Counter()
        self._noted: Counter[tuple[Rule, Outcome]] = Counter()

    def kept(self, rule: Rule, why: str, frames: Iterable[Evidence] = ()) -> None:
        """The rule was put to the test here, and kept."""
        self._note(rule, "kept", why, frames)

    def broken(self, rule: Rule, why: str, frames: Iterable[Evidence] = (), *, walked: bool = False) -> None:
        """The rule was broken; `walked`, as the walk by the schema shows."""
        self._note(rule, "broken", why, frames, walked=walked)

    def unjudged(self, rule: Rule, why: str, frames: Iterable[Evidence] = ()) -> None:
        """Something was sent that could not be looked at: whatever else is kept, the rule is not shown to be."""
        self._note(rule, "unjudged", why, frames)

    def absent(self, rule: Rule, why: str) -> None:
        """The rule does not bind this program: it does not offer what the rule is about."""
        self._note(rule, "absent", why, ())

    def unseen(self, rule: Rule, why: str) -> None:
        """The rule could not be judged here: what it is about did not happen."""
        self._note(rule, "unseen", why, ())

    def untried(self, rule: Rule, why: str) -> None:
        """A part of the rule was left out; said beside whatever the rest showed."""
        notes = self.of(rule)
        if notes and all(note.outcome == "kept" for note in notes):
            self.kept(rule, why)

    def judge(self, rule: Rule, kept: bool, good: str, bad: str, frames: Iterable[Evidence] = ()) -> bool:
        """Kept or broken; the result says which."""
        if kept:
            self.kept(rule, good, frames)
        else:
            self.broken(rule, bad, frames)
        return kept

    def of(self, rule: Rule) -> list[RuleNote]:
        """What was noted of one rule."""
        return [note for note in self.notes if note.rule == rule]

    def take(self, other: "RuleNotes") -> None:
        """Everything that another ledger noted."""
        self.notes += other.notes

    def _note(
        self, rule: Rule, outcome: Outcome, why: str, frames: Iterable[Evidence], *, walked: bool = False
    ) -> None:
        # What was said of a thousand lines is not said better of the next one.
        if self._told[rule, outcome, why] < _MOST_FRAMES and self._noted[rule, outcome] < _MOST_NOTES:
            self._told[rule, outcome, why] += 1
            self._noted[rule, outcome] += 1
            self.notes.append(RuleNote(rule, outcome, why, tuple(frames), self.scene, walked))


def find(ledger: RuleNotes, rules: Sequence[Rule], *, ours: bool) -> list[Finding]:
    """The verdicts on these rules, in this order."""
    by_rule: dict[Rule, list[RuleNote]] = {rule: [] for rule in rules}
    for note in ledger.notes:
        if note.rule in by_rule:
            by_rule[note.rule].append(note)
        elif note.walked and SCHEMA in by_rule:  # nobody else would tell of it
            by_rule[SCHEMA].append(note)
    return [_finding(rule, notes, ours) for rule, notes in by_rule.items()]


def _finding(rule: Rule, notes: list[RuleNote], ours: bool) -> Finding:
    subject = subject_of(str(rule))
    seen: list[Outcome] = [one for one in _ORDER if any(note.outcome == one for note in notes)]
    outcome: Outcome = seen[0] if seen else "unseen"
    decisive = [note for note in notes if note.outcome == outcome]
    tried = tuple(dict.fromkeys(note.scene for note in decisive if note.scene))
    reasons = list(dict.fromkeys(note.why for note in decisive if note.why))
    why = "; ".join(reasons[:_MOST_REASONS])
    if len(reasons) > _MOST_REASONS:
        why += f"; and {len(reasons) - _MOST_REASONS} more"
    frames = _frames(decisive)
    match outcome:
        case "broken":
            verdict = severity(subject, ours=ours)
        case "kept":
            verdict = "pass"
        case "absent":
            verdict = "not applicable"
        case "unjudged":
            verdict = "not shown"
        case "unseen":
            verdict = "not shown"
            why = why or "nothing on the wire had to do with it"
    return Finding(subject, verdict, why, tried, frames)


def _frames(notes: list[RuleNote]) -> tuple[Evidence, ...]:
    """The first few lines that show it. The same line in another conversation shows nothing more."""
    found: dict[tuple[str, str], Evidence] = {}
    for frame in dict.fromkeys(frame for note in notes for frame in note.frames):
        found.setdefault((frame.sender, frame.text), frame)
        if len(found) == _MOST_FRAMES:
            break
    return tuple(found.values())


# MERGED check.report: A report: who was checked, and the verdict on every rule. The pages beside this file show it.


class CheckReport(Struct, frozen=True):
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


# MERGED check.scene: A scene: one conversation, or a few, that puts several rules to the test.

StageT = TypeVar("StageT")


class CaseUnavailable(Exception):
    """The scene cannot go on: the script says nothing that brings it about, or the program did not do what it says."""


class CheckCase(NamedTuple, Generic[StageT]):
    """Its name, how it goes in a sentence, the rules it can show, and the capability without which it is void."""

    name: str
    about: str
    rules: tuple[Rule, ...]
    play: Callable[[StageT], Awaitable[None]]
    gate: str = ""
