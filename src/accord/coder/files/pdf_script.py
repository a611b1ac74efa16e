"""Prints the text of pages of a PDF file as JSON. Run as a script, with the file on standard input.

It runs in its own process because a broken file may take any time and memory, and Python cannot interrupt a
thread. It imports nothing from Accord. Arguments: the folder of pypdf, the first page, how many pages, and
how many characters.
"""

import contextlib
import io
import json
import signal
import sys
from typing import Any, Final

_MAX_SECONDS: Final = 60
_MAX_MEMORY: Final = 1024 * 1024 * 1024


def main() -> int:
    """Print the number of pages and the texts, or an error."""
    _limit_resources()
    sys.path.append(sys.argv[1])
    first, count, max_chars = map(int, sys.argv[2:5])
    data = sys.stdin.buffer.read()
    try:
        answer = _read(data, first, count, max_chars)
    except MemoryError:
        answer = {"error": "it needs too much memory"}
    except Exception as error:  # noqa: BLE001 - the top of a program; broken files raise many kinds of errors
        answer = {"error": f"it is damaged ({type(error).__name__})"}
    sys.stdout.write(json.dumps(answer))
    return 0


def _limit_resources() -> None:
    if hasattr(signal, "alarm"):
        signal.alarm(_MAX_SECONDS)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))


def _read(data: bytes, first: int, count: int, max_chars: int) -> dict[str, Any]:
    from pypdf import PasswordType, PdfReader

    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted:
        try:
            opened = reader.decrypt("") != PasswordType.NOT_DECRYPTED
        except Exception:  # noqa: BLE001 - also if the library for its cipher is missing
            opened = False
        if not opened:
            return {"error": "it is encrypted"}
    total = len(reader.pages)
    texts: list[str] = []
    for number in range(first - 1, min(first - 1 + count, total)):
        text = reader.pages[number].extract_text()
        max_chars -= len(text)
        if max_chars < 0 and texts:
            break
        texts.append(text[: max_chars + len(text)] if max_chars < 0 else text)
    return {"pages": total, "texts": texts}


if __name__ == "__main__":
    sys.exit(main())
