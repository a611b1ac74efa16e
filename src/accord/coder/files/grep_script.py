"""Searches files for a regular expression and prints the matches as `ripgrep --json` does. Run as a script.

It runs in its own process because an expression may take forever and Python cannot interrupt one. It imports
nothing from Accord.
"""

import json
import os
import re
import signal
import sys
from typing import Any, Final

_MAX_FILE_BYTES: Final = 10 * 1024 * 1024
_MAX_SECONDS: Final = 120
_MAX_LINE_CHARS: Final = 10_000


def main() -> int:
    """Read the query from standard input and print the matches. Return 2 for an invalid expression."""
    if hasattr(signal, "alarm"):
        signal.alarm(_MAX_SECONDS)  # ends this process even within an expression
    query: dict[str, Any] = json.load(sys.stdin)
    pattern = re.escape(query["pattern"]) if query["literal"] else query["pattern"]
    try:
        expression = re.compile(pattern, re.IGNORECASE if query["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        sys.stderr.write(f"regex parse error: {error}\n")
        return 2
    files: list[str] = query["files"]
    for name in files:
        try:
            with open(os.path.join(query["folder"], name), "rb") as file:
                data = file.read(_MAX_FILE_BYTES + 1)
        except OSError:
            continue
        text = _decode(data)
        if text is not None:
            _print_matches(name, text, expression, query["context"], query["max_per_file"])
    return 0


def _decode(data: bytes) -> str | None:
    """Return the text of a file; None if it is binary or too large."""
    if len(data) > _MAX_FILE_BYTES:
        return None
    for bom, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8")):
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, "replace")
    return None if b"\0" in data else data.decode("utf-8", "replace")


def _print_matches(
    name: str, text: str, expression: "re.Pattern[str]", context: int, max_matches: int
) -> None:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    printed = 0  # the number of the last printed line
    context_left = 0  # the number of lines still to print after the last match
    for number, line in enumerate(lines):
        if expression.search(line.removesuffix("\r")[:_MAX_LINE_CHARS]):
            for before in range(max(printed, number - context), number):
                _print_event("context", name, before + 1, lines[before])
            _print_event("match", name, number + 1, line)
            printed, context_left = number + 1, context
            max_matches -= 1
            if not max_matches:
                return
        elif context_left:
            _print_event("context", name, number + 1, line)
            printed, context_left = number + 1, context_left - 1


def _print_event(event_type: str, name: str, number: int, line: str) -> None:
    data = {"path": {"text": name}, "lines": {"text": line[:_MAX_LINE_CHARS]}, "line_number": number}
    sys.stdout.write(json.dumps({"type": event_type, "data": data}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
