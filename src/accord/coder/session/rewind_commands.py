"""The slash commands `/undo`, `/redo` and `/rewind`."""

import os
from typing import TYPE_CHECKING, Final, cast, get_args

from accord.agent.turn import Turn
from accord.coder.session.slash_commands import BuiltInCommand, CommandReply
from accord.errors import RpcError
from accord.frontend.checkpoints.file_checkpoints import CHANGED_BETWEEN
from accord.frontend.checkpoints.file_restore import CHANGED_SINCE
from accord.safe_text import one_line
from accord.schema.content import text_of_blocks
from accord.session.rewind import RewindResult, RewindScope
from accord.text_width import count_text

if TYPE_CHECKING:
    from accord.coder.turn.session_runtime import SessionRuntime

_MAX_LISTED: Final = 20
_MAX_PROMPT: Final = 2000
_FORCE: Final = "force"
_FORCED: Final = (CHANGED_SINCE, CHANGED_BETWEEN)
"""The reasons that `force` overrides."""
_FORCE_ADVICE: Final = (
    "To overwrite what others have changed, type `/redo`, then the same command with `force`; another "
    "`/redo` brings it back."
)


async def run_undo(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/undo`: take the last prompt back, with everything that followed it."""
    scope, force, rest = _options(text)
    if rest:
        return CommandReply(f"`/undo` takes `files`, `conversation` and `force`, not `{one_line(rest, 60)}`.")
    return await _rewind(None, scope, force, runtime)


async def run_redo(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/redo`: take the last undo or rewind back."""
    _, force, rest = _options(text)
    if rest:
        return CommandReply(f"`/redo` takes only `force`, not `{one_line(rest, 60)}`.")
    session = runtime.session
    try:
        async with session.rewind_lock:
            result = await session.rewinds.redo(force=force)
    except RpcError as error:
        return CommandReply(f"Nothing was redone: {error.message}.")
    lines = [f"Back as before the undo of “{result.title}”.", *_details(result, runtime)]
    if any(item.reason in _FORCED for item in result.skipped):
        lines += ["", "To overwrite these files as well, type `/redo force`."]
    return CommandReply("\n".join(lines))


async def run_rewind(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/rewind`: list the prompts to go back to, or go back to one of them by its number."""
    scope, force, number = _options(text)
    points = (await runtime.session.rewinds.points()).points
    if not points:
        return CommandReply("There is no message to go back to yet.")
    if not number:
        lines = ["Prompts to go back to, the latest first:", ""]
        for position, point in enumerate(points[:_MAX_LISTED], 1):
            files = f" ({count_text(point.files, 'changed file')} since)" if point.files else ""
            lines.append(f"{position}. {point.title}{files}")
        if len(points) > _MAX_LISTED:
            lines.append(f"\n{len(points) - _MAX_LISTED} more can be chosen by number as well.")
        lines += [
            "",
            "Go back to before one with `/rewind NUMBER`; add `files` or `conversation` for only that.",
        ]
        return CommandReply("\n".join(lines))
    if not number.isdecimal() or len(number) > 9 or not 1 <= int(number) <= len(points):
        return CommandReply(
            f"`/rewind` takes a number from 1 to {len(points)}, not `{one_line(number, 60)}`; "
            "`/rewind` alone lists them."
        )
    return await _rewind(points[int(number) - 1].message_id, scope, force, runtime)


async def _rewind(
    message_id: str | None, scope: RewindScope, force: bool, runtime: "SessionRuntime"
) -> CommandReply:
    session = runtime.session
    try:
        async with session.rewind_lock:
            result = await session.rewinds.rewind(message_id, scope, force=force)
    except RpcError as error:
        return CommandReply(f"Nothing was undone: {error.message}.")
    lines = [f"{_what_is_back(scope, result)} back as before “{result.title}”.", *_details(result, runtime)]
    if prompt := text_of_blocks(result.prompt).strip():
        quoted = "\n".join(f"> {line}" for line in prompt[:_MAX_PROMPT].splitlines())
        lines += ["", "To change the prompt, copy it, edit it and send it again:", "", quoted]
    if any(item.reason in _FORCED for item in result.skipped):
        lines += ["", _FORCE_ADVICE]
    return CommandReply("\n".join([*lines, "", "`/redo` takes this back."]))


def _what_is_back(scope: RewindScope, result: RewindResult) -> str:
    if not result.files_changed and (result.skipped or result.notes):
        return "No file is" if scope == "files" else "The conversation is"
    return {
        "files": "The files are",
        "conversation": "The conversation is",
        "both": "Conversation and files are",
    }[scope]


def _details(result: RewindResult, runtime: "SessionRuntime") -> list[str]:
    """Which files changed, and which stay as they are and why."""
    cwd = runtime.session.agent_session.cwd
    lines: list[str] = []
    if files := result.files_changed:
        more = f" and {len(files) - _MAX_LISTED} more" if len(files) > _MAX_LISTED else ""
        names = ", ".join(f"`{_name(path, cwd)}`" for path in files[:_MAX_LISTED])
        lines += ["", f"{count_text(len(files), 'file')} restored: {names}{more}."]
    if result.skipped:
        lines += ["", "Not restored:", ""]
        lines += [f"- `{_name(item.path, cwd)}`: {item.reason}" for item in result.skipped[:_MAX_LISTED]]
        if len(result.skipped) > _MAX_LISTED:
            lines.append(f"- and {len(result.skipped) - _MAX_LISTED} more")
    return [*lines, *(f"\n{note[0].upper()}{note[1:]}." for note in result.notes)]


def _name(path: str, cwd: str) -> str:
    relative = os.path.relpath(path, cwd)
    return one_line(path if relative.startswith(os.pardir) else relative, 200).replace("`", "'")


def _options(text: str) -> tuple[RewindScope, bool, str]:
    """The scope, whether to overwrite, and the remaining words."""
    words = text.casefold().split()
    scope = next((word for word in words if word in get_args(RewindScope)), "both")
    rest = [word for word in words if word not in (*get_args(RewindScope), _FORCE)]
    return cast(RewindScope, scope), _FORCE in words, " ".join(rest)


UNDO: Final = BuiltInCommand(
    "undo", "Take the last prompt back: conversation and files", "[files|conversation] [force]", run_undo
)
REDO: Final = BuiltInCommand("redo", "Take the last undo back", "[force]", run_redo)
REWIND: Final = BuiltInCommand(
    "rewind", "Go back to an earlier prompt", "[number] [files|conversation] [force]", run_rewind
)
