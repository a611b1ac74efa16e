"""`read_file`: the text of a file by lines, with their numbers; or a picture, for models that see."""

import asyncio
import base64
import difflib
import os
import stat
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import FileTooLarge, ResolvedFile
from accord.coder.files.session_files import NotText
from accord.coder.files.text_document import Document, plain
from accord.coder.files.text_match import numbered
from accord.coder.model_history import ImagePart, TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome, listing
from accord.coder.tools.tool_context import ToolContext, ToolLimits
from accord.safe_text import one_line
from accord.schema.content import Content, ImageContent, ToolCallLocation

_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_MOST_PART_BYTES: Final = 1024 * 1024


class ReadFileArguments(ToolArguments):
    path: Annotated[str, Meta(min_length=1, description="The file, absolute or from the working folder.")]
    offset: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="The first line to read; 1 if left out.")
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="How many lines to read; up to 2000 if left out.")
    ] = None


async def prepare(arguments: ReadFileArguments, context: ToolContext) -> PreparedCall:
    place = await context.place(arguments.path)
    first = max(arguments.offset or 1, 1)
    title = f"Read {one_line(context.shown(place.path))}"
    if arguments.limit is not None:
        title += f" (lines {first}-{first + arguments.limit - 1})"
    elif first > 1:
        title += f" (from line {first})"

    async def run(report: Report) -> ToolOutcome:
        limit = min(arguments.limit or context.limits.read_lines, context.limits.read_lines)
        found = await context.files.disk.look(place)
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise ToolFailure(f"{place.path} is a folder; use list_files")
        try:
            document = await context.files.read(place, context.limits.file_bytes)
        except NotText as error:
            return _picture(place, error.data, context)
        except FileTooLarge as error:
            return await _part(place, first, limit, error.size, context)
        if document is None:
            raise ToolFailure(await asyncio.to_thread(_missing, place))
        context.ledger.note(place, document.digest)
        return _lines(place, document, first, limit, context.limits)

    return PreparedCall(
        title=title,
        subject=CallSubject(paths=(place.real,)),
        run=run,
        locations=(ToolCallLocation(place.path, first) if first > 1 else ToolCallLocation(place.path),),
    )


def _lines(
    place: ResolvedFile, document: Document, first: int, limit: int, limits: ToolLimits
) -> ToolOutcome:
    lines = plain(document.text).split("\n")
    if lines[-1] == "":
        lines.pop()  # the last line end ends a line, it does not begin one
    total = len(lines)
    if total and first > total:
        raise ToolFailure(f"{place.path} has {total} lines; there is no line {first}")
    shown = _bounded(lines[first - 1 : first - 1 + limit], limits)
    last = first + len(shown) - 1
    notes: list[str] = []
    if not total:
        notes.append("the file is empty")
    elif last < total:
        notes.append(f"lines {first}-{last} of {total}; read on with offset={last + 1}")
    elif first > 1:
        notes.append(f"lines {first}-{last} of {total}, the end of the file")
    if document.form.encoding != "utf-8":
        notes.append(f"the file is kept in {document.form.encoding}")
    return _outcome(shown, first, notes, {"total_lines": total, "encoding": document.form.encoding})


async def _part(place: ResolvedFile, first: int, limit: int, size: int, context: ToolContext) -> ToolOutcome:
    """Lines of a file that is too large to be held; it cannot be edited either, so it is not noted as read."""
    try:
        text = await context.files.read_part(place, first, limit, _MOST_PART_BYTES)
    except NotText:
        raise ToolFailure(f"{place.path} is not text: {size:,} bytes of binary data") from None
    except FileTooLarge:
        raise ToolFailure(
            f"{limit} lines of {place.path} from line {first} are more than {_MOST_PART_BYTES:,} bytes; ask for fewer "
            "with limit, or cut pieces out with bash"
        ) from None
    if not text:
        raise ToolFailure(f"{place.path} has fewer than {first} lines")
    shown = _bounded(plain(text).removesuffix("\n").split("\n"), context.limits)
    notes = [
        f"lines {first}-{first + len(shown) - 1} of a file of {size:,} bytes; read on with offset={first + len(shown)}"
    ]
    return _outcome(shown, first, notes, {"bytes": size})


def _bounded(lines: list[str], limits: ToolLimits) -> list[str]:
    """As many of the lines as fit, each cut to a bearable length."""
    kept: list[str] = []
    room = limits.output_chars
    for line in lines:
        if len(line) > limits.line_chars:
            line = f"{line[: limits.line_chars]} [... {len(line) - limits.line_chars:,} more characters in this line]"
        room -= len(line) + 8
        if room < 0 and kept:
            break
        kept.append(line)
    return kept


def _outcome(lines: list[str], first: int, notes: list[str], raw: dict[str, object]) -> ToolOutcome:
    note = f"({'; '.join(notes)})" if notes else ""
    told = "\n".join(filter(None, (numbered(lines, first), note)))
    shown = listing("\n".join(lines)) if lines else listing(note)
    return ToolOutcome(
        (TextPart(told),),
        (shown,),
        {"first_line": first, "lines": len(lines), "text": "\n".join(lines), **raw},
    )


def picture_type(data: bytes) -> str | None:
    """What sort of picture these bytes are, if they are one that models see."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _PICTURES if data.startswith(magic)), None)


def _picture(place: ResolvedFile, data: bytes, context: ToolContext) -> ToolOutcome:
    mime = picture_type(data)
    if mime is None:
        raise ToolFailure(f"{place.path} is not text: {len(data):,} bytes of binary data")
    what = f"{place.name}: {mime}, {len(data):,} bytes"
    if not context.sees_images:
        raise ToolFailure(f"{what}; this model cannot look at pictures")
    if len(data) > context.limits.image_bytes:
        raise ToolFailure(f"{what}; that is more than the {context.limits.image_bytes:,} bytes a model takes")
    picture = ImageContent(base64.b64encode(data).decode(), mime)
    return ToolOutcome(
        (TextPart(what), ImagePart(data, mime)), (Content(picture),), {"mime_type": mime, "bytes": len(data)}
    )


def _missing(place: ResolvedFile) -> str:
    """That there is no such file, and what may have been meant."""
    try:
        names = os.listdir(os.path.dirname(place.real))
    except OSError:
        names = []
    alike = difflib.get_close_matches(place.name, names, 3)
    return f"{place.path} does not exist" + (
        f"; in the same folder there is {', '.join(alike)}" if alike else ""
    )


READ_FILE: Final = BuiltInTool("read_file", "read", "read-only", ReadFileArguments, prepare)
