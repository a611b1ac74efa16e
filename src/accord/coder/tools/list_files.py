"""`list_files`: lists the contents of a folder."""

import asyncio
import os
import stat
import threading
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import ResolvedFile, check_unchanged
from accord.coder.files.file_search import run_with_deadline, walk
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallLocation, code_block


class ListFilesArguments(ToolArguments):
    path: Annotated[str, Meta(description="The folder; the working folder if left out.")] = "."
    depth: Annotated[
        Annotated[int, Meta(ge=1, le=20)],
        Meta(description="How many levels to show; below the first, not what git ignores."),
    ] = 1


async def prepare(arguments: ListFilesArguments, context: ToolContext) -> PreparedCall:
    file = await context.resolve(arguments.path or ".")

    async def check() -> None:
        if not await asyncio.to_thread(os.path.isdir, file.real):
            if await asyncio.to_thread(os.path.exists, file.real):
                raise ToolFailure(f"{file.path} is a file, not a folder", "use read_file")
            raise ToolFailure(f"{file.path} does not exist")

    async def run(report: Report) -> ToolOutcome:
        limits = context.limits
        max_entries = limits.entries
        try:
            names, complete = await run_with_deadline(
                lambda stop: _list_names(file, arguments.depth, max_entries + 1, stop),
                limits.search_seconds,
                context.clock,
            )
        except FileNotFoundError:
            raise ToolFailure(f"{file.path} does not exist") from None
        except NotADirectoryError:
            raise ToolFailure(f"{file.path} is a file, not a folder", "use read_file") from None
        except OSError as error:
            raise ToolFailure(f"cannot list {file.path}: {error.strerror}") from None
        note = "" if complete else f"(incomplete: it took more than {limits.search_seconds:g} s)"
        if len(names) > max_entries:
            names = names[:max_entries]
            note = f"(the first {max_entries} only; list a folder below, or use glob)"
        elif not names:
            note = "(the folder is empty)"
        text = "\n".join(filter(None, (*names, note)))
        return ToolOutcome((TextPart(text),), (code_block(text),), {"path": file.path, "names": names})

    return PreparedCall(
        title=f"List {one_line(context.display_path(file.path))}",
        subject=CallSubject(paths=(file.real,)),
        run=run,
        check=check,
        locations=(ToolCallLocation(file.path),),
    )


def _list_names(file: ResolvedFile, depth: int, max_entries: int, stop: threading.Event) -> list[str]:
    """Return sorted names, folders with a slash. Below the first level, leaves out what git ignores."""
    check_unchanged(file)
    folder = file.real
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            names.append(_display_name(entry.name, entry.stat(follow_symlinks=False).st_mode, entry.path))
            if len(names) > 100_000 or stop.is_set():
                break
    if depth > 1:
        for found in walk(folder, stop, depth=depth):
            if "/" in found.path:
                names.append(
                    _display_name(found.path, found.status.st_mode, os.path.join(folder, found.path))
                )
                if len(names) > max_entries * 20:
                    break
    return sorted(names, key=lambda name: name.rstrip("/").split("/"))[:max_entries]


def _display_name(name: str, mode: int, path: str) -> str:
    # A name can contain line ends and bytes that are not text. Escape them for the model.
    name = name if name.isprintable() else ascii(name)[1:-1]
    if stat.S_ISDIR(mode):
        return f"{name}/"
    if stat.S_ISLNK(mode):
        try:
            return f"{name} -> {ascii(os.readlink(path))[1:-1]}"
        except OSError:
            return name
    return name


LIST_FILES: Final = BuiltInTool("list_files", "read", "read-only", ListFilesArguments, prepare)
