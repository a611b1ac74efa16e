"""`edit_file`: replaces a text that must occur exactly once, or every occurrence of it."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.session_files import encode_text
from accord.coder.files.text_document import Document, diff_of, normalize_line_ends
from accord.coder.files.text_match import explain_mismatch, find_all, line_number_at, replace_matches
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.coder.tools.write_file import ChangedFile
from accord.safe_text import one_line
from accord.schema.content import ToolCallContent, ToolCallLocation

_MAX_LOCATIONS: Final = 10


class EditFileArguments(ToolArguments):
    path: Annotated[str, Meta(min_length=1, description="The file, absolute or from the working folder.")]
    old_text: Annotated[
        str, Meta(description="The text to replace, exactly as it is in the file, without line numbers.")
    ]
    new_text: Annotated[str, Meta(description="The text to put in its place; empty to remove it.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence; else there must be exactly one.")
    ] = False


async def prepare(arguments: EditFileArguments, context: ToolContext) -> PreparedCall:
    file = await context.resolve(arguments.path)
    changed = ChangedFile(file, context)

    async def edit() -> tuple[Document, str, list[int]]:
        before = await changed.read()
        if before is None:
            raise ToolFailure(f"{file.path} does not exist", "create it with write_file")
        text, lines = await asyncio.to_thread(_apply_edit, file.path, before.text, arguments)
        return before, text, lines

    async def check() -> None:
        before, text, _ = await edit()
        encode_text(file, text, before.encoding)

    async def preview() -> Sequence[ToolCallContent]:
        before = changed.last_read or await changed.read()
        if before is None:
            return ()
        after, _ = await asyncio.to_thread(_apply_edit, file.path, before.text, arguments)
        return (diff_of(file.path, before.text, after, context.limits.diff_chars),)

    async def run(report: Report) -> ToolOutcome:
        before, text, lines = await edit()
        after = await context.files.write(file, text, before)
        context.read_files.record(file, after.digest)
        times = "" if len(lines) == 1 else f", {len(lines)} times"
        return ToolOutcome(
            (TextPart(f"Edited {context.display_path(file.path)} at line {lines[0]}{times}."),),
            (diff_of(file.path, before.text, text, context.limits.diff_chars),),
            {"path": file.path, "replacements": len(lines), "lines": lines},
            locations=[ToolCallLocation(file.path, line) for line in lines[:_MAX_LOCATIONS]],
        )

    return PreparedCall(
        title=f"Edit {one_line(context.display_path(file.path))}",
        subject=CallSubject(paths=(file.real,)),
        run=run,
        check=check,
        preview=preview,
        locations=(ToolCallLocation(file.path),),
    )


def _apply_edit(path: str, text: str, arguments: EditFileArguments) -> tuple[str, list[int]]:
    """Return the text after the edit, and the changed lines. Can be slow if it has to explain a mismatch."""
    old, new = arguments.old_text, arguments.new_text
    if not old:
        raise ToolFailure("old_text is empty", "give the text to replace; to create a file, use write_file")
    if normalize_line_ends(old) == normalize_line_ends(new):
        raise ToolFailure("old_text and new_text are the same; there is nothing to change")
    matches = find_all(text, old)
    if not matches:
        raise ToolFailure(f"old_text is not in {path}. {explain_mismatch(text, old)}")
    lines = [line_number_at(text, match.start) for match in matches]
    if len(matches) > 1 and not arguments.replace_all:
        line_numbers = ", ".join(map(str, lines[:_MAX_LOCATIONS])) + (
            ", ..." if len(lines) > _MAX_LOCATIONS else ""
        )
        raise ToolFailure(
            f"old_text is in {path} {len(matches)} times, at lines {line_numbers}",
            "give more of the lines around the one you mean, or set replace_all",
        )
    return replace_matches(text, matches, new), lines


EDIT_FILE: Final = BuiltInTool("edit_file", "edit", "write", EditFileArguments, prepare)
