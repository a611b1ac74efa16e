"""Glob patterns, walks that respect gitignore, and text search through ripgrep or `grep_script`."""

import asyncio
import base64
import json
import os
import re
import shutil
import stat
import sys
import sysconfig
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from accord.clock import Clock, within
from accord.errors import AccordError, MissingExtra
from accord.wire.transport import LineFramer
from accord.workspace.file_search import git_paths

# MERGED coder.search.pattern: Glob patterns over paths: `*`, `?`, `[a-z]`, `{a,b}` and `**` for any number of folders.
#
# A pattern without a slash means names at any depth, as in .gitignore; one with a slash, be it `./`, counts from the
# folder that is searched. Matching takes time linear in pattern and path, whatever the pattern: it comes from a model.

_MOST_VARIANTS: Final = 256
_INNERMOST: Final = re.compile(r"\{([^{}]*)\}")


class BadPattern(ValueError):
    """No pattern; says why."""


class Pattern:
    """A pattern, ready to be matched."""

    def __init__(self, text: str) -> None:
        if not text.strip("./ "):
            raise BadPattern(f"{text!r} names nothing")
        self._variants = [self._parts(variant) for variant in _variants(text.strip())]

    def matches(self, path: str) -> bool:
        """Whether a relative path, with slashes, is meant."""
        parts = path.split("/")
        return any(_match(variant, parts) for variant in self._variants)

    @staticmethod
    def _parts(text: str) -> list[re.Pattern[str] | None]:
        """One expression for each folder and the name; None for `**`."""
        named = text.strip("/").split("/")
        if "/" not in text.rstrip("/"):
            named = ["**", *named]
        if text.endswith("/"):
            named.append("**")
        if named[-1] == "**":
            named.append("*")
        parts: list[re.Pattern[str] | None] = []
        for part in named:
            if part == "**":
                if not parts or parts[-1] is not None:
                    parts.append(None)
            elif part not in ("", "."):
                parts.append(_expression(part))
        return parts


@cache
def _expression(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))


def _match(pattern: list[re.Pattern[str] | None], parts: list[str]) -> bool:
    """By the set of places in the pattern that the path so far can stand at."""
    reached = _past_any({0}, pattern)
    for part in parts:
        following: set[int] = set()
        for place in reached:
            if place == len(pattern):
                continue
            expression = pattern[place]
            if expression is None:
                following.add(place)
            elif expression.match(part):
                following.add(place + 1)
        reached = _past_any(following, pattern)
        if not reached:
            return False
    return len(pattern) in reached


def _past_any(places: set[int], pattern: list[re.Pattern[str] | None]) -> set[int]:
    """`**` may also stand for no folder at all."""
    return places | {place + 1 for place in places if place < len(pattern) and pattern[place] is None}


def _variants(text: str) -> list[str]:
    """The pattern without braces, once for each choice in them."""
    waiting, done = [text], list[str]()
    while waiting:
        variant = waiting.pop(0)
        found = _INNERMOST.search(variant)
        if found is None:
            done.append(variant)
            continue
        waiting += [
            variant[: found.start()] + choice + variant[found.end() :] for choice in found[1].split(",")
        ]
        if len(waiting) + len(done) > _MOST_VARIANTS:
            raise BadPattern(f"{text[:100]!r} stands for more than {_MOST_VARIANTS} patterns")
    return done


# MERGED coder.search.tree: The files below a folder, in order, without those that git ignores and without git's own.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file or folder below the one that was walked through."""

    path: str
    """Relative, with slashes."""
    status: os.stat_result
    """Of itself, where it is a link."""

    @property
    def is_folder(self) -> bool:
        """Whether others may be below it."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a plain file."""
        return stat.S_ISREG(self.status.st_mode)


def walk(folder: str, stop: threading.Event, *, depth: int | None = None) -> Iterator[FoundFile]:
    """Everything below the folder that git would look at, hidden files included; links are not followed.

    Blocking, for a thread; ends early once `stop` is set. Names that are no valid text are left out.
    """
    try:
        for path in git_paths(folder, depth):
            if stop.is_set():
                return
            try:
                yield FoundFile(path.replace(os.sep, "/"), os.lstat(os.path.join(folder, path)))
            except OSError:
                continue  # gone in the meantime
    except ImportError:
        raise MissingExtra("agent", "looking through folders") from None


async def in_time(work: Callable[[threading.Event], T], seconds: float, clock: Clock) -> tuple[T, bool]:
    """Do the work in a thread. When the time is over, or nobody waits any more, it is told to stop by the event it was
    given; what it has by then is its result. Also says whether it came to its end."""
    stop = threading.Event()
    running = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        complete = await within(clock, seconds, running)
        stop.set()
        return await running, complete
    finally:
        stop.set()
        running.add_done_callback(lambda done: done.cancelled() or done.exception())


