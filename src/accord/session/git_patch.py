"""Git patches of protocol version 2, and the old and new texts of version 1. Imported on first use."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final, NamedTuple

_LONG: Final = 2000
"""Beyond this number of changed lines, the changed part is one block: the search takes quadratic time."""
_NO_NEWLINE: Final = "\\ No newline at end of file"


class GitFilePatch(NamedTuple):
    """The texts of one file in a patch. None means that there is no file on that side."""

    old: str | None
    new: str | None


def write_patch(path: str, old: str | None, new: str, old_path: str = "") -> str:
    """Return the patch of one file with all of its lines, so that both texts can be read back.

    `old_path` is where the old text was, if not at `path`.
    """
    name = _quoted(path)
    old_name = _quoted(old_path) if old_path else name
    lines = [f"diff --git {old_name} {name}"]
    if old is None:
        lines.append("new file mode 100644")
    lines += [f"--- {'/dev/null' if old is None else old_name}", f"+++ {name}"]
    old_lines, new_lines = _split(old or ""), _split(new)
    if old_lines or new_lines:
        lines.append(f"@@ -{_range(len(old_lines))} +{_range(len(new_lines))} @@")
        lines += _body(old_lines, new_lines)
    return "\n".join(lines) + "\n"


def read_patch(text: str) -> list[GitFilePatch]:
    """Return the texts of each file, in order. Texts lack the lines that the patch leaves out."""
    patches: list[GitFilePatch] = []
    old: list[str] = []
    new: list[str] = []
    missing_old = missing_new = False
    left_old = left_new = 0
    started = False
    last = " "

    def end_file() -> None:
        if started:
            patches.append(
                GitFilePatch(None if missing_old else "".join(old), None if missing_new else "".join(new))
            )

    for line in text.split("\n"):
        if line.startswith("\\"):  # the line before it has no line feed
            for side, signs in ((old, " -"), (new, " +")):
                if side and last in signs:
                    side[-1] = side[-1].removesuffix("\n")
        elif left_old > 0 or left_new > 0:
            last, rest = line[:1] or " ", f"{line[1:]}\n"
            if last in " -":
                old.append(rest)
                left_old -= 1
            if last in " +":
                new.append(rest)
                left_new -= 1
        elif line.startswith("diff --git "):
            end_file()
            old, new, missing_old, missing_new, started = [], [], False, False, True
        elif line.startswith("--- "):
            if not started or old or new:
                end_file()
                old, new, missing_new, started = [], [], False, True
            missing_old = line[4:].strip() == "/dev/null"
        elif line.startswith("+++ "):
            missing_new = line[4:].strip() == "/dev/null"
        elif line.startswith("@@ "):
            left_old, left_new = _counts(line)
    end_file()
    return patches


def _counts(header: str) -> tuple[int, int]:
    """The numbers of lines in a header such as `@@ -1,3 +1,4 @@`; 0 for what cannot be read."""
    counts = [0, 0]
    for part in header.split(" ")[1:3]:
        start, _, count = part[1:].partition(",")
        number = count or "1"
        if start.isdigit() and number.isdigit() and part[:1] in "-+":
            counts["-+".index(part[0])] = int(number)
    return counts[0], counts[1]


def _split(text: str) -> list[str]:
    """The lines, each with its line feed; only the last may have none."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _range(count: int) -> str:
    return f"{1 if count else 0},{count}"


def _body(old: list[str], new: list[str]) -> Iterator[str]:
    shared = min(len(old), len(new))
    start = next((index for index in range(shared) if old[index] != new[index]), shared)
    rest = shared - start
    end = next((index for index in range(rest) if old[-1 - index] != new[-1 - index]), rest)
    yield from _signed(" ", old[:start])
    old_part, new_part = old[start : len(old) - end], new[start : len(new) - end]
    if len(old_part) + len(new_part) > _LONG:
        yield from _signed("-", old_part)
        yield from _signed("+", new_part)
    else:
        matcher = SequenceMatcher(None, old_part, new_part, autojunk=False)
        for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
            if tag == "equal":
                yield from _signed(" ", old_part[old_from:old_to])
            else:
                yield from _signed("-", old_part[old_from:old_to])
                yield from _signed("+", new_part[new_from:new_to])
    yield from _signed(" ", old[len(old) - end :])


def _signed(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield _NO_NEWLINE


def _quoted(path: str) -> str:
    """The path as git writes it: in quotes if it has characters that would end the line."""
    if path.isprintable() and '"' not in path:
        return path
    escaped = path.encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'"{escaped}"'
