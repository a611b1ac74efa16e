"""How `accord run` shows a turn: as text, as JSON lines, or the answer alone."""

import os
from typing import TextIO

from accord.cli.output.output_sink import Output, OutputStream
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import UsageError
from accord.safe_text import clean_line, clean_text

FORMATS = ("text", "json", "quiet")

__all__ = ["FORMATS", "Output", "clean_line", "clean_text", "event_schema", "output_for"]


def output_for(
    format: str,
    *,
    stdout: TextIO | None,
    stderr: TextIO | None,
    terminal: bool,
    width: int | None = None,
    colour: bool | None = None,
    clock: Clock = SYSTEM_CLOCK,
    command: str = "run",
) -> Output:
    """The output of that name, for a command that tells notes under its own. `terminal` says that stdout is one; a width that is not given is asked of it each time,
    and whether to colour is asked of the environment.
    """
    out, err = OutputStream(stdout), OutputStream(stderr)
    match format:
        case "text":
            from accord.cli.output.terminal_screen import Style, TerminalSize, signs_for, wants_colour
            from accord.cli.output.text_output import TextOutput

            # A dumb terminal cannot move its cursor: it is written on as on paper.
            live = terminal and os.environ.get("TERM") != "dumb"
            size = TerminalSize(stdout, width) if live and stdout is not None else None
            wanted = wants_colour(terminal) if colour is None else colour
            return TextOutput(out, err, Style(wanted, signs_for(out.encoding)), size, clock, command)
        case "json":
            from accord.cli.output.json_output import JsonOutput

            return JsonOutput(out, err, clock)
        case "quiet":
            from accord.cli.output.json_output import QuietOutput

            return QuietOutput(out, err)
        case _:
            raise UsageError(f"no such format: {format!r}; there are: {', '.join(FORMATS)}")


def event_schema() -> str:
    """The JSON Schema of a line of `--format json`."""
    from importlib.resources import files

    return files(__name__).joinpath("events.schema.json").read_text(encoding="utf-8")
