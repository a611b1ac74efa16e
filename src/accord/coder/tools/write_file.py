"""`write_file`: creates a file, or replaces the whole text of a file that the model has read."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import FileTooLarge, ResolvedFile
from accord.coder.files.session_files import NotText, encode_text
from accord.coder.files.text_document import Document, diff_of, with_line_end
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
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


class ChangedFile:
    """A file that a call will change, or create. A file must have been read by the model before."""

    def __init__(self, file: ResolvedFile, context: ToolContext) -> None:
        self._file = file
        self._context = context
        self.last_read: Document | None = None
        self._was_missing = False

    async def read(self) -> Document | None:
        """Return the file, or None for a new one. Raises ToolFailure if the model does not know its text.

        A client that had no such file is not asked again: creating a file reads it once.
        """
        file, context = self._file, self._context
        exists = await context.files.disk.stat(file) is not None
        if not exists and self._was_missing:
            return None
        # The client is not asked for a file that the model has not read: the call fails anyway.
        from_client = not exists or context.read_files.was_read(file)
        try:
            document = await context.files.read(file, context.limits.file_bytes, from_client=from_client)
        except NotText as error:
            raise ToolFailure(str(error), "it can only be replaced with bash") from None
        except FileTooLarge as error:
            raise ToolFailure(f"{error}, more than can be edited", "use bash") from None
        self._was_missing = document is None
        if document is None:
            return None
        match context.read_files.state(file, document.digest):
            case "unread":
                raise ToolFailure(f"{file.path} exists but was not read", "read it first with read_file")
            case "changed":
                raise ToolFailure(
                    f"{file.path} has changed since it was read", "read it again, then repeat this"
                )
            case "same":
                self.last_read = document
                return document


WRITE_FILE: Final = BuiltInTool("write_file", "edit", "write", WriteFileArguments, prepare)
