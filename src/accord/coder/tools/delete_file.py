"""`delete_file`: remove a file or an empty folder."""

import os
import stat
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import DiskRefused, ResolvedFile
from accord.coder.files.session_files import NotText
from accord.coder.files.text_document import diff_of, plain
from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallContent, ToolCallLocation


class DeleteFileArguments(ToolArguments):
    path: Annotated[str, Meta(min_length=1, description="The file, absolute or from the working folder.")]


async def prepare(arguments: DeleteFileArguments, context: ToolContext) -> PreparedCall:
    place = await context.place(arguments.path, follow=False)

    async def lost() -> Sequence[ToolCallContent]:
        """The text that goes away, for those who look on."""
        found = await context.files.disk.look(place)
        if found is None or not stat.S_ISREG(found.st_mode):
            return ()
        try:
            document = await context.files.read(place, context.limits.diff_chars)
        except (NotText, DiskRefused):
            return ()
        return (
            ()
            if document is None
            else (diff_of(place.path, plain(document.text), "", context.limits.diff_chars),)
        )

    async def run(report: Report) -> ToolOutcome:
        await present(place, context)
        content = await lost()
        await context.files.disk.remove(place)
        context.ledger.forget(place)
        told = f"Deleted {context.shown(place.path)}."
        return ToolOutcome((TextPart(told),), content or None, {"path": place.path})

    return PreparedCall(
        title=f"Delete {one_line(context.shown(place.path))}",
        subject=CallSubject(paths=(place.real,)),
        run=run,
        preview=lost,
        locations=(ToolCallLocation(place.path),),
    )


async def present(place: ResolvedFile, context: ToolContext) -> os.stat_result:
    """What stands there, unless it is nothing, or a link: what was judged is where that leads. Raises ToolFailure."""
    found = await context.files.disk.look(place)
    if found is None:
        raise ToolFailure(f"{place.path} does not exist")
    if stat.S_ISLNK(found.st_mode):
        raise ToolFailure(f"{place.path} is a link; use bash for it")
    return found


DELETE_FILE: Final = BuiltInTool("delete_file", "delete", "write", DeleteFileArguments, prepare)
