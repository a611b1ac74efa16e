"""`write_file`: creates a file, or replaces the whole text of a file that the model has read."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.session_files import encode_text
from accord.coder.files.text_document import diff_of, with_line_end
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.changed_file import ChangedFile
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallContent, ToolCallLocation
from accord.text_width import count_text


class WriteFileArguments(ToolArguments):
    path: Annotated[str, Meta(min_length=1, description="The file, absolute or from the working folder.")]
    content: Annotated[str, Meta(description="Its whole new text.")]


async def prepare(arguments: WriteFileArguments, context: ToolContext) -> PreparedCall:
    file = await context.resolve(arguments.path)
    changed = ChangedFile(file, context)

    async def check() -> None:
        before = await changed.read()
        if before is not None:
            encode_text(file, arguments.content, before.encoding)

    async def preview() -> Sequence[ToolCallContent]:
        before = changed.last_read or await changed.read()
        old = None if before is None else before.text
        return (diff_of(file.path, old, arguments.content, context.limits.diff_chars),)

    async def run(report: Report) -> ToolOutcome:
        before = await changed.read()
        text = arguments.content
        if before is not None:
            text = with_line_end(text, before.line_end)
            if text == before.text:
                return ToolOutcome((TextPart(f"{file.path} already has this text."),), (), {"changed": False})
        after = await context.files.write(file, text, before)
        context.read_files.record(file, after.digest)
        old = None if before is None else before.text
        verb = "Created" if before is None else "Replaced"
        lines = text.count("\n") + (text[-1:] not in ("", "\n"))
        summary = f"{verb} {context.display_path(file.path)}, {count_text(lines, 'line')}."
        return ToolOutcome(
            (TextPart(summary),),
            (diff_of(file.path, old, text, context.limits.diff_chars),),
            {"path": file.path, "created": before is None, "lines": lines},
        )

    return PreparedCall(
        title=f"Write {one_line(context.display_path(file.path))}",
        subject=CallSubject(paths=(file.real,)),
        run=run,
        check=check,
        preview=preview,
        locations=(ToolCallLocation(file.path),),
    )


WRITE_FILE: Final = BuiltInTool("write_file", "edit", "write", WriteFileArguments, prepare)
