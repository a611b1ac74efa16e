"""`web_fetch`: fetches a web page as text."""

import asyncio
import base64
import codecs
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta

from accord.clock import within
from accord.coder.files.picture import BadPicture, fit_picture, image_type
from accord.coder.model_history import ImagePart, TextPart
from accord.coder.tools import html_markdown
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import (
    BadArguments,
    CallSubject,
    PreparedCall,
    Report,
    ToolFailure,
    ToolOutcome,
    text_outcome,
)
from accord.coder.tools.tool_context import ToolContext
from accord.frontend.web_client import BadUrl, HttpResponseHead, WebPage, check_host, fetch, parse_url
from accord.safe_text import one_line
from accord.schema.content import Content, ImageContent, TextContent
from accord.text_width import count_text

_HTML_SCRIPT: Final = str(Path(html_markdown.__file__))
_HTML_TYPES: Final = frozenset(("text/html", "application/xhtml+xml"))
_TEXT_TYPE: Final = re.compile(
    r"text/.*|.*[+/](?:json|xml|yaml|toml|javascript|ecmascript|"
    r"x-ndjson|x-sh|x-yaml|x-javascript|graphql|sql)"
)
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]{1,40})", re.IGNORECASE)


class WebFetchArguments(ToolArguments):
    url: Annotated[str, Meta(min_length=1, description="The http or https address.")]
    offset: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="The first line of the text to give; 1 if left out."),
    ] = None


async def prepare(arguments: WebFetchArguments, context: ToolContext) -> PreparedCall:
    try:
        url = parse_url(arguments.url)
    except BadUrl as error:
        raise BadArguments(f"web_fetch was not run: {error}") from None
    first = max(arguments.offset or 1, 1)

    async def check() -> None:
        check_host(url, context.web)

    async def fetch_page() -> ToolOutcome:
        limits = context.limits
        page = await fetch(url, context.web, limit=limits.fetch_bytes, redirects=limits.redirects)
        if page.redirect is not None:
            text = f"{page.url} redirects to another host: {page.redirect}. To follow it, fetch that address."
            return text_outcome(
                text, raw={"url": str(page.url), "status": page.head.status, "location": str(page.redirect)}
            )
        return await _outcome(page, first, context)

    async def run(report: Report) -> ToolOutcome:
        seconds = context.limits.fetch_seconds
        task = asyncio.ensure_future(fetch_page())
        try:
            if not await within(context.clock, seconds, task):
                raise ToolFailure(f"{url} was not fetched: it took more than {seconds:g} s")
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return PreparedCall(
        title=f"Fetch {one_line(str(url))}", subject=CallSubject(url=str(url)), run=run, check=check
    )


async def _outcome(page: WebPage, first: int, context: ToolContext) -> ToolOutcome:
    guessed_type = "text/plain" if b"\0" not in page.data else "application/octet-stream"
    content_type = page.head.type or guessed_type
    raw: dict[str, object] = {
        "url": str(page.url),
        "status": page.head.status,
        "type": content_type,
        "bytes": len(page.data),
    }
    failed = page.head.status >= 400
    if mime := image_type(page.data):
        return await _image_outcome(page, mime, raw, context)
    if not _TEXT_TYPE.fullmatch(content_type):
        raise ToolFailure(f"{page.url} is {content_type}, not text", "download it with bash if you need it")
    text = _decode(page.data, page.head)
    if content_type in _HTML_TYPES:
        text = await _as_markdown(text, str(page.url))
    notes = [f"{page.url} answered {page.head.status}"] if failed else []
    if not page.complete:
        notes.append(f"only the first {len(page.data):,} bytes of the page")
    return _lines_outcome(text, first, notes, raw, failed, context.limits.output_chars)


def _lines_outcome(
    text: str, first: int, notes: list[str], raw: dict[str, object], failed: bool, max_chars: int
) -> ToolOutcome:
    lines = text.split("\n")
    if first > len(lines):
        raise ToolFailure(f"the page has {count_text(len(lines), 'line')} of text; there is no line {first}")
    page_lines: list[str] = []
    remaining = max_chars
    for line in lines[first - 1 :]:
        remaining -= len(line) + 1
        if remaining < 0:
            if not page_lines:
                page_lines.append(line[:max_chars] + " [...]")
            break
        page_lines.append(line)
    last = first + len(page_lines) - 1
    if last < len(lines):
        notes.append(f"lines {first}-{last} of {len(lines)}; go on with offset={last + 1}")
    body = "\n".join(page_lines).strip("\n") or "(no text)"
    shown = "\n\n".join(filter(None, (body, f"({'; '.join(notes)})" if notes else "")))
    return ToolOutcome((TextPart(shown),), (Content(TextContent(shown)),), {**raw, "text": body}, failed)


async def _image_outcome(
    page: WebPage, mime: str, raw: dict[str, object], context: ToolContext
) -> ToolOutcome:
    if not context.sees_images:
        raise ToolFailure(f"{page.url} is an image ({mime}); this model does not accept images")
    if not page.complete:
        raise ToolFailure(f"{page.url} is an image of more than {len(page.data):,} bytes")
    try:
        picture = await asyncio.to_thread(fit_picture, page.data, context.limits.image_bytes)
    except BadPicture as error:
        raise ToolFailure(f"{page.url} is an image ({mime}) that cannot be shown: {error}") from None
    description = ", ".join(filter(None, (f"{page.url}: {mime}", picture.note)))
    image = ImageContent(base64.b64encode(picture.data).decode(), picture.mime_type)
    parts = (TextPart(description), ImagePart(picture.data, picture.mime_type))
    return ToolOutcome(parts, (Content(image),), raw)


def _decode(data: bytes, head: HttpResponseHead) -> str:
    meta_charset = _META_CHARSET.search(data, 0, 4096)
    for encoding in (head.charset, meta_charset and meta_charset[1].decode(), "utf-8"):
        with suppress(LookupError, ValueError):
            if encoding and codecs.lookup(encoding).name not in ("utf-7", "idna", "punycode"):
                return data.decode(encoding, "replace").replace("\r\n", "\n")
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


async def _as_markdown(html: str, base: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", _HTML_SCRIPT, base),
        env={"PATH": os.defpath},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        text, _ = await process.communicate(html.encode("utf-8", "replace"))
        if process.returncode:
            raise ToolFailure(f"{base} is HTML that could not be read")
        return text.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


WEB_FETCH: Final = BuiltInTool("web_fetch", "fetch", "read-only", WebFetchArguments, prepare)
