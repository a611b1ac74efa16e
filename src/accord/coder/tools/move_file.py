"""`move_file`: renames a file or folder. Never replaces an existing one."""

import asyncio
import stat
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import ResolvedFile
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.changed_file import require_existing
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome, text_outcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallLocation


class MoveFileArguments(ToolArguments):
    source: Annotated[
        str, Meta(min_length=1, description="The file or folder, absolute or from the working folder.")
    ]
    destination: Annotated[str, Meta(min_length=1, description="Its whole new path, with its new name.")]


async def prepare(arguments: MoveFileArguments, context: ToolContext) -> PreparedCall:
    source = await context.resolve(arguments.source, follow=False)
    destination = await context.resolve(arguments.destination, follow=False)
    names = f"{context.display_path(source.path)} to {context.display_path(destination.path)}"

    async def check() -> None:
        await require_existing(source, context)
        if destination.real.startswith(f"{source.real}/"):
            raise ToolFailure(f"{source.path} cannot be moved into itself")
        target = await context.files.disk.stat(destination)
        if target is not None and stat.S_ISDIR(target.st_mode):
            raise ToolFailure(
                f"{destination.path} is a folder; give the whole new path, "
                f"such as {destination.path}/{source.name}"
            )
        if target is not None:
            raise ToolFailure(f"{destination.path} exists already", "delete it first or choose another name")
        await asyncio.to_thread(_require_folders, destination)

    async def run(report: Report) -> ToolOutcome:
        await check()
        await context.files.disk.move(source, destination)
        context.read_files.move(source, destination)
        raw = {"source": source.path, "destination": destination.path}
        return text_outcome(f"Moved {names}.", raw=raw)

    return PreparedCall(
        title=f"Move {one_line(names)}",
        subject=CallSubject(paths=(source.real, destination.real)),
        run=run,
        check=check,
        locations=(ToolCallLocation(source.path), ToolCallLocation(destination.path)),
    )


def _require_folders(file: ResolvedFile) -> None:
    """Raise ToolFailure if a part of the path is not a folder. Missing folders are created by the move."""
    parent = Path(file.real).parent
    existing = next(folder for folder in (parent, *parent.parents) if folder.exists())
    if not existing.is_dir():
        raise ToolFailure(f"{existing} is not a folder, so nothing can be moved into it")


MOVE_FILE: Final = BuiltInTool("move_file", "move", "write", MoveFileArguments, prepare)
