"""What the fixtures of agents and clients share: folders, script, timeouts and the notes of one case."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol

from msgspec import Struct

from accord.check.check_script import ScriptT
from accord.check.checked_connection import CheckTimeouts
from accord.check.findings import HasEvidence, RuleId, RuleNotes
from accord.clock import SYSTEM_CLOCK, Clock


class ProgramTraits(Struct, frozen=True):
    """What the first connection showed about the program: its name and version, capabilities, output."""

    info: Any = None
    capabilities: Any = None
    prints_messages: bool = False
    """Whether a client prints the agent's text."""
    exits_after_turn: bool = False
    """Whether a client exits at the end of the turn."""


class NoteFunction(Protocol):
    """Adds a note about a rule, with what shows it."""

    def __call__(self, rule: RuleId, reason: str, *shown: HasEvidence) -> None: ...


class JudgeFunction(Protocol):
    """Notes a pass or a failure, each with its reason; returns `passed`."""

    def __call__(
        self, rule: RuleId, passed: bool, pass_reason: str, fail_reason: str, *shown: HasEvidence
    ) -> bool: ...


class CheckFixture(ABC, Generic[ScriptT]):
    """The environment of one case. `folder` is the session's folder."""

    def __init__(
        self,
        root: Path,
        script: ScriptT,
        notes: RuleNotes,
        *,
        timeouts: CheckTimeouts,
        clock: Clock = SYSTEM_CLOCK,
        files: dict[str, str],
    ) -> None:
        """`files` are created under the root, with their folders."""
        self.script = script
        self.notes = notes
        self.timeouts = timeouts
        self.clock = clock
        self.judge: JudgeFunction = notes.judge
        self.add_pass: NoteFunction = notes.add_pass
        self.add_fail: NoteFunction = notes.add_fail
        self.add_unjudged: NoteFunction = notes.add_unjudged
        self.add_not_shown: Callable[[RuleId, str], None] = notes.add_not_shown
        self.add_skipped_part: Callable[[RuleId, str], None] = notes.add_skipped_part
        self.root: Path = root.resolve()
        self.folder: Path = self.root / "project"
        self.home: Path = self.root / "home"
        self.extra: Path = self.root / "extra"
        for path in (self.folder, self.home, self.extra):
            path.mkdir(parents=True)
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def add_not_applicable(self, rules: str, reason: str) -> None:
        """The rules, separated by spaces, do not apply: the program does not support the feature."""
        for rule in rules.split():
            self.notes.add_not_applicable(rule, reason)

    def has_action(self, name: str) -> bool:
        """Whether the script has this action."""
        return self.find_action(name) is not None

    @abstractmethod
    def find_action(self, name: str) -> Any:
        """The action of the script with this name, or None."""

    @abstractmethod
    def output_tail(self) -> str:
        """The end of the program's output, if it may explain why a case ended early; else empty."""

    @abstractmethod
    async def aclose(self) -> None:
        """End all processes and check the recorded messages."""
