"""The log of the gateway: lines for people or JSON lines, from Python's `logging`. No secret gets into it, and no escape sequence."""

import logging
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TextIO

import msgspec

from accord.cleaning import clean_line
from accord.errors import UsageError
from accord.gateway.access.tokens import without_token

_TICKET: Final = re.compile(r"(ticket=)[A-Za-z0-9_-]+")
_COOKIE: Final = re.compile(r"(accord=)[A-Za-z0-9_-]{16,}")
_LONGEST: Final = 2000


def without_secrets(text: str) -> str:
    """The text with tokens, tickets and cookies taken out."""
    return _COOKIE.sub(r"\1...", _TICKET.sub(r"\1...", without_token(text)))


class Readable(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).strftime("%Y-%m-%d %H:%M:%S")
        return f"{when} {record.levelname.lower():<7} {message_of(record)}"


class JsonLines(logging.Formatter):
    """An object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
        }
        return msgspec.json.encode(line).decode()


def message_of(record: logging.LogRecord) -> str:
    """What is to be said, in one line, with the error that goes with it; where it came from is for debugging."""
    text = record.getMessage()
    if record.exc_info and (error := record.exc_info[1]) is not None:
        text += f" ({type(error).__name__}: {error})"
        if (trace := error.__traceback__) is not None:
            while trace.tb_next is not None:
                trace = trace.tb_next
            text += f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    text = clean_line(without_secrets(text).replace("\n", " | "))[:_LONGEST]
    return text.encode(errors="backslashreplace").decode()


@contextmanager
def logging_to(file: str | None, form: str, level: str) -> Generator[None]:
    """While the block runs, the log goes to the file, or to stderr. Raises UsageError."""
    stream: TextIO = sys.stderr
    if file is not None:
        try:
            stream = open(file, "a", encoding="utf-8")  # noqa: SIM115 - closed below
        except OSError as error:
            raise UsageError(f"--log {file!r} cannot be written ({error.strerror})") from None
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else Readable())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        if file is not None:
            stream.close()