# MERGED coder.search.grep: Searching in the text of files: by ripgrep where it is, else by a process of our own. Both print the same.

_CHUNK: Final = 256 * 1024
_LONGEST_EVENT: Final = 1024 * 1024
_LARGEST_FILE: Final = "10M"
_SCAN: Final = Path(__file__).with_name("grep_script.py")


class BadQuery(AccordError):
    """The regular expression is none; says why."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for, and where."""

    pattern: str
    place: str
    """A file or a folder, absolute."""
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    """Lines around each match."""
    most_per_file: int = 0
    """Matches; 0 for all."""
    wanted: Callable[[str], bool] = lambda path: True
    """Which files, by their path from the folder."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that matches, or one around it."""

    path: str
    """From the folder that is searched; of a file, its name."""
    number: int
    text: str
    matches: bool


def find_ripgrep() -> str | None:
    """The program, on the path or installed beside this Python."""
    return shutil.which("rg") or shutil.which("rg", path=sysconfig.get_path("scripts"))


async def search(query: Query, ripgrep: str | None) -> AsyncGenerator[Hit]:
    """The hits, file by file, in the order of paths and lines. Closing it early ends the search. Raises BadQuery."""
    folder, name = await asyncio.to_thread(_start, query.place)
    if ripgrep is not None:
        argv, given = _ripgrep(ripgrep, query, name), b""
    else:
        argv, given = [sys.executable, "-I", "-S", str(_SCAN)], await _own(query, folder, name)
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=folder,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin
    assert stdout
    assert stderr
    giving = asyncio.ensure_future(_give(stdin, given))
    complaining = asyncio.ensure_future(stderr.read())
    try:
        framer = LineFramer(_LONGEST_EVENT)
        while chunk := await stdout.read(_CHUNK):
            for frame in framer.feed(chunk):
                if isinstance(frame, bytes) and (hit := _hit(json.loads(frame))) and query.wanted(hit.path):
                    yield hit
        complaint = (await complaining).decode(errors="replace")
        if await process.wait() == 2 and complaint:
            raise BadQuery(complaint.strip())
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        giving.cancel()
        await asyncio.gather(giving, complaining, return_exceptions=True)
        await process.wait()


def _start(place: str) -> tuple[str, str]:
    """The folder to begin in, and what to search there."""
    return (place, ".") if os.path.isdir(place) else os.path.split(place)


def _ripgrep(program: str, query: Query, name: str) -> list[str]:
    argv = [program, "--json", "--no-config", "--no-messages", "--sort=path", "--max-filesize", _LARGEST_FILE]
    argv += ["--hidden", "--no-require-git", "--glob", "!.git", "--max-columns=0"]
    argv += ["--fixed-strings"] * query.literal + ["--ignore-case"] * query.ignore_case
    argv += ["--context", str(query.context)] if query.context else []
    argv += ["--max-count", str(query.most_per_file)] if query.most_per_file else []
    return [*argv, "-e", query.pattern, "--", f"./{name}" if name != "." else "."]


async def _own(query: Query, folder: str, name: str) -> bytes:
    """The query as our own process takes it, with the files to look at."""
    stop = threading.Event()
    try:
        files = [name] if name != "." else await asyncio.to_thread(_files, query, folder, stop)
    finally:
        stop.set()
    return json.dumps(
        {
            "folder": folder,
            "files": files,
            "pattern": query.pattern,
            "literal": query.literal,
            "ignore_case": query.ignore_case,
            "context": query.context,
            "most": query.most_per_file,
        }
    ).encode()


def _files(query: Query, folder: str, stop: threading.Event) -> list[str]:
    found = (file.path for file in walk(folder, stop) if file.is_file)
    return sorted((path for path in found if query.wanted(path)), key=lambda path: path.split("/"))


async def _give(stdin: asyncio.StreamWriter, data: bytes) -> None:
    try:
        stdin.write(data)
        await stdin.drain()
        stdin.close()
        await stdin.wait_closed()
    except (BrokenPipeError, ConnectionResetError):
        pass  # it ended before it had read all; its exit code says why


def _hit(event: dict[str, Any]) -> Hit | None:
    if event["type"] not in ("match", "context"):
        return None
    data = event["data"]
    text = _text(data["lines"]).removesuffix("\n").removesuffix("\r")
    return Hit(_text(data["path"]).removeprefix("./"), data["line_number"], text, event["type"] == "match")


def _text(value: dict[str, str]) -> str:
    """Text as ripgrep writes it: bytes that are no UTF-8 come in base64."""
    return value["text"] if "text" in value else base64.b64decode(value["bytes"]).decode(errors="replace")
