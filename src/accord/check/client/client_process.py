"""Starts the client under test from its command template, and ends it."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from accord.check.check_script import fill_placeholders
from accord.check.client.client_under_test import PipeHandler, listen_for_relays
from accord.check.program_launch import ProgramLauncher, StartOptions
from accord.clock import Clock, within
from accord.errors import UsageError
from accord.extras import require
from accord.wire.process_tree import ProcessExit, ProcessTree, StopTimeouts, start_process

AGENT_PLACEHOLDERS: Final = ("{agent}", "{url}", "{ws_url}")
"""How a client's command says where its agent is: a command, or an address for HTTP or WebSocket."""


def fill_template(
    template: Sequence[str],
    *,
    agent: Sequence[str],
    prompt: str,
    folder: str,
    options: Sequence[str],
    address: str = "",
) -> list[str]:
    """The command line to start. `address` is `HOST:PORT/PATH` of an agent that is served.

    A placeholder that is a whole argument becomes several arguments; inside an argument it is quoted text.
    """
    command = list(template)
    if not has_placeholder(command, "{options}"):
        command.insert(_options_index(command), "{options}")
    argument_lists = {"{agent}": list(agent), "{options}": list(options)}
    texts = {"agent": shlex.join(agent), "options": shlex.join(options), "prompt": prompt, "folder": folder}
    texts |= {"url": f"http://{address}", "ws_url": f"ws://{address}"}
    return [
        argument
        for word in command
        for argument in (argument_lists[word] if word in argument_lists else [fill_placeholders(word, texts)])
    ]


def check_template(template: Sequence[str]) -> None:
    """Raise `UsageError` if the template does not use the agent."""
    if not any(has_placeholder(template, one) for one in AGENT_PLACEHOLDERS):
        raise UsageError(
            "the client's command has no {agent}, which is replaced by the agent's command; "
            "use `accord check client -- COMMAND ... {agent} ...`, or {url} or {ws_url} for its address"
        )


def has_placeholder(template: Sequence[str], placeholder: str) -> bool:
    """Whether the command has this placeholder."""
    return any(placeholder in word for word in template)


def _options_index(command: Sequence[str]) -> int:
    """The index at which options are inserted: before the agent, and before a `--` in front of it."""
    index = next(
        number for number, word in enumerate(command) if any(one in word for one in AGENT_PLACEHOLDERS)
    )
    return index - 1 if index and command[index - 1] == "--" else index


_MAX_OUTPUT_BYTES: Final = 1_000_000


class LaunchedClient(Protocol):
    """One running client."""

    @property
    def stdout(self) -> str:
        """Its stdout so far."""
        ...

    @property
    def output(self) -> str:
        """Its stdout and stderr so far."""
        ...

    @property
    def exit(self) -> ProcessExit | None:
        """How it exited; None while it runs."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait at most this long for its exit; returns whether it exited."""
        ...

    def interrupt(self) -> None:
        """Send SIGINT (Ctrl-C)."""
        ...

    async def end(self) -> bool:
        """End it with all its child processes; returns whether it was still running."""
        ...


class ClientLauncher(Protocol):
    """Starts clients. `on_pipe` is called for each agent that a client starts."""

    can_choose_prompt: bool
    """Whether the prompt can be chosen."""

    async def __call__(self, options: StartOptions, on_pipe: PipeHandler) -> LaunchedClient:
        """Start one; raises `NeverStarted`."""
        ...


class AgentListener(Protocol):
    """Where a client reaches its agent."""

    command: list[str]
    """The command of the agent; empty if it is served at an address."""
    address: str
    """`HOST:PORT/PATH` of the agent; empty if it is a command."""

    async def aclose(self) -> None:
        """Stop listening and close all connections."""


