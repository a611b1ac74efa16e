"""The editor's terminals: real processes, started by `terminal/*` requests."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.coder.process.editor import Editor, Message

METHODS = ("create", "output", "wait_for_exit", "kill", "release")


class Terminal:
    """One command."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.printed = b""
        self.over = asyncio.ensure_future(self._run())

    async def _run(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65536):
            self.printed += data
        code = await self.process.wait()
        return {"exitCode": code} if code >= 0 else {"signal": signal.Signals(-code).name}

    def kill(self) -> None:
        if not self.over.done():
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


def exact(command: str, args: list[str]) -> list[str]:
    """Start the program with its arguments, as the protocol asks for."""
    return [command, *args]


def joined(command: str, args: list[str]) -> list[str]:
    """Join everything without quotes and give it to a shell, as one VS Code extension does."""
    return ["/bin/sh", "-c", " ".join((command, *args))]


def in_double_quotes(command: str, args: list[str]) -> list[str]:
    """Put each argument into double quotes, in which a shell still expands `$`."""
    return ["/bin/sh", "-c", " ".join((command, *(f'"{arg}"' for arg in args)))]


def in_escaped_quotes(command: str, args: list[str]) -> list[str]:
    """Put each argument into double quotes and escape quotes and `$`, but not backquotes and backslashes."""
    quoted = (arg.replace('"', '\\"').replace("$", "\\$") for arg in args)
    return ["/bin/sh", "-c", " ".join((command, *(f'"{arg}"' for arg in quoted)))]


def in_single_quotes(command: str, args: list[str]) -> list[str]:
    """Put each argument into single quotes, without regard to those inside."""
    return ["/bin/sh", "-c", " ".join((command, *(f"'{arg}'" for arg in args)))]


def elsewhere(command: str, args: list[str]) -> list[str]:
    """Start it on a machine that does not have the program."""
    return ["/bin/sh", "-c", 'echo "$0: not found" >&2; exit 127', command]


class Terminals:
    """All commands of an editor, and the requests about them in order."""

    def __init__(
        self,
        editor: Editor,
        start: Callable[[str, list[str]], list[str]] = exact,
        *,
        passes_env: bool = True,
        cwd: Path | None = None,
    ) -> None:
        """`start` returns what is really started. `cwd` is used instead of the requested folder."""
        self._start = start
        self._passes_env = passes_env
        self._cwd = cwd
        self.asked: list[tuple[str, str]] = []
        """Method and terminal id. A created terminal is named by its number."""
        self.opened: list[Any] = []
        self._editor = editor
        self._terminals: dict[str, Terminal] = {}
        self._serving: set[asyncio.Task[None]] = set()
        for name in METHODS:
            editor.answers[f"terminal/{name}"] = lambda params: None
        previous_handler = editor.wire.on_request

        def on_request(message: Message) -> None:
            previous_handler(message)
            if message["method"].startswith("terminal/"):
                serving = asyncio.ensure_future(self._serve(message))
                self._serving.add(serving)
                serving.add_done_callback(self._serving.discard)

        editor.wire.on_request = on_request

    async def _serve(self, message: Message) -> None:
        method, params = message["method"].removeprefix("terminal/"), message["params"]
        self._editor.reply(message, await getattr(self, f"_{method}")(params))
        self.asked.append((method, params.get("terminalId", f"t{len(self._terminals)}")))

    async def _create(self, params: Any) -> Any:
        self.opened.append(params)
        variables = {entry["name"]: entry["value"] for entry in params.get("env", [])}
        process = await asyncio.create_subprocess_exec(
            *self._start(params["command"], params.get("args", [])),
            cwd=self._cwd or params.get("cwd"),
            env={**os.environ, **(variables if self._passes_env else {})},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        name = f"t{len(self._terminals) + 1}"
        self._terminals[name] = Terminal(process)
        return {"terminalId": name}

    async def _output(self, params: Any) -> Any:
        terminal = self._terminals[params["terminalId"]]
        status = {"exitStatus": terminal.over.result()} if terminal.over.done() else {}
        return {"output": terminal.printed.decode(), "truncated": False, **status}

    async def _wait_for_exit(self, params: Any) -> Any:
        return await asyncio.shield(self._terminals[params["terminalId"]].over)

    async def _kill(self, params: Any) -> Any:
        self._terminals[params["terminalId"]].kill()
        return {}

    async def _release(self, params: Any) -> Any:
        self._terminals[params["terminalId"]].kill()
        return {}

    async def aclose(self) -> None:
        """Kill the remaining commands."""
        for terminal in self._terminals.values():
            terminal.kill()
        await asyncio.gather(*(terminal.over for terminal in self._terminals.values()), *self._serving)
