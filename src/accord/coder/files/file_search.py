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
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from accord.clock import Clock, within
from accord.errors import AccordError, MissingExtra
from accord.glob_pattern import PathGlob
from accord.policy.installed_program import installed_program
from accord.wire.pipes import LineFramer
from accord.workspace.file_search import git_paths

_MAX_BRACE_VARIANTS: Final = 256
_INNERMOST_BRACES: Final = re.compile(r"\{([^{}]*)\}")


class BadPattern(ValueError):
    """The text is not a valid pattern."""


class GlobPattern:
    """A glob pattern over paths: `*`, `?`, `[a-z]`, `{a,b}`, and `**` for any number of folders.

    Without a slash it matches names at any depth, as in .gitignore. With a slash (also `./`) it starts at the
    folder that is searched. Matching takes linear time for every pattern, because patterns come from a model.
    """

    def __init__(self, text: str) -> None:
        if not text.strip("./ "):
            raise BadPattern(f"{text!r} matches nothing")
        self._variants = [PathGlob(_from_first_folder(variant)) for variant in _expand_braces(text.strip())]

    def matches(self, path: str) -> bool:
        """Return whether a relative path with slashes matches."""
        return any(variant.matches(path) for variant in self._variants)


def _from_first_folder(text: str) -> str:
    text = text if "/" in text.rstrip("/") else f"**/{text}"
    return f"{text}**" if text.endswith("/") else text


def _expand_braces(text: str) -> list[str]:
    """Expand the braces: one pattern for each choice."""
    pending, expanded = [text], list[str]()
    while pending:
        variant = pending.pop(0)
        braces = _INNERMOST_BRACES.search(variant)
        if braces is None:
            expanded.append(variant)
            continue
        pending += [
            variant[: braces.start()] + choice + variant[braces.end() :] for choice in braces[1].split(",")
        ]
        if len(pending) + len(expanded) > _MAX_BRACE_VARIANTS:
            raise BadPattern(f"{text[:100]!r} expands to more than {_MAX_BRACE_VARIANTS} patterns")
    return expanded


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file or folder below the searched folder."""

    path: str
    """Relative, with slashes."""
    status: os.stat_result
    """The status of a link itself, not of its target."""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)


def walk(folder: str, stop: threading.Event, *, depth: int | None = None) -> Iterator[FoundFile]:
    """Yield all files and folders below a folder, hidden ones included, without those that git ignores.

    Does not follow links. Leaves out names that are not valid text. Blocking; ends early when `stop` is set.
    """
    try:
        for path in git_paths(folder, depth):
            if stop.is_set():
                return
            try:
                yield FoundFile(path.replace(os.sep, "/"), os.lstat(os.path.join(folder, path)))
            except OSError:
                continue  # removed in the meantime
    except ImportError:
        raise MissingExtra("agent", "searching folders") from None


async def run_with_deadline(
    work: Callable[[threading.Event], T], seconds: float, clock: Clock
) -> tuple[T, bool]:
    """Run the work in a thread. Return its result and whether it finished in time.

    At the deadline, or when the caller is canceled, the event is set: the work must then return what it has.
    """
    stop = threading.Event()
    future = asyncio.get_running_loop().run_in_executor(None, work, stop)
    try:
        complete = await within(clock, seconds, future)
        stop.set()
        return await future, complete
    finally:
        stop.set()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())


_CHUNK_BYTES: Final = 256 * 1024
_MAX_EVENT_BYTES: Final = 1024 * 1024
_MAX_FILE_SIZE: Final = "10M"
_GREP_SCRIPT: Final = Path(__file__).with_name("grep_script.py")


class BadQuery(AccordError):
    """The regular expression is invalid."""


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for, and where."""

    pattern: str
    path: str
    """The absolute path of a file or folder."""
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    """The number of lines to return around each match."""
    max_per_file: int = 0
    """The maximum number of matches per file; 0 means all."""
    accepts_path: Callable[[str], bool] = lambda path: True
    """Selects files by their path relative to the folder."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching line, or a line around a match."""

    path: str
    """Relative to the searched folder; the file's name if one file is searched."""
    number: int
    text: str
    is_match: bool
    """False for a line around a match."""


