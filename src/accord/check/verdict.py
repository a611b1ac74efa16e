"""What can be said of one rule after a run: a verdict, why, and the frames that show it."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from accord.schema.rules import RULES, Rule
from accord.trace.redact import redact_frame, redact_text

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


class Subject(Struct, frozen=True):
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

    subject: Subject
    verdict: Verdict
    why: str
    tried: tuple[str, ...] = ()
    frames: tuple[Evidence, ...] = ()


def subject_of(id: str) -> Subject:
    """The subject with this id."""
    if id == SCHEMA:
        return Subject(
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
        return Subject(id=id, chapter="faults", level=level, basis=basis, stable=True, text=text, how=how)
    return _of_rule(RULES[int(id)])


def _of_rule(rule: Rule) -> Subject:
    return Subject(
        id=str(rule.id),
        chapter=rule.chapter,
        level=rule.level or "",
        basis=rule.basis,
        stable=rule.status == "stable",
        text=rule.text,
        how=rule.how,
    )


def severity(subject: Subject, *, ours: bool) -> Verdict:
    """What breaking it counts as. `ours`: the program under test is one of Accord's own, which Accord's choices bind."""
    if subject.level == "SHOULD" or (subject.basis == "Accord" and not ours):
        return "warn"
    return "fail"
