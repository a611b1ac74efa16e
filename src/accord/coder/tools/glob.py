"""`glob`: files by name, the newest first."""

import os
import threading
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import ResolvedFile, insist_on_same
from accord.coder.files.file_search import BadPattern, FoundFile, Pattern, in_time, walk
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import (
    BadArguments,
    CallSubject,
    PreparedCall,
    Report,
    ToolFailure,
    ToolOutcome,
    listing,
)
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallLocation

_MAGIC: Final = frozenset("*?[{")


class GlobArguments(ToolArguments):
    pattern: Annotated[
        str, Meta(min_length=1, description="Such as *.py (at any depth), src/**/*.ts or {a,b}*.md.")
    ]
    path: Annotated[str, Meta(description="The folder to look in; the working folder if left out.")] = "."


async def prepare(arguments: GlobArguments, context: ToolContext) -> PreparedCall:
    folder, wanted = _split(arguments.path or ".", arguments.pattern)
    place = await context.place(folder)
    try:
        pattern = Pattern(wanted)
    except BadPattern as error:
        raise BadArguments(f"glob was not run: {error}") from None

    async def run(report: Report) -> ToolOutcome:
        limits = context.limits
        found, complete = await in_time(
            lambda stop: _search(place, pattern, stop), limits.search_seconds, context.clock
        )
        most = limits.entries
        paths = [context.shown(os.path.join(place.path, file.path)) for file in found[:most]]
        note = (
            ""
            if complete
            else f"(not all: it took more than {limits.search_seconds:g} s; ask for a folder below)"
        )
        if len(found) > most:
            note = f"({most} of {len(found)} files, the newest; ask with a narrower pattern or a folder)"
        elif not found and complete:
            note = f"(no file in {context.shown(place.path)} matches {arguments.pattern}; what git ignores is not searched)"
        text = "\n".join(filter(None, (*paths, note)))
        return ToolOutcome((TextPart(text),), (listing(text),), {"files": paths, "total": len(found)})

    inside = "" if place.path == context.cwd else f" in {context.shown(place.path)}"
    return PreparedCall(
        title=f"Find {one_line(arguments.pattern + inside)}",
        subject=CallSubject(paths=(place.real,)),
        run=run,
        locations=(ToolCallLocation(place.path),),
    )


def _split(folder: str, pattern: str) -> tuple[str, str]:
    """The folder and the pattern below it: a pattern that leads elsewhere must be judged as what it is."""
    if not pattern.startswith(("/", "~", "..")) and "/../" not in pattern:
        return folder, pattern
    parts = pattern.split("/")
    fixed = 0
    while fixed < len(parts) - 1 and not _MAGIC.intersection(parts[fixed]):
        fixed += 1
    if ".." in parts[fixed:]:
        raise BadArguments(f"glob was not run: `..` after a wildcard in {pattern!r}; give the folder as path")
    return os.path.join(folder, "/".join(parts[:fixed]) or "/"), "./" + "/".join(parts[fixed:])


def _search(place: ResolvedFile, pattern: Pattern, stop: threading.Event) -> list[FoundFile]:
    if not os.path.isdir(place.real):
        raise ToolFailure(f"{place.path} is not an existing folder")
    insist_on_same(place)
    found = [file for file in walk(place.real, stop) if not file.is_folder and pattern.matches(file.path)]
    return sorted(found, key=lambda file: (-file.status.st_mtime_ns, file.path))


GLOB: Final = BuiltInTool("glob", "search", "read-only", GlobArguments, prepare)