class ProcessClient:
    """A client process, with the listener for the agents it starts."""

    def __init__(
        self,
        started: "_StartedClient",
        listener: AgentListener,
        readers: "Sequence[_OutputReader]",
        clock: Clock,
    ) -> None:
        self._tree = started.tree
        self._terminal = started.terminal_handle
        self._listener = listener
        self._readers = readers
        self._clock = clock

    @property
    def stdout(self) -> str:
        return self._readers[0].text

    @property
    def output(self) -> str:
        return "".join(reader.text for reader in self._readers)

    @property
    def exit(self) -> ProcessExit | None:
        return self._tree.exit

    async def wait(self, seconds: float) -> bool:
        exit_task = asyncio.ensure_future(self._tree.wait())
        try:
            exited = await within(self._clock, seconds, exit_task)
        finally:
            exit_task.cancel()
        if exited:
            self._close_terminal()
            for reader in self._readers:  # the last output may still be in the pipe
                await within(self._clock, 1.0, reader.closed)
        return exited

    def interrupt(self) -> None:
        if sys.platform == "win32":
            self._tree.interrupt()
        else:
            os.kill(self._tree.pid, signal.SIGINT)  # only the client: the checker ends the agent

    def _close_terminal(self) -> None:
        """Close our handle of its terminal, so that its output can end."""
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    async def end(self) -> bool:
        forced = self._tree.exit is None
        self._tree.scan()
        await self._listener.aclose()
        await self._tree.end(StopTimeouts(leave=0.5 if forced else 0.0, terminate=2.0), self._clock)
        self._close_terminal()
        for reader in self._readers:
            reader.close()
        return forced


class ClientProcessLauncher(ProgramLauncher):
    """Starts clients by a command template, in the session's folder unless the template has `{folder}`."""

    def __init__(self, template: Sequence[str], **more: Any) -> None:
        super().__init__(template, **more)
        if template and os.sep in template[0]:
            self.command[0] = str(Path(template[0]).absolute())  # it starts in another folder
        self.can_choose_prompt: bool = has_placeholder(template, "{prompt}")

    async def __call__(self, options: StartOptions, on_pipe: PipeHandler) -> ProcessClient:
        listener = await self.listen(options, on_pipe)
        command = fill_template(
            self.command,
            agent=listener.command,
            address=listener.address,
            prompt=options.prompt,
            folder=str(options.folder),
            options=options.arguments,
        )
        cwd = None if has_placeholder(self.command, "{folder}") else options.folder
        try:
            terminal = options.terminal and hasattr(os, "openpty")  # Windows has no pseudo-terminals
            started = _start_client(command, cwd, self.environment(options), terminal=terminal)
        except BaseException:
            await listener.aclose()
            raise
        readers = [await _start_reading(output) for output in started.outputs]
        return ProcessClient(started, listener, readers, self._clock)

    async def listen(self, options: StartOptions, on_pipe: PipeHandler) -> AgentListener:
        """Wait for the agents that the client starts."""
        if has_placeholder(self.command, "{agent}"):
            return await listen_for_relays(on_pipe)
        require("gateway", "an agent at an address")
        from accord.check.served_agent import serve_agent  # on first use: it loads the gateway's server

        return await serve_agent(options.home, on_pipe)


class _StartedClient(NamedTuple):
    """A client process, its outputs (stdout and stderr, or its terminal), and our handle of the terminal."""

    tree: ProcessTree
    outputs: list[int]
    terminal_handle: int | None


def _start_client(
    command: list[str], cwd: Path | None, environment: dict[str, str], *, terminal: bool
) -> _StartedClient:
    pipes = [os.openpty()] if terminal else [os.pipe(), os.pipe()]
    our_ends, client_ends = [pipe[0] for pipe in pipes], [pipe[1] for pipe in pipes]
    keep_terminal = False
    try:
        if terminal:
            # The client opens the terminal by name; it must stay open until then.
            tree = start_process(command, cwd=cwd, env=environment, tty=os.ttyname(client_ends[0]))
            keep_terminal = True
            return _StartedClient(tree, our_ends, client_ends[0])
        return _StartedClient(
            start_process(command, cwd=cwd, env=environment, stdout=client_ends[0], stderr=client_ends[1]),
            our_ends,
            None,
        )
    except BaseException:
        for descriptor in our_ends:
            os.close(descriptor)
        raise
    finally:
        for descriptor in () if keep_terminal else client_ends:
            os.close(descriptor)


class _OutputReader(asyncio.Protocol):
    def __init__(self) -> None:
        self._data = bytearray()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.BaseTransport | None = None

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data[: max(_MAX_OUTPUT_BYTES - len(self._data), 0)]

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.closed.done():
            self.closed.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _start_reading(descriptor: int) -> _OutputReader:
    loop = asyncio.get_running_loop()
    _, reader = await loop.connect_read_pipe(_OutputReader, os.fdopen(descriptor, "rb", buffering=0))
    return reader
