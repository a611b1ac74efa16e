"""How `accord run` shows a turn: as text, as JSON lines, or only the answer."""

import os
from typing import Final, TextIO

from accord.cli.output.output_sink import Output, OutputStream
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import UsageError
from accord.safe_text import clean_line, clean_text

FORMATS: Final[tuple[str, ...]] = ("text", "json", "quiet")

__all__ = ["FORMATS", "Output", "clean_line", "clean_text", "event_schema", "output_for"]


def output_for(
    format: str,
    *,
    stdout: TextIO | None,
    stderr: TextIO | None,
    terminal: bool,
    width: int | None = None,
    color: bool | None = None,
    clock: Clock = SYSTEM_CLOCK,
    command: str = "run",
) -> Output:
    """Return the output for a format. `terminal` says whether stdout is one; `command` is the name in notes.

    Without `width` the terminal is asked for its size each time; without `color` the environment decides.
    """
    out, err = OutputStream(stdout), OutputStream(stderr)
    match format:
        case "text":
            from accord.cli.output.terminal_screen import OutputSize, Style, symbols_for, wants_color
            from accord.cli.output.text_output import TextOutput

            # A dumb terminal cannot move its cursor, so it gets no live lines.
            live = terminal and os.environ.get("TERM") != "dumb"
            size = OutputSize(stdout, width) if live and stdout is not None else None
            use_color = wants_color(terminal) if color is None else color
            return TextOutput(out, err, Style(use_color, symbols_for(out.encoding)), size, clock, command)
        case "json":
            from accord.cli.output.json_output import JsonOutput

            return JsonOutput(out, err, clock)
        case "quiet":
            from accord.cli.output.json_output import QuietOutput

            return QuietOutput(out, err)
        case _:
            raise UsageError(f"unknown format {format!r}; use one of: {', '.join(FORMATS)}")


def event_schema() -> str:
    """Return the JSON Schema of a line of `--format json`."""
    from importlib.resources import files

    return files(__name__).joinpath("events.schema.json").read_text(encoding="utf-8")
