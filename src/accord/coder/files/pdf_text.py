"""The text of PDF files, page by page. Needs pypdf, a part of the `agent` extra."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from accord.errors import AccordError

PDF_HEADER: Final = b"%PDF-"
MAX_PAGES: Final = 20
"""How many pages are read at once."""
_SCRIPT: Final = Path(__file__).with_name("pdf_script.py")


class BadPdf(AccordError):
    """The file cannot be read. The text is the reason."""


@dataclass(frozen=True, slots=True)
class PdfPages:
    """The texts of some pages."""

    texts: list[str]
    total: int
    """How many pages the file has."""


async def read_pdf(data: bytes, first: int, count: int, max_chars: int) -> PdfPages:
    """Return the texts of pages from number `first`, in at most `max_chars` characters. Raises BadPdf."""
    library = find_spec("pypdf")
    if library is None or library.origin is None:
        raise BadPdf("reading PDF files needs pypdf; install accord[agent]")
    folder = os.path.dirname(os.path.dirname(library.origin))
    numbers = (str(number) for number in (first, min(count, MAX_PAGES), max_chars))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", _SCRIPT, folder, *numbers),
        env={"PATH": os.defpath},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await process.communicate(data)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        raise BadPdf("reading it takes too long or too much memory") from None
    if "error" in answer:
        raise BadPdf(str(answer["error"]))
    return PdfPages([text.encode("utf-8", "replace").decode() for text in answer["texts"]], answer["pages"])
