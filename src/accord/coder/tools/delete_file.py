"""`delete_file`: remove a file or an empty folder."""

import os
import stat
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.change import diff_of
from accord.coder.files.disk import DiskRefused
from accord.coder.files.document import plain
from accord.coder.files.place import Place
from accord.coder.messages import TextPart
from accord.coder.tools.arguments import Arguments
from accord.coder.tools.builtin import BuiltIn
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import Call, Report, Subject, ToolFailure, ToolOutcome, one_line
from accord.coder.workspace import NoText
from accord.schema.tools import ToolCallContent, ToolCallLocation


class DeleteFileArguments(Arguments):
    path: Annotated[str, Meta(min_length=1, description="The file, absolute or from the working folder.")]


async def prepare(arguments: DeleteFileArguments, context: ToolContext) -> Call:
    place = await context.place(arguments.path, follow=False)

    async def lost() -> Sequence[ToolCallContent]:
        """The text that goes away, for those who look on."""
        found = await context.files.disk.look(place)
        if found is None or not stat.S_ISREG(found.st_mode):
            return ()
        try:
            document = await context.files.read(place, context.limits.diff_chars)
        except (NoText, DiskRefused):
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

    return Call(
        title=f"Delete {one_line(context.shown(place.path))}",
        subject=Subject(paths=(place.real,)),
        run=run,
        preview=lost,
        locations=(ToolCallLocation(place.path),),
    )


async def present(place: Place, context: ToolContext) -> os.stat_result:
    """What stands there, unless it is nothing, or a link: what was judged is where that leads. Raises ToolFailure."""
    found = await context.files.disk.look(place)
    if found is None:
        raise ToolFailure(f"{place.path} does not exist")
    if stat.S_ISLNK(found.st_mode):
        raise ToolFailure(f"{place.path} is a link; use bash for it")
    return found


DELETE_FILE: Final = BuiltIn("delete_file", "delete", "write", DeleteFileArguments, prepare)
