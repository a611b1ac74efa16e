"""`delete_file`: removes a file or an empty folder."""

import asyncio
import os
import stat
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import DiskError, ResolvedFile
from accord.coder.files.session_files import NotText
from accord.coder.files.text_document import diff_of
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.changed_file import require_existing
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallContent, ToolCallLocation


class DeleteFileArguments(ToolArguments):
    path: Annotated[
        str, Meta(min_length=1, description="The file or empty folder, absolute or from the working folder.")
    ]


async def prepare(arguments: DeleteFileArguments, context: ToolContext) -> PreparedCall:
    file = await context.resolve(arguments.path, follow=False)

    async def preview() -> Sequence[ToolCallContent]:
        """Show the text that is removed."""
        status = await context.files.disk.stat(file)
        if status is None or not stat.S_ISREG(status.st_mode):
            return ()
        try:
            document = await context.files.read(file, context.limits.diff_chars)
        except (NotText, DiskError):
            return ()
        if document is None:
            return ()
        return (diff_of(file.path, document.text, "", context.limits.diff_chars),)

    async def check() -> None:
        await require_existing(file, context)
        await asyncio.to_thread(_require_empty, file)

    async def run(report: Report) -> ToolOutcome:
        await check()
        content = await preview()
        await context.files.disk.remove(file)
        context.read_files.forget(file)
        text = f"Deleted {context.display_path(file.path)}."
        return ToolOutcome((TextPart(text),), content or None, {"path": file.path})

    return PreparedCall(
        title=f"Delete {one_line(context.display_path(file.path))}",
        subject=CallSubject(paths=(file.real,)),
        run=run,
        check=check,
        preview=preview,
        locations=(ToolCallLocation(file.path),),
    )


def _require_empty(file: ResolvedFile) -> None:
    try:
        with os.scandir(file.real) as entries:
            if any(entries):
                raise ToolFailure(
                    f"cannot delete {file.path}: the folder is not empty; delete its files first, or use bash"
                )
    except OSError:
        return  # a file, or a folder that cannot be read


DELETE_FILE: Final = BuiltInTool("delete_file", "delete", "write", DeleteFileArguments, prepare)
