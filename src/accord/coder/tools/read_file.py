"""`read_file`: reads lines of a text, pages of a PDF file, cells of a notebook, or an image."""

import asyncio
import base64
import difflib
import os
import stat
from dataclasses import replace
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.bounded_text import truncate
from accord.coder.files.exact_disk import ExactDisk, FileTooLarge, ResolvedFile
from accord.coder.files.notebook import NOTEBOOK_SUFFIX, BadNotebook, Notebook
from accord.coder.files.pdf_text import MAX_PAGES, PDF_HEADER, BadPdf, read_pdf
from accord.coder.files.picture import MAX_SOURCE_BYTES, BadPicture, fit_picture, image_type
from accord.coder.files.session_files import NotText
from accord.coder.files.text_document import Document, normalize_line_ends
from accord.coder.files.text_match import number_lines
from accord.coder.model_history import ImagePart, Part, TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext, ToolLimits
from accord.safe_text import one_line
from accord.schema.content import Content, ImageContent, ToolCallLocation, code_block
from accord.text_width import count_text

_MAX_PART_BYTES: Final = 1024 * 1024
_LARGE_SUFFIXES: Final = (".pdf", ".png", ".jpg", ".jpeg", ".gif", ".webp")
"""The names of files that are read whole although they are larger than any text."""
_MAX_NOTEBOOK_PICTURES: Final = 5


class ReadFileArguments(ToolArguments):
    path: Annotated[str, Meta(min_length=1, description="The file, absolute or from the working folder.")]
    offset: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="The first line, page or cell to read; 1 if left out."),
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="How many to read; up to 2000 lines if left out.")
    ] = None


async def prepare(arguments: ReadFileArguments, context: ToolContext) -> PreparedCall:
    file = await context.resolve(arguments.path)
    first = max(arguments.offset or 1, 1)
    title = f"Read {one_line(context.display_path(file.path))}"
    if arguments.limit is not None:
        title += f" ({_unit_of(file)}s {first}-{first + arguments.limit - 1})"
    elif first > 1:
        title += f" (from {_unit_of(file)} {first})"

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
            return await _binary_outcome(file, error.data, first, arguments.limit, context)
        except FileTooLarge as error:
            if file.name.lower().endswith(_LARGE_SUFFIXES):
                data = await _read_whole(file, context.files.disk)
                return await _binary_outcome(file, data, first, arguments.limit, context)
            return await _read_large_file(file, first, limit, error.size, context)
        if document is None:
            raise ToolFailure(await asyncio.to_thread(_missing_file_message, file))
        context.read_files.record(file, document.digest)
        if file.name.lower().endswith(NOTEBOOK_SUFFIX) and (notebook := _notebook_of(document)):
            return await _cells_outcome(file, notebook, first, limit, context)
        return _lines_outcome(file, document, first, limit, context.limits)

    return PreparedCall(
        title=title,
        subject=CallSubject(paths=(file.real,)),
        run=run,
        check=check,
        locations=(ToolCallLocation(file.path, first) if first > 1 else ToolCallLocation(file.path),),
    )


def _unit_of(file: ResolvedFile) -> str:
    """Return what `offset` and `limit` count."""
    name = file.name.lower()
    return "page" if name.endswith(".pdf") else "cell" if name.endswith(NOTEBOOK_SUFFIX) else "line"


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


async def _read_whole(file: ResolvedFile, disk: ExactDisk) -> bytes:
    """Return the bytes of a large PDF file or image. Raises ToolFailure."""
    try:
        return await disk.read(file, MAX_SOURCE_BYTES) or b""
    except FileTooLarge as error:
        raise ToolFailure(f"{error}; at most {MAX_SOURCE_BYTES:,} can be read") from None


