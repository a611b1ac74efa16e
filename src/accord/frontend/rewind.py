"""Undo, redo and rewind for user interfaces: the commands that users type, and texts for what happened."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast, get_args

from accord.safe_text import clean_line, one_line
from accord.schema.content import text_of_blocks
from accord.session.rewind import RewindPoints, RewindResult, RewindScope
from accord.text_width import count_text

MAX_LISTED: Final = 20
"""How many files a text names."""
_COMMANDS: Final = ("/undo", "/redo", "/rewind")
_FORCE: Final = "force"
_WHAT: Final[dict[RewindScope, str]] = {
    "files": "The files are",
    "conversation": "The conversation is",
    "both": "Conversation and files are",
}
SCOPE_NAMES: Final[dict[RewindScope, str]] = {
    "both": "Conversation and files",
    "conversation": "Only the conversation",
    "files": "Only the files",
}


@dataclass(frozen=True, slots=True)
class RewindCommand:
    """A command that the user typed: `/undo`, `/redo` or `/rewind`, with its options."""

    name: str
    """Without the slash."""
    scope: RewindScope = "both"
    force: bool = False
    number: int | None = None
    """Which message `/rewind` goes back to, counted from the latest; None shows the list."""


def rewind_command(text: str) -> RewindCommand | None:
    """The command in a prompt; None if the prompt is something else, for the agent to answer."""
    name, *words = text.casefold().split() or [""]
    if name not in _COMMANDS:
        return None
    scope = next((word for word in words if word in get_args(RewindScope)), "both")
    rest = [word for word in words if word not in (*get_args(RewindScope), _FORCE)]
    number = int(rest.pop()) if len(rest) == 1 and rest[0].isdecimal() and name == "/rewind" else None
    if rest:
        return None
    return RewindCommand(name.removeprefix("/"), cast(RewindScope, scope), _FORCE in words, number)


@dataclass(frozen=True, slots=True)
class RewindOutcome:
    """What to show after a rewind."""

    title: str
    details: str
    """Which files came back, and which did not and why; may have several lines."""
    prompt: str
    """The text of the message that the conversation went back to, to edit it and send it again."""
    complete: bool
    """Whether no file was left out."""


class RewindTarget(Protocol):
    """A session that can go back: `ClientSession`, or `ClientRewind` for agents that cannot."""

    @property
    def cwd(self) -> str: ...

    async def rewind_points(self) -> RewindPoints:
        """The messages to go back to, the latest first."""
        ...

    async def rewind(
        self,
        message_id: str | None,
        scope: RewindScope = "both",
        *,
        dry_run: bool = False,
        force: bool = False,
    ) -> RewindResult:
        """Go back to before a message; without one, take the last rewind back."""
        ...


class RewindService:
    """Goes back in one session. Every method can raise AccordError."""

    def __init__(self, session: RewindTarget) -> None:
        self._session = session

    async def points(self) -> RewindPoints:
        """The messages to go back to, the latest first."""
        return await self._session.rewind_points()

    async def undo(self, scope: RewindScope = "both", *, force: bool = False) -> RewindOutcome | None:
        """Go back to before the last message; None if there is none."""
        return await self.rewind_to(1, scope, force=force)

    async def rewind_to(
        self, number: int, scope: RewindScope, *, force: bool = False
    ) -> RewindOutcome | None:
        """Go back to before a message, counted from the latest; None if there are fewer."""
        points = (await self.points()).points
        if not 1 <= number <= len(points):
            return None
        return await self.rewind(points[number - 1].message_id, scope, force=force)

    async def preview(self, message_id: str, scope: RewindScope) -> str:
        """One line that says what a rewind would change."""
        result = await self._session.rewind(message_id, scope, dry_run=True)
        parts = [f"{count_text(len(result.files_changed), 'file')}, +{result.insertions} -{result.deletions}"]
        if result.skipped:
            parts.append(f"{len(result.skipped)} left out")
        return ", ".join(parts)

    async def rewind(self, message_id: str, scope: RewindScope, *, force: bool = False) -> RewindOutcome:
        """Go back to before this message."""
        result = await self._session.rewind(message_id, scope, force=force)
        title = f"{_WHAT[scope]} back as before “{_line(result.title)}”."
        return self._outcome(title, result)

    async def redo(self, *, force: bool = False) -> RewindOutcome:
        """Take the last rewind back."""
        result = await self._session.rewind(None, force=force)
        return self._outcome(f"Back as before the undo of “{_line(result.title)}”.", result)

    def _outcome(self, title: str, result: RewindResult) -> RewindOutcome:
        details = "\n".join(describe_files(result, self._session.cwd))
        return RewindOutcome(title, details, text_of_blocks(result.prompt), not result.skipped)


def describe_files(result: RewindResult, cwd: str) -> list[str]:
    """Lines that name the files that came back, and those that did not with the reason."""
    lines: list[str] = []
    if files := result.files_changed:
        names = ", ".join(_name(path, cwd) for path in files[:MAX_LISTED])
        lines.append(f"{count_text(len(files), 'file')} restored: {names}{_more(files)}")
    lines += [
        f"Not restored: {_name(file.path, cwd)}: {_line(file.reason)}" for file in result.skipped[:MAX_LISTED]
    ]
    if len(result.skipped) > MAX_LISTED:
        lines.append(f"Not restored: {len(result.skipped) - MAX_LISTED} more")
    return lines + [_line(note) for note in result.notes[:MAX_LISTED]]


def _more(files: Sequence[str]) -> str:
    return f" and {len(files) - MAX_LISTED} more" if len(files) > MAX_LISTED else ""


def _name(path: str, cwd: str) -> str:
    relative = os.path.relpath(path, cwd) if os.path.isabs(path) else path
    return _line(path if relative.startswith(os.pardir) else relative)


def _line(text: str) -> str:
    """Text of the agent on one safe line."""
    return one_line(clean_line(text), 200)
