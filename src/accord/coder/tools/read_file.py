"""`read_file`: reads the numbered lines of a file, or an image for models that accept images."""

import asyncio
import base64
import difflib
import os
import stat
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.files.exact_disk import FileTooLarge, ResolvedFile
from accord.coder.files.session_files import NotText
from accord.coder.files.text_document import Document, normalize_line_ends
from accord.coder.files.text_match import number_lines
from accord.coder.model_history import ImagePart, TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext, ToolLimits
from accord.safe_text import one_line
from accord.schema.content import Content, ImageContent, ToolCallLocation, code_block
from accord.text_width import count_text

_IMAGE_HEADERS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_MAX_PART_BYTES: Final = 1024 * 1024


class ReadFileArguments(ToolArguments):
    path: Annotated[str, Meta(min_length=1, description="The file, absolute or from the working folder.")]
    offset: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="The first line to read; 1 if left out.")
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="How many lines to read; up to 2000 if left out.")
    ] = None


async def prepare(arguments: ReadFileArguments, context: ToolContext) -> PreparedCall:
    file = await context.resolve(arguments.path)
    first = max(arguments.offset or 1, 1)
    title = f"Read {one_line(context.display_path(file.path))}"
    if arguments.limit is not None:
        title += f" (lines {first}-{first + arguments.limit - 1})"
    elif first > 1:
        title += f" (from line {first})"

    async def check() -> None:
        status = await context.files.disk.stat(file)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise ToolFailure(f"{file.path} is a folder", "use list_files")
        if status is None and await context.files.read(file, context.limits.file_bytes) is None:
            raise ToolFailure(f"{file.path} does not exist")

    async def run(report: Report) -> ToolOutcome:
        limit = min(arguments.limit or context.limits.read_lines, context.limits.read_lines)
        status = await context.files.disk.stat(file)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise ToolFailure(f"{file.path} is a folder", "use list_files")
        try:
            document = await context.files.read(file, context.limits.file_bytes)
        except NotText as error:
            return _image_outcome(file, error.data, context)
        except FileTooLarge as error:
            return await _read_large_file(file, first, limit, error.size, context)
        if document is None:
            raise ToolFailure(await asyncio.to_thread(_missing_file_message, file))
        context.read_files.record(file, document.digest)
        return _lines_outcome(file, document, first, limit, context.limits)

    return PreparedCall(
        title=title,
        subject=CallSubject(paths=(file.real,)),
        run=run,
        check=check,
        locations=(ToolCallLocation(file.path, first) if first > 1 else ToolCallLocation(file.path),),
    )


def _lines_outcome(
    file: ResolvedFile, document: Document, first: int, limit: int, limits: ToolLimits
) -> ToolOutcome:
    lines = normalize_line_ends(document.text).split("\n")
    if lines[-1] == "":
        lines.pop()  # a line end at the end starts no new line
    total = len(lines)
    if total and first > total:
        raise ToolFailure(f"{file.path} has {count_text(total, 'line')}; there is no line {first}")
    limited = _limit_lines(lines[first - 1 : first - 1 + limit], limits)
    last = first + len(limited) - 1
    notes: list[str] = []
    if not total:
        notes.append("the file is empty")
    elif last < total:
        notes.append(f"lines {first}-{last} of {total}; read on with offset={last + 1}")
    elif first > 1:
        notes.append(f"lines {first}-{last} of {total}, the end of the file")
    if document.encoding.name != "utf-8":
        notes.append(f"the encoding of the file is {document.encoding.name}")
    return _outcome(limited, first, notes, {"total_lines": total, "encoding": document.encoding.name})


async def _read_large_file(
    file: ResolvedFile, first: int, limit: int, size: int, context: ToolContext
) -> ToolOutcome:
    """Read lines of a file that is too large to be read whole.

    It cannot be edited, so it does not count as read.
    """
    try:
        text = await context.files.read_part(file, first, limit, _MAX_PART_BYTES)
    except NotText:
        raise ToolFailure(f"{file.path} is not text: {size:,} bytes of binary data") from None
    except FileTooLarge:
        raise ToolFailure(
            f"{limit} lines of {file.path} from line {first} are more than {_MAX_PART_BYTES:,} bytes",
            "read fewer lines with limit, or extract parts with bash",
        ) from None
    if not text:
        raise ToolFailure(f"{file.path} has fewer than {first} lines")
    limited = _limit_lines(normalize_line_ends(text).removesuffix("\n").split("\n"), context.limits)
    notes = [
        f"lines {first}-{first + len(limited) - 1} of a file of {size:,} bytes; "
        f"read on with offset={first + len(limited)}"
    ]
    return _outcome(limited, first, notes, {"bytes": size})


def _limit_lines(lines: list[str], limits: ToolLimits) -> list[str]:
    """Return as many lines as fit into the output limit, each shortened to the line limit."""
    limited: list[str] = []
    remaining = limits.output_chars
    for line in lines:
        if len(line) > limits.line_chars:
            more = len(line) - limits.line_chars
            line = f"{line[: limits.line_chars]} [... {more:,} more characters in this line]"
        remaining -= len(line) + 8
        if remaining < 0 and limited:
            break
        limited.append(line)
    return limited


def _outcome(lines: list[str], first: int, notes: list[str], raw: dict[str, object]) -> ToolOutcome:
    note = f"({'; '.join(notes)})" if notes else ""
    text = "\n".join(filter(None, (number_lines(lines, first), note)))
    content = code_block("\n".join(lines)) if lines else code_block(note)
    return ToolOutcome(
        (TextPart(text),),
        (content,),
        {"first_line": first, "lines": len(lines), "text": "\n".join(lines), **raw},
    )


def image_type(data: bytes) -> str | None:
    """Return the MIME type of an image that models accept; None for other data."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _IMAGE_HEADERS if data.startswith(magic)), None)


def _image_outcome(file: ResolvedFile, data: bytes, context: ToolContext) -> ToolOutcome:
    mime = image_type(data)
    if mime is None:
        raise ToolFailure(f"{file.path} is not text: {len(data):,} bytes of binary data")
    description = f"{file.name}: {mime}, {len(data):,} bytes"
    if not context.sees_images:
        raise ToolFailure(f"{description}; this model does not accept images")
    if len(data) > context.limits.image_bytes:
        raise ToolFailure(f"{description}; a model accepts at most {context.limits.image_bytes:,} bytes")
    image = ImageContent(base64.b64encode(data).decode(), mime)
    return ToolOutcome(
        (TextPart(description), ImagePart(data, mime)),
        (Content(image),),
        {"mime_type": mime, "bytes": len(data)},
    )


def _missing_file_message(file: ResolvedFile) -> str:
    """Return the message for a missing file, with similar names in its folder."""
    try:
        names = os.listdir(os.path.dirname(file.real))
    except OSError:
        names = []
    similar = difflib.get_close_matches(file.name, names, 3)
    return f"{file.path} does not exist" + (
        f"; in the same folder there is {', '.join(similar)}" if similar else ""
    )


READ_FILE: Final = BuiltInTool("read_file", "read", "read-only", ReadFileArguments, prepare)