def find_ripgrep(outside: Iterable[str] = ()) -> str | None:
    """Return the path of ripgrep, from PATH but not in these folders, or installed beside this Python."""
    return installed_program("rg", outside) or shutil.which("rg", path=sysconfig.get_path("scripts"))


async def search(query: Query, ripgrep: str | None) -> AsyncGenerator[Hit]:
    """Yield the hits in the order of paths and lines. Closing the generator ends the search. Raises BadQuery.

    Uses ripgrep if its path is given, else `grep_script`. Both print the same events.
    """
    folder, name = await asyncio.to_thread(_split_path, query.path)
    if ripgrep is not None:
        argv, stdin_data = _ripgrep_command(ripgrep, query, name), b""
    else:
        argv = [sys.executable, "-I", "-S", str(_GREP_SCRIPT)]
        stdin_data = await _script_input(query, folder, name)
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
    input_task = asyncio.ensure_future(_send_input(stdin, stdin_data))
    error_task = asyncio.ensure_future(stderr.read())
    try:
        framer = LineFramer(_MAX_EVENT_BYTES)
        while chunk := await stdout.read(_CHUNK_BYTES):
            for frame in framer.feed(chunk):
                if (
                    isinstance(frame, bytes)
                    and (hit := _parse_event(json.loads(frame)))
                    and query.accepts_path(hit.path)
                ):
                    yield hit
        error_text = (await error_task).decode(errors="replace")
        if await process.wait() == 2 and error_text:
            raise BadQuery(error_text.strip())
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        input_task.cancel()
        await asyncio.gather(input_task, error_task, return_exceptions=True)
        await process.wait()


def _split_path(path: str) -> tuple[str, str]:
    """Return the folder to start in, and the name to search there."""
    return (path, ".") if os.path.isdir(path) else os.path.split(path)


def _ripgrep_command(program: str, query: Query, name: str) -> list[str]:
    argv = [program, "--json", "--no-config", "--no-messages", "--sort=path"]
    argv += ["--max-filesize", _MAX_FILE_SIZE]
    argv += ["--hidden", "--no-require-git", "--glob", "!.git", "--max-columns=0"]
    argv += ["--fixed-strings"] * query.literal + ["--ignore-case"] * query.ignore_case
    argv += ["--context", str(query.context)] if query.context else []
    argv += ["--max-count", str(query.max_per_file)] if query.max_per_file else []
    return [*argv, "-e", query.pattern, "--", f"./{name}" if name != "." else "."]


async def _script_input(query: Query, folder: str, name: str) -> bytes:
    """Return the query and the list of files, as `grep_script` reads them."""
    stop = threading.Event()
    try:
        files = [name] if name != "." else await asyncio.to_thread(_files_to_search, query, folder, stop)
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
            "max_per_file": query.max_per_file,
        }
    ).encode()


def _files_to_search(query: Query, folder: str, stop: threading.Event) -> list[str]:
    found = (file.path for file in walk(folder, stop) if file.is_file)
    return sorted((path for path in found if query.accepts_path(path)), key=lambda path: path.split("/"))


async def _send_input(stdin: asyncio.StreamWriter, data: bytes) -> None:
    try:
        stdin.write(data)
        await stdin.drain()
        stdin.close()
        await stdin.wait_closed()
    except (BrokenPipeError, ConnectionResetError):
        pass  # it ended before it read everything; its exit code says why


def _parse_event(event: dict[str, Any]) -> Hit | None:
    if event["type"] not in ("match", "context"):
        return None
    data = event["data"]
    text = _decode_value(data["lines"]).removesuffix("\n").removesuffix("\r")
    return Hit(
        _decode_value(data["path"]).removeprefix("./"), data["line_number"], text, event["type"] == "match"
    )


def _decode_value(value: dict[str, str]) -> str:
    """Return the text of a ripgrep value. Bytes that are not UTF-8 are in base64."""
    return value["text"] if "text" in value else base64.b64decode(value["bytes"]).decode(errors="replace")