async def _binary_outcome(
    file: ResolvedFile, data: bytes, first: int, limit: int | None, context: ToolContext
) -> ToolOutcome:
    if data.startswith(PDF_HEADER):
        return await _pages_outcome(file, data, first, limit or MAX_PAGES, context)
    if (mime := image_type(data)) is None:
        raise ToolFailure(f"{file.path} is not text: {len(data):,} bytes of binary data")
    description = f"{file.name}: {mime}, {len(data):,} bytes"
    if not context.sees_images:
        raise ToolFailure(f"{description}; this model does not accept images")
    try:
        picture = await asyncio.to_thread(fit_picture, data, context.limits.image_bytes)
    except BadPicture as error:
        raise ToolFailure(f"{description}; it cannot be shown: {error}") from None
    if picture.note:
        description += f"; {picture.note}"
    image = ImageContent(base64.b64encode(picture.data).decode(), picture.mime_type)
    return ToolOutcome(
        (TextPart(description), ImagePart(picture.data, picture.mime_type)),
        (Content(image),),
        {"mime_type": mime, "bytes": len(data)},
    )


async def _pages_outcome(
    file: ResolvedFile, data: bytes, first: int, limit: int, context: ToolContext
) -> ToolOutcome:
    try:
        pages = await read_pdf(data, first, limit, context.limits.output_chars)
    except BadPdf as error:
        raise ToolFailure(f"{file.path} is a PDF file that cannot be read: {error}") from None
    if pages.total and first > pages.total:
        raise ToolFailure(f"{file.path} has {count_text(pages.total, 'page')}; there is no page {first}")
    texts = [
        f"--- page {number}\n{text.strip() or '(no text; it may be a scanned picture)'}"
        for number, text in enumerate(pages.texts, first)
    ]
    return _numbered_outcome(texts, "page", first, pages.total)


def _notebook_of(document: Document) -> Notebook | None:
    """Return the notebook; None if the text is not one: it is read as text then, and can be repaired."""
    try:
        return Notebook(document.text)
    except BadNotebook:
        return None


async def _cells_outcome(
    file: ResolvedFile, notebook: Notebook, first: int, limit: int, context: ToolContext
) -> ToolOutcome:
    total = len(notebook.cells)
    if total and first > total:
        raise ToolFailure(f"{file.path} has {count_text(total, 'cell')}; there is no cell {first}")
    texts: list[str] = []
    pictures: list[Part] = []
    remaining = context.limits.output_chars
    for index in range(first - 1, min(first - 1 + limit, total)):
        cell = notebook.cell_text(index)
        remaining -= len(cell.text)
        if remaining < 0 and texts:
            break
        texts.append(truncate(cell.text, context.limits.output_chars, "this cell is longer"))
        for picture in cell.pictures if context.sees_images else ():
            if len(pictures) < _MAX_NOTEBOOK_PICTURES:
                pictures += await _picture_parts(picture, f"a picture of cell {index + 1}")
    outcome = _numbered_outcome(texts, "cell", first, total)
    return replace(outcome, parts=(*outcome.parts, *pictures))


async def _picture_parts(data: bytes, name: str) -> list[Part]:
    try:
        picture = await asyncio.to_thread(fit_picture, data)
    except BadPicture as error:
        return [TextPart(f"[{name}, not shown to you: {error}]")]
    return [TextPart(f"[{name}]"), ImagePart(picture.data, picture.mime_type)]


def _numbered_outcome(texts: list[str], unit: str, first: int, total: int) -> ToolOutcome:
    """Return the outcome for pages or cells, with a note how to read on."""
    last = first + len(texts) - 1
    note = ""
    if not texts:
        note = f"(the file has no {unit}s)"
    elif last < total:
        note = f"({unit}s {first}-{last} of {total}; read on with offset={last + 1})"
    text = "\n\n".join(filter(None, (*texts, note)))
    raw = {f"first_{unit}": first, f"{unit}s": len(texts), f"total_{unit}s": total, "text": text}
    return ToolOutcome((TextPart(text),), (code_block(text),), raw)


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
