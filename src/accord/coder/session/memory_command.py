"""The slash command `/memory`: adds a note to an instruction file, after showing the change."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.clock import with_timeout
from accord.coder.context.system_prompt import FILE_BYTES, INSTRUCTION_FILES, searched_folders
from accord.coder.files.exact_disk import BadPath, ResolvedFile, resolve_path
from accord.coder.files.session_files import SessionFiles
from accord.coder.files.text_document import diff_of, with_line_end
from accord.coder.model_history import note_message
from accord.coder.session.slash_commands import BuiltInCommand, CommandReply
from accord.errors import AccordError
from accord.paths import config_dir
from accord.policy.secret_files import is_secret
from accord.policy.trust_store import TrustStore
from accord.policy.user_answer import read_answer
from accord.safe_text import clean_text, one_line
from accord.schema.client_requests import PermissionOption
from accord.schema.content import Content, Diff, TextContent

if TYPE_CHECKING:
    from accord.coder.files.text_document import Document
    from accord.coder.turn.session_runtime import SessionRuntime

_HEADING: Final = "## Notes"
_NOTE_CHARS: Final = 4000
_DIFF_CHARS: Final = 100_000
_USER, _PROJECT = "user", "project"


class _Refused(AccordError):
    """Why the note is not added."""


@dataclass(frozen=True, slots=True)
class _Target:
    """An instruction file that a note can be added to."""

    scope: str
    file: ResolvedFile
    shown: str
    """The path, for display."""
    why: str
    """Why this file."""


async def run_memory(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/memory`: add a note, or say which files would get it."""
    word, _, rest = text.strip().partition(" ")
    scope = word if word in (_USER, _PROJECT) else None
    note = clean_text(rest if scope else text).strip()
    try:
        targets = await asyncio.to_thread(_targets, runtime)
        target = next((one for one in targets if one.scope == scope), targets[0])
        if not note:
            return _explanation(targets)
        if len(note) > _NOTE_CHARS:
            raise _Refused(f"it has {len(note):,} characters, more than {_NOTE_CHARS:,}")
        return await _add(note, target, turn, runtime)
    except AccordError as error:
        return CommandReply(f"The note was not added: {one_line(str(error), 500)}.")


def _explanation(targets: Sequence[_Target]) -> CommandReply:
    lines = ["`/memory TEXT` adds a note to the file that new sessions read:", ""]
    lines += [f"- `{one.shown}`: {one.why}" for one in targets]
    lines += ["", "The first one is used; `/memory user TEXT` or `/memory project TEXT` chooses."]
    return CommandReply("\n".join(lines))


