"""The ledger of a run: what was seen of each rule, scene by scene, and the verdict that follows from all of it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from accord.check.verdict import SCHEMA, Evidence, Fault, Finding, severity, subject_of

Rule: TypeAlias = int | Literal["schema"] | Fault
Outcome: TypeAlias = Literal["broken", "unjudged", "kept", "absent", "unseen"]

_ORDER: Final[tuple[Outcome, ...]] = ("broken", "unjudged", "kept", "absent", "unseen")
_MOST_FRAMES: Final = 6
_MOST_REASONS: Final = 4
_MOST_NOTES: Final = 200  # of one rule with one outcome, in one scene


class Note(NamedTuple):
    """One thing that was seen, or not seen, of a rule."""

    rule: Rule
    outcome: Outcome
    why: str
    frames: tuple[Evidence, ...]
    scene: str
    walked: bool = False
    """Whether the walk by the schema found it."""


class Ledger:
    """Takes notes while scenes are played. `scene` is the one that plays now, for those who write."""

    def __init__(self, scene: str = "") -> None:
        self.scene = scene
        self.notes: list[Note] = []
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

    def of(self, rule: Rule) -> list[Note]:
        """What was noted of one rule."""
        return [note for note in self.notes if note.rule == rule]

    def take(self, other: "Ledger") -> None:
        """Everything that another ledger noted."""
        self.notes += other.notes

    def _note(
        self, rule: Rule, outcome: Outcome, why: str, frames: Iterable[Evidence], *, walked: bool = False
    ) -> None:
        # What was said of a thousand lines is not said better of the next one.
        if self._told[rule, outcome, why] < _MOST_FRAMES and self._noted[rule, outcome] < _MOST_NOTES:
            self._told[rule, outcome, why] += 1
            self._noted[rule, outcome] += 1
            self.notes.append(Note(rule, outcome, why, tuple(frames), self.scene, walked))


def find(ledger: Ledger, rules: Sequence[Rule], *, ours: bool) -> list[Finding]:
    """The verdicts on these rules, in this order."""
    by_rule: dict[Rule, list[Note]] = {rule: [] for rule in rules}
    for note in ledger.notes:
        if note.rule in by_rule:
            by_rule[note.rule].append(note)
        elif note.walked and SCHEMA in by_rule:  # nobody else would tell of it
            by_rule[SCHEMA].append(note)
    return [_finding(rule, notes, ours) for rule, notes in by_rule.items()]


def _finding(rule: Rule, notes: list[Note], ours: bool) -> Finding:
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


def _frames(notes: list[Note]) -> tuple[Evidence, ...]:
    """The first few lines that show it. The same line in another conversation shows nothing more."""
    found: dict[tuple[str, str], Evidence] = {}
    for frame in dict.fromkeys(frame for note in notes for frame in note.frames):
        found.setdefault((frame.sender, frame.text), frame)
        if len(found) == _MOST_FRAMES:
            break
    return tuple(found.values())
