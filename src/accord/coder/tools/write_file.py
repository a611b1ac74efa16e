"""`write_file`: make a text the whole content of a file, new or read before."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import FileTooLarge, ResolvedFile
from accord.coder.files.session_files import NotText
from accord.coder.files.text_document import Document, diff_of, plain, with_line_end
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallContent, ToolCallLocation


class WriteFileArguments(ToolArguments):
    path: Annotated[str, Meta(min_length=1, description="The file, absolute or from the working folder.")]
    content: Annotated[str, Meta(description="Its whole new text.")]


async def prepare(arguments: WriteFileArguments, context: ToolContext) -> PreparedCall:
    place = await context.place(arguments.path)

    async def preview() -> Sequence[ToolCallContent]:
        before = await context.files.read(place, context.limits.file_bytes)
        old = None if before is None else plain(before.text)
        return (diff_of(place.path, old, plain(arguments.content), context.limits.diff_chars),)

    async def run(report: Report) -> ToolOutcome:
        before = await known(place, context)
        text = arguments.content
        if before is not None:
            text = with_line_end(text, before.line_end)
            if text == before.text:
                return ToolOutcome(
                    (TextPart(f"{place.path} has this text already."),), (), {"changed": False}
                )
        after = await context.files.write(place, text, before)
        context.ledger.note(place, after.digest)
        old = None if before is None else plain(before.text)
        lines = text.count("\n") + (text[-1:] not in ("", "\n"))
        return ToolOutcome(
            (
                TextPart(
                    f"{'Made' if before is None else 'Replaced'} {context.shown(place.path)}, {lines} line{'' if lines == 1 else 's'}."
                ),
            ),
            (diff_of(place.path, old, plain(text), context.limits.diff_chars),),
            {"path": place.path, "created": before is None, "lines": lines},
        )

    return PreparedCall(
        title=f"Write {one_line(context.shown(place.path))}",
        subject=CallSubject(paths=(place.real,)),
        run=run,
        preview=preview,
        locations=(ToolCallLocation(place.path),),
    )


async def known(place: ResolvedFile, context: ToolContext) -> Document | None:
    """The file that is about to be overwritten, if the model knows it; None for a new one. Raises ToolFailure."""
    try:
        document = await context.files.read(place, context.limits.file_bytes)
    except NotText as error:
        raise ToolFailure(f"{error}; it can only be replaced with bash") from None
    except FileTooLarge as error:
        raise ToolFailure(f"{error}, more than can be edited; use bash") from None
    if document is None:
        return None
    match context.ledger.standing(place, document.digest):
        case "unread":
            raise ToolFailure(f"{place.path} exists and was not read yet; read it first with read_file")
        case "changed":
            raise ToolFailure(f"{place.path} has changed since it was read; read it again, then repeat this")
        case "same":
            return document


WRITE_FILE: Final = BuiltInTool("write_file", "edit", "write", WriteFileArguments, prepare)