async def _add(note: str, target: _Target, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    session, shown = runtime.session, target.shown
    if reason := runtime.gate.why_not_restored(target.file.real):
        raise _Refused(f"`{shown}`: {reason}")
    files = SessionFiles(turn.client if target.scope == _PROJECT else None)
    before = await files.read(target.file, FILE_BYTES * 8)
    old = None if before is None else before.text
    new = with_note(old or "", note)
    if new is None:
        return CommandReply(f"`{shown}` has this note already.")
    if before is not None:
        new = with_line_end(new, before.line_end)
    diff = diff_of(target.file.path, old, new, _DIFF_CHARS)
    if not await _agreed(diff, target, turn, runtime):
        return CommandReply(f"Nothing was changed: you did not agree to the note in `{shown}`.")
    await _write(files, target, new, before)
    if runtime.prompt_builder.text:  # else the file is read with the first prompt
        session.history.add(note_message(f"The user added a note to {shown}:\n{note}"))
    lines = [f"Added to `{shown}`. {_reader(target)}"]
    if len(new.encode("utf-8", "replace")) > FILE_BYTES:
        lines.append(f"The file is longer than the {FILE_BYTES // 1024} kB that are read: shorten it.")
    if await asyncio.to_thread(TrustStore().is_distrusted, target.file.real):
        lines.append("A command wrote this file: it is not read until you trust it.")
    return CommandReply("\n\n".join(lines))


async def _agreed(diff: Diff, target: _Target, turn: Turn, runtime: "SessionRuntime") -> bool:
    """Show the change and ask."""
    options = (
        PermissionOption("add", f"Add it to {target.shown}", "allow_once"),
        PermissionOption("leave", "Do not add it", "reject_once"),
    )
    title = f"Add a note to {one_line(target.shown, 200)}"
    async with turn.tool_call(title, kind="edit", name="memory", locations=[target.file.path]) as call:
        await call.replace([Content(TextContent(f"This file: {target.why}.")), diff])
        seconds = runtime.session.resources.permissions.question_seconds
        try:
            answer = await with_timeout(call.ask_permission(options), seconds, runtime.session.clock)
        except TimeoutError:
            await call.fail("The question was not answered in time.")
            return False
        agreed = read_answer(options, answer.option).allowed
        if agreed:
            await call.finish(content=[diff])
        return agreed


async def _write(files: SessionFiles, target: _Target, new: str, before: "Document | None") -> None:
    """Write the file, unless it has changed or become a link since the change was shown."""
    now = await files.read(target.file, FILE_BYTES * 8)
    if (now and now.text) != (before and before.text):
        raise _Refused(f"`{target.shown}` has changed meanwhile; type it again")
    await files.write(target.file, new, before)


def with_note(text: str, note: str) -> str | None:
    """The text with the note as the last entry below `## Notes`; None if it is there already."""
    first, *more = note.splitlines()
    entry = "\n".join([f"- {first}", *(f"  {line}".rstrip() for line in more)])
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n") if text.strip() else []
    if f"\n{entry}\n" in "\n".join(["", *lines, ""]):
        return None
    start = next((number for number, line in enumerate(lines) if line.strip() == _HEADING), None)
    if start is None:
        return "\n".join([*lines, *([""] if lines else []), _HEADING, "", entry, ""])
    end = next((n for n in range(start + 1, len(lines)) if lines[n].startswith(("# ", "## "))), len(lines))
    last = max((n for n in range(start, end) if lines[n].strip()), default=start)
    gap = [""] if last == start else []
    return "\n".join([*lines[: last + 1], *gap, entry, *lines[last + 1 :], ""])


def _reader(target: _Target) -> str:
    if target.scope == _USER:
        return "Your sessions in all projects read it."
    return "Sessions in this project read it."


def _targets(runtime: "SessionRuntime") -> list[_Target]:
    """The files for a note, the one to use first. Raises _Refused, BadPath."""
    session = runtime.session.agent_session
    cwd = os.path.realpath(session.cwd)
    home = os.path.realpath(Path.home())
    folders = searched_folders(cwd, home)
    roots = [os.path.realpath(root) for root in session.roots]
    existing = [path for folder in folders if (path := _instruction_file(folder))]
    in_roots = [path for path in existing if any(Path(path).is_relative_to(root) for root in roots)]
    is_project = bool(existing) or os.path.lexists(os.path.join(folders[-1], ".git"))
    path = in_roots[0] if in_roots else os.path.join(cwd, INSTRUCTION_FILES[0])
    why = "sessions in this project read it" if in_roots else "it will be created, for this project"
    project = _Target(_PROJECT, _resolved(path, roots), os.path.relpath(path, cwd), why)
    user_path = str(config_dir() / INSTRUCTION_FILES[0])
    why = "your sessions in all projects read it"
    user = _Target(_USER, _resolved(user_path, None), user_path.replace(home, "~", 1), why)
    return [project, user] if is_project else [user, project]


def _instruction_file(folder: str) -> str | None:
    """The file of a folder that sessions read: of several names the first."""
    paths = (os.path.join(folder, name) for name in INSTRUCTION_FILES)
    return next((path for path in paths if os.path.lexists(path)), None)


def _resolved(path: str, roots: Sequence[str] | None) -> ResolvedFile:
    """The file. Raises _Refused if a link leads out of the project, or to a secret."""
    try:
        file = resolve_path(path, os.path.dirname(path))
    except BadPath as error:
        raise _Refused(str(error)) from None
    if roots is not None and not any(Path(file.real).is_relative_to(root) for root in roots):
        raise _Refused(f"`{path}` is a link to {file.real}, outside the project")
    if is_secret(Path(file.real)):
        raise _Refused(f"`{path}` leads to a file that holds secrets")
    if os.path.lexists(file.real) and not os.path.isfile(file.real):
        raise _Refused(f"`{path}` is not a regular file")
    return file


MEMORY: Final = BuiltInCommand(
    "memory", "Add a note to AGENTS.md for later sessions", "[user|project] note", run_memory
)
