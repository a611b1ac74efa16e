"""Hostile agents as processes, and what they must not leave behind: processes, files, terminals."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from accord.client import ClientHandlers, ClientOptions, RemoteAgent, connect, local_workspace
from accord.testing.hostile import hostile_command


def processes_in(folder: Path) -> list[str]:
    """The command lines of the living processes that work in a folder or below it."""
    found: list[str] = []
    place = os.path.realpath(folder)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            cwd = os.readlink(entry / "cwd")
            line = (entry / "cmdline").read_bytes()
        except OSError:  # gone meanwhile, or a zombie
            continue
        if line and (cwd == place or cwd.startswith(place + os.sep)):
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def files_in(folder: Path) -> set[str]:
    """Everything in a folder, by its name below it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@asynccontextmanager
async def hostile(
    name: str, folder: Path, *words: str, handlers: Any = None, options: ClientOptions | None = None
) -> AsyncGenerator[RemoteAgent]:
    """A client connected to an agent with this habit. When it is closed, nothing is left but what was there."""
    before = files_in(folder)
    handlers = ClientHandlers(workspace=local_workspace) if handlers is None else handlers
    try:
        async with connect(
            *hostile_command(name, *words), cwd=folder, handlers=handlers, options=options
        ) as agent:
            yield agent
    finally:
        assert processes_in(folder) == []
        assert files_in(folder) == before
        assert asyncio.all_tasks() <= {asyncio.current_task()}
