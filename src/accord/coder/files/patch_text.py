"""Patches in the format of the `apply_patch` tool of other agents: their files, and hunks applied to a text.

A hunk names whole lines. They must be in the text, in order, and in one place only unless a `@@` line says
where to look.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from accord.errors import AccordError

PATCH_START: Final = "*** Begin Patch"
_PATCH_END: Final = "*** End Patch"
_END_OF_FILE: Final = "*** End of File"
_FILE_LINE: Final = re.compile(r"\*\*\* (Add|Delete|Update) File: (.+)")
_MOVE_LINE: Final = re.compile(r"\*\*\* Move to: (.+)")
_RANGE: Final = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?")
_MAX_NAMED_LINES: Final = 10


class BadPatch(AccordError):
    """The patch cannot be read, or does not fit the text."""


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file."""

    action: Literal["Add", "Delete", "Update"]
    path: str
    body: str
    """The whole text of a new file, or the hunks of an update."""
    new_path: str | None = None


def parse_patch(patch: str) -> list[FilePatch]:
    """Return the files of a patch, in order. Raises BadPatch."""
    lines = patch.strip().replace("\r\n", "\n").split("\n")
    if lines[0].strip() != PATCH_START or lines[-1].strip() != _PATCH_END:
        raise BadPatch(f"the patch must begin with `{PATCH_START}` and end with `{_PATCH_END}`")
    files: list[FilePatch] = []
    number = 1
    while number < len(lines) - 1:
        head = _FILE_LINE.fullmatch(lines[number].strip())
        if head is None:
            raise BadPatch(f"line {number + 1} of the patch names no file: {lines[number][:100]!r}")
        start = number = number + 1
        while number < len(lines) - 1 and not _FILE_LINE.fullmatch(lines[number].strip()):
            number += 1
        files.append(_file_patch(head[1], head[2].strip(), lines[start:number]))
    if not files:
        raise BadPatch("the patch names no file")
    return files


def _file_patch(action: str, path: str, body: list[str]) -> FilePatch:
    if action == "Delete":
        if any(line.strip() for line in body):
            raise BadPatch(f"the patch deletes {path}, but has lines for it")
        return FilePatch("Delete", path, "")
    if action == "Add":
        if any(line and not line.startswith("+") for line in body):
            raise BadPatch(f"a line of the new file {path} does not begin with `+`")
        return FilePatch("Add", path, "".join(f"{line[1:]}\n" for line in body))
    move = _MOVE_LINE.fullmatch(body[0].strip()) if body else None
    hunks = "\n".join(body[1:] if move else body)
    return FilePatch("Update", path, hunks, move[1].strip() if move else None)


@dataclass(frozen=True, slots=True)
class PatchHunk:
    """Lines of a text and what becomes of them."""

    headers: tuple[str, ...]
    """Lines of the text above the place, each below the one before."""
    lines: tuple[tuple[str, str], ...]
    """Each line with its mark: a blank for a kept line, `-` for a removed one, `+` for a new one."""
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [line for mark, line in self.lines if mark != "+"]


def parse_hunks(text: str) -> list[PatchHunk]:
    """Return the hunks of an update. Raises BadPatch."""
    hunks: list[PatchHunk] = []
    headers: list[str] = []
    lines: list[tuple[str, str]] = []

    def end(at_end: bool = False) -> None:
        if lines:
            hunks.append(PatchHunk(tuple(headers), tuple(lines), at_end))
            headers.clear()
            lines.clear()

    for line in text.replace("\r\n", "\n").strip("\n").split("\n"):
        if line.startswith("@@"):
            end()
            header = _RANGE.sub("", line[2:].strip()).removesuffix("@@").strip()
            headers += [header] * bool(header)
        elif line.strip() == _END_OF_FILE:
            end(at_end=True)
        elif line.startswith("\\ No newline"):
            continue
        elif line[:1] in ("", " ", "-", "+"):
            lines.append((line[:1] or " ", line[1:]))
        else:
            raise BadPatch(
                f"a line of the patch begins with neither blank, `-`, `+` nor `@@`: {line[:100]!r}"
            )
    end()
    if not any(mark != " " for hunk in hunks for mark, _ in hunk.lines):
        raise BadPatch("the patch changes nothing")
    return hunks


def apply_hunks(text: str, hunks: Sequence[PatchHunk]) -> tuple[str, list[int]]:
    """Return the text after the hunks, and the number of the first changed line of each. Raises BadPatch.

    Kept lines stay as they are in the text, with their line ends and trailing blanks.
    """
    lines = text.split("\n")
    changed: list[int] = []
    position = 0
    for hunk in hunks:
        start = _find_hunk(lines, hunk, position)
        patched, first = _patched_lines(lines, start, hunk)
        lines[start : start + len(hunk.old)] = patched
        changed.append(start + first + 1)
        position = start + len(patched)
    return "\n".join(lines), changed


def _patched_lines(lines: Sequence[str], start: int, hunk: PatchHunk) -> tuple[list[str], int]:
    """Return the lines that replace those of the hunk, and the position of the first change among them."""
    near = lines[start] if start < len(lines) and hunk.old else lines[start - 1] if start else ""
    line_end = "\r" if near.endswith("\r") else ""
    patched: list[str] = []
    first = next(number for number, (mark, _) in enumerate(hunk.lines) if mark != " ")
    for mark, line in hunk.lines:
        if mark == "+":
            patched.append(line + line_end)
            continue
        if mark == " ":
            patched.append(lines[start])
        start += 1
    return patched, first


def _find_hunk(lines: Sequence[str], hunk: PatchHunk, position: int) -> int:
    """Return the index of the first line of the hunk, at or after `position`."""
    header_places: list[int] = []
    for header in hunk.headers:
        header_places = [n for n in range(position, len(lines)) if lines[n].strip() == header.strip()]
        if not header_places:
            raise BadPatch(f"there is no line {header[:100]!r} for `@@`")
        position = header_places[0]
    old = hunk.old
    if not old:
        if len(header_places) > 1:
            raise _unclear(f"the line {hunk.headers[-1][:100]!r} for `@@` is", header_places)
        return position + 1 if header_places else len(lines) - (lines[-1] == "")
    places = list(_places(lines, old, position, "\r")) or list(_places(lines, old, position, " \t\r"))
    if not places:
        raise BadPatch(
            f"these lines are not in the file{' below it' * bool(hunk.headers)}:\n" + "\n".join(old)
        )
    if hunk.at_end and places[-1] + len(old) >= len(lines) - (lines[-1] == ""):
        return places[-1]
    # Below a `@@` line the first place counts, unless the line is there more than once above a place.
    is_clear = len(header_places) == 1 or (header_places and header_places[1] > places[-1])
    if len(places) > 1 and not is_clear:
        raise _unclear("the lines of a hunk are", places)
    return places[0]


def _unclear(what: str, places: Sequence[int]) -> BadPatch:
    numbers = ", ".join(str(place + 1) for place in places[:_MAX_NAMED_LINES])
    return BadPatch(f"{what} there {len(places)} times, at {numbers}; add lines around them")


def _places(lines: Sequence[str], old: Sequence[str], position: int, ignored: str) -> Iterator[int]:
    """Yield where the old lines are, without these characters at the ends of lines."""
    wanted = [line.rstrip(ignored) for line in old]
    for start in range(position, len(lines) - len(wanted) + 1):
        if lines[start].rstrip(ignored) == wanted[0] and all(
            lines[start + n].rstrip(ignored) == line for n, line in enumerate(wanted)
        ):
            yield start
