"""Runs hostile agents as processes and checks that they leave no processes, files or tasks behind."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from accord.client import ClientHandlers, ClientOptions, RemoteAgent, connect, local_workspace
from accord.testing.hostile import hostile_command


def processes_in(folder: Path) -> list[str]:
    """The command lines of the running processes whose working directory is in this folder."""
    found: list[str] = []
    real_path = os.path.realpath(folder)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            cwd = os.readlink(entry / "cwd")
            line = (entry / "cmdline").read_bytes()
        except OSError:  # ended meanwhile, or a zombie
            continue
        if line and (cwd == real_path or cwd.startswith(real_path + os.sep)):
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def files_in(folder: Path) -> set[str]:
    """All paths in a folder, relative to it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@asynccontextmanager
async def hostile_agent(
    name: str, folder: Path, *words: str, handlers: Any = None, options: ClientOptions | None = None
) -> AsyncGenerator[RemoteAgent]:
    """A client connected to this hostile agent. Asserts at the end that nothing is left behind."""
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
