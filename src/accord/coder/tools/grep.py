"""`grep`: finds lines of files by a regular expression."""

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Final, Literal

from msgspec import Meta

from accord.clock import within
from accord.coder.bounded_text import truncate
from accord.coder.files.exact_disk import ResolvedFile, check_unchanged
from accord.coder.files.file_search import BadPattern, BadQuery, GlobPattern, Hit, Query, search
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import BadArguments, CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallLocation, code_block

_MAX_LINE_CHARS: Final = 400
_MAX_LOCATIONS: Final = 20
_MAX_COUNTED_MATCHES: Final = 100_000

Mode = Literal["content", "files", "count"]


class GrepArguments(ToolArguments):
    pattern: Annotated[str, Meta(min_length=1, description="The regular expression.")]
    path: Annotated[
        str, Meta(description="The file or folder to search; the working folder if left out.")
    ] = "."
    glob: Annotated[
        str | None, Meta(description="Only files that match this, such as *.py or src/**/*.ts.")
    ] = None
    mode: Annotated[
        Mode,
        Meta(description="content: the lines; files: only the paths; count: how many lines in each file."),
    ] = "content"
    context: Annotated[
        Annotated[int, Meta(ge=0, le=50)], Meta(description="Lines to show around each match.")
    ] = 0
    ignore_case: Annotated[bool, Meta(description="Upper and lower case are the same.")] = False
    literal: Annotated[bool, Meta(description="The pattern is plain text, not a regular expression.")] = False
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The maximum number of matches, or of files; 200 if left out."),
    ] = None


@dataclass(slots=True)
class GrepResults:
    """The results of a search so far."""

    hits: list[Hit] = field(default_factory=list[Hit])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """The number of matches per file."""
    more: bool = False
    """Whether results were left out because of the limit."""
    complete: bool = True
    """Whether the search finished in time."""


async def prepare(arguments: GrepArguments, context: ToolContext) -> PreparedCall:
    file = await context.resolve(arguments.path or ".")
    try:
        glob_pattern = GlobPattern(arguments.glob) if arguments.glob else None
    except BadPattern as error:
        raise BadArguments(f"grep was not run: {error}") from None

    async def check() -> None:
        await asyncio.to_thread(_is_folder, file)

    async def run(report: Report) -> ToolOutcome:
        in_folder = await asyncio.to_thread(_is_folder, file)

        @cache
        def accepts_path(path: str) -> bool:
            # Even the number of matches in a file with secrets must not be shown.
            may_show = not in_folder or context.may_show(os.path.join(file.real, path))
            return may_show and (glob_pattern is None or glob_pattern.matches(path))

        query = Query(
            arguments.pattern,
            file.real,
            literal=arguments.literal,
            ignore_case=arguments.ignore_case,
            context=arguments.context if arguments.mode == "content" else 0,
            max_per_file=1 if arguments.mode == "files" else 0,
            accepts_path=accepts_path,
        )
        results = await _search(query, arguments, context)
        base = file.path if in_folder else os.path.dirname(file.path)
        return _outcome(results, arguments, base, context)

    inside = "" if file.path == context.cwd else f" in {context.display_path(file.path)}"
    return PreparedCall(
        title=f"Search for {one_line(arguments.pattern + inside)}",
        subject=CallSubject(paths=(file.real,)),
        run=run,
        check=check,
        locations=(ToolCallLocation(file.path),),
    )


def _is_folder(file: ResolvedFile) -> bool:
    if not os.path.exists(file.real):
        raise ToolFailure(f"{file.path} does not exist")
    check_unchanged(file)
    return os.path.isdir(file.real)


async def _search(query: Query, arguments: GrepArguments, context: ToolContext) -> GrepResults:
    results = GrepResults()
    limits = context.limits
    max_results = min(arguments.limit or limits.matches, limits.matches)

    async def collect() -> None:
        async with aclosing(search(query, context.ripgrep(context.roots))) as hits:
            async for hit in hits:
                new_file = hit.path not in results.counts
                if _limit_reached(results, hit, new_file, max_results, arguments.mode):
                    results.more = True
                    return
                if hit.is_match:
                    results.counts[hit.path] = results.counts.get(hit.path, 0) + 1
                if arguments.mode == "content":
                    results.hits.append(hit)

    search_task = asyncio.ensure_future(collect())
    try:
        results.complete = await within(context.clock, limits.search_seconds, search_task)
    finally:
        search_task.cancel()
        await asyncio.gather(search_task, return_exceptions=True)
    if results.complete:
        try:
            search_task.result()
        except BadQuery as error:
            raise ToolFailure(f"{arguments.pattern!r} is not a valid regular expression: {error}") from None
    return results


def _limit_reached(results: GrepResults, hit: Hit, new_file: bool, max_results: int, mode: Mode) -> bool:
    if not hit.is_match:
        return False
    if mode == "content":
        return sum(results.counts.values()) >= max_results
    if new_file and len(results.counts) >= max_results:
        return True
    return sum(results.counts.values()) >= _MAX_COUNTED_MATCHES


def _outcome(results: GrepResults, arguments: GrepArguments, base: str, context: ToolContext) -> ToolOutcome:
    limits = context.limits

    def display_path(path: str) -> str:
        return context.display_path(os.path.join(base, path))

    if arguments.mode == "content":
        lines = _group_by_file(results.hits, display_path, arguments.context)
    elif arguments.mode == "files":
        lines = [display_path(path) for path in results.counts]
    else:
        lines = [f"{display_path(path)}: {count}" for path, count in results.counts.items()]
    if results.more:
        lines.append(
            f"(more {'matches' if arguments.mode == 'content' else 'files'} were left out; "
            "narrow it with glob or path)"
        )
    if not results.complete:
        lines.append(
            f"(incomplete: the search took more than {limits.search_seconds:g} s; "
            "narrow it with glob or path)"
        )
    if not lines:
        lines.append("(no matches)")
    text = truncate("\n".join(lines), limits.output_chars, "narrow it with glob or path")
    locations = [
        ToolCallLocation(os.path.join(base, hit.path), hit.number) for hit in results.hits if hit.is_match
    ][:_MAX_LOCATIONS]
    raw = {
        "files": {display_path(path): count for path, count in results.counts.items()},
        "complete": not results.more and results.complete,
    }
    return ToolOutcome((TextPart(text),), (code_block(text),), raw, locations=locations or None)


def _group_by_file(hits: list[Hit], display_path: Callable[[str], str], context: int) -> list[str]:
    """Group the lines below their file: `12: a match`, `13- a line around one`."""
    lines: list[str] = []
    last: Hit | None = None
    for hit in hits:
        if last is None or hit.path != last.path:
            lines += [""] * (last is not None) + [display_path(hit.path)]
        elif context and hit.number > last.number + 1:
            lines.append("--")
        text = hit.text if len(hit.text) <= _MAX_LINE_CHARS else f"{hit.text[:_MAX_LINE_CHARS]} [...]"
        lines.append(f"{hit.number}{':' if hit.is_match else '-'} {text}")
        last = hit
    return lines


GREP: Final = BuiltInTool("grep", "search", "read-only", GrepArguments, prepare)
