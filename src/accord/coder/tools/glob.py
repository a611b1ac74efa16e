"""`glob`: finds files by name, newest first."""

import asyncio
import os
import threading
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import ResolvedFile, check_unchanged
from accord.coder.files.file_search import BadPattern, FoundFile, GlobPattern, run_with_deadline, walk
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import BadArguments, CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallLocation, code_block

_WILDCARDS: Final = frozenset("*?[{")


class GlobArguments(ToolArguments):
    pattern: Annotated[
        str, Meta(min_length=1, description="Such as *.py (at any depth), src/**/*.ts or {a,b}*.md.")
    ]
    path: Annotated[str, Meta(description="The folder to look in; the working folder if left out.")] = "."


async def prepare(arguments: GlobArguments, context: ToolContext) -> PreparedCall:
    folder, pattern_text = _split_folder(arguments.path or ".", arguments.pattern)
    root = await context.resolve(folder)
    try:
        pattern = GlobPattern(pattern_text)
    except BadPattern as error:
        raise BadArguments(f"glob was not run: {error}") from None

    async def check() -> None:
        await asyncio.to_thread(_require_folder, root)

    async def run(report: Report) -> ToolOutcome:
        limits = context.limits
        found, complete = await run_with_deadline(
            lambda stop: _search(root, pattern, stop), limits.search_seconds, context.clock
        )
        max_entries = limits.entries
        paths = [context.display_path(os.path.join(root.path, file.path)) for file in found[:max_entries]]
        note = (
            ""
            if complete
            else f"(incomplete: it took more than {limits.search_seconds:g} s; search a subfolder)"
        )
        if len(found) > max_entries:
            note = f"({max_entries} of {len(found)} files, the newest; use a narrower pattern or a subfolder)"
        elif not found and complete:
            note = (
                f"(no file in {context.display_path(root.path)} matches {arguments.pattern}; "
                "files that git ignores are not searched)"
            )
        text = "\n".join(filter(None, (*paths, note)))
        return ToolOutcome((TextPart(text),), (code_block(text),), {"files": paths, "total": len(found)})

    inside = "" if root.path == context.cwd else f" in {context.display_path(root.path)}"
    return PreparedCall(
        title=f"Find {one_line(arguments.pattern + inside)}",
        subject=CallSubject(paths=(root.real,)),
        run=run,
        check=check,
        locations=(ToolCallLocation(root.path),),
    )


def _split_folder(folder: str, pattern: str) -> tuple[str, str]:
    """Return the folder to search and the pattern below it, so that the policy checks the real folder."""
    if not pattern.startswith(("/", "~", "..")) and "/../" not in pattern:
        return folder, pattern
    parts = pattern.split("/")
    fixed_parts = 0
    while fixed_parts < len(parts) - 1 and not _WILDCARDS.intersection(parts[fixed_parts]):
        fixed_parts += 1
    if ".." in parts[fixed_parts:]:
        raise BadArguments(f"glob was not run: `..` after a wildcard in {pattern!r}; give the folder as path")
    return os.path.join(folder, "/".join(parts[:fixed_parts]) or "/"), "./" + "/".join(parts[fixed_parts:])


def _require_folder(root: ResolvedFile) -> None:
    if not os.path.isdir(root.real):
        raise ToolFailure(f"{root.path} is not an existing folder")


def _search(root: ResolvedFile, pattern: GlobPattern, stop: threading.Event) -> list[FoundFile]:
    _require_folder(root)
    check_unchanged(root)
    found = [file for file in walk(root.real, stop) if not file.is_folder and pattern.matches(file.path)]
    return sorted(found, key=lambda file: (-file.status.st_mtime_ns, file.path))


GLOB: Final = BuiltInTool("glob", "search", "read-only", GlobArguments, prepare)
