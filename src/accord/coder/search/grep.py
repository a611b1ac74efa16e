"""Searching in the text of files: by ripgrep where it is, else by a process of our own. Both print the same."""

import asyncio
import base64
import json
import os
import shutil
import sys
import sysconfig
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accord.coder.search.tree import walk
from accord.errors import AccordError
from accord.wire.framing import LineFramer

_CHUNK: Final = 256 * 1024
_LONGEST_EVENT: Final = 1024 * 1024
_LARGEST_FILE: Final = "10M"
_SCAN: Final = Path(__file__).with_name("scan.py")


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
