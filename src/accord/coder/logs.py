"""What the agent's process says on stderr beside its errors: warnings, one line each, and no tracebacks unless asked for.

Editors show an agent's stderr to people. `ACCORD_DEBUG=1` brings everything, tracebacks included.
"""

import logging
import os
import sys
from contextlib import suppress
from types import TracebackType

_Info = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def log_to_stderr() -> None:
    """Send what is logged in this process to stderr."""
    debug = bool(os.environ.get("ACCORD_DEBUG"))
    handler = logging.StreamHandler(sys.stderr)
    form = "%(levelname)s %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(form) if debug else _OneLine(f"accord agent: {form}"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.WARNING)


def tell(line: str) -> None:
    """Say something to whoever reads stderr. Where that is closed, nobody does."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - so it is where the launcher closed it
            sys.stderr.write(f"accord agent: {line}\n")
            sys.stderr.flush()


class _OneLine(logging.Formatter):
    """Says where an error came from, and no more."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(super().format(record).split())

    def formatException(self, ei: _Info) -> str:  # noqa: N802 - the name is theirs
        kind, error, trace = ei
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        return f"({'' if kind is None else kind.__name__}: {error}{where}; ACCORD_DEBUG=1 shows more)"
