"""Starts the client under test from its command template and sees it out."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from accord.check.client.client_under_test import Joined, RelayListener, open_door
from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import UsageError
from accord.wire.process_tree import ProcessExit, ProcessTree, StopTimeouts, start_process

# MERGED check.client.command: The command line of the client under test, with the places where the agent, the prompt and more words go.

PLACES: Final = ("{agent}", "{prompt}", "{folder}", "{options}")


def ready(
    template: Sequence[str], *, agent: Sequence[str], prompt: str, folder: str, options: Sequence[str]
) -> list[str]:
    """The words to start. A place that is a whole word becomes several words, one inside a word becomes quoted text."""
    words = list(template)
    if not any("{options}" in word for word in words):
        words[_before_agent(words) : _before_agent(words)] = ["{options}"]
    many = {"{agent}": list(agent), "{options}": list(options)}
    one = {
        "{agent}": shlex.join(agent),
        "{options}": shlex.join(options),
        "{prompt}": prompt,
        "{folder}": folder,
    }
    return [part for word in words for part in (many[word] if word in many else [_filled(word, one)])]


def check_template(template: Sequence[str]) -> None:
    """Raises `UsageError` where there is no place for the agent."""
    if not any("{agent}" in word for word in template):
        raise UsageError(
            "the client's command needs {agent} where the agent's command goes: "
            "accord check client -- COMMAND ... {agent} ..."
        )


def takes(template: Sequence[str], place: str) -> bool:
    """Whether the command has this place."""
    return any(place in word for word in template)


def _before_agent(words: Sequence[str]) -> int:
    """Options go before the agent, and before the `--` that sets its command apart."""
    place = next(number for number, word in enumerate(words) if "{agent}" in word)
    return place - 1 if place and words[place - 1] == "--" else place


def _filled(word: str, values: Mapping[str, str]) -> str:
    for place, value in values.items():
        word = word.replace(place, value)
    return word


# MERGED check.client.launch: How the client under test is started and seen out. A process is the one way that ships; tests bring their own.

_KEPT = 1_000_000


class ClientTask(NamedTuple):
    """What the client is to do: the prompt, further words, and where."""

    prompt: str
    folder: Path
    home: Path
    words: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    terminal: bool = False


class LaunchedClient(Protocol):
    """One running client."""

    @property
    def printed(self) -> str:
        """All that it wrote to stdout so far."""
        ...

    @property
    def output(self) -> str:
        """The same, with what it wrote to stderr."""
        ...

    @property
    def exit(self) -> ProcessExit | None:
        """How it ended, once it has."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Whether it ends within so many seconds."""
        ...

    def interrupt(self) -> None:
        """Ctrl-C."""
        ...

    async def end(self) -> bool:
        """See it out, with everything it started; whether it had to be made to."""
        ...


class ClientLauncher(Protocol):
    """Starts clients. Each agent that a client starts is handed to `joined`."""

    prompts: bool
    """Whether it can be told what to prompt."""

    async def __call__(self, order: ClientTask, joined: Joined) -> LaunchedClient:
        """Start one; raises `NeverStarted`."""
        ...


class ProcessClient:
    """A client in a process of its own, with a door for the agents it starts."""

    def __init__(
        self, started: "_Started", door: RelayListener, readers: "Sequence[_Output]", clock: Clock
    ) -> None:
        self._tree = started.tree
        self._slave = started.slave
        self._door = door
        self._readers = readers
        self._clock = clock

    @property
    def printed(self) -> str:
        return self._readers[0].text

    @property
    def output(self) -> str:
        return "".join(reader.text for reader in self._readers)

    @property
    def exit(self) -> ProcessExit | None:
        return self._tree.exit

    async def wait(self, seconds: float) -> bool:
        waiting = asyncio.ensure_future(self._tree.wait())
        try:
            done = await within(self._clock, seconds, waiting)
        finally:
            waiting.cancel()
        if done:
            self._hang_up()
            for reader in self._readers:  # what it printed last is still in the pipe
                await within(self._clock, 1.0, reader.over)
        return done

    def interrupt(self) -> None:
        if sys.platform == "win32":
            self._tree.interrupt()
        else:
            os.kill(self._tree.pid, signal.SIGINT)  # the client alone: its agent is our affair

    def _hang_up(self) -> None:
        """Let go of its terminal, so that the end of the output shows."""
        if self._slave is not None:
            os.close(self._slave)
            self._slave = None

    async def end(self) -> bool:
        forced = self._tree.exit is None
        self._tree.scan()
        await self._door.aclose()
        await self._tree.end(StopTimeouts(leave=0.5 if forced else 0.0, terminate=2.0), self._clock)
        self._hang_up()
        for reader in self._readers:
            reader.close()
        return forced


class ClientProcessLauncher:
    """Starts a command line with its places filled in. It runs in the session's folder, unless the command names that itself."""

    def __init__(self, template: Sequence[str], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.template = list(template)
        if template and os.sep in template[0]:
            self.template[0] = str(Path(template[0]).absolute())  # it starts elsewhere
        self.prompts = takes(template, "{prompt}")
        self._clock = clock

    async def __call__(self, order: ClientTask, joined: Joined) -> ProcessClient:
        door = await open_door(joined)
        words = ready(
            self.template,
            agent=door.command,
            prompt=order.prompt,
            folder=str(order.folder),
            options=order.words,
        )
        where = None if takes(self.template, "{folder}") else order.folder
        environment = {"ACCORD_HOME": str(order.home), **order.environment}
        try:
            started = _start(words, where, environment, terminal=order.terminal)
        except BaseException:
            await door.aclose()
            raise
        readers = [await _reading(output) for output in started.outputs]
        return ProcessClient(started, door, readers, self._clock)


class _Started(NamedTuple):
    """A client, where to read what it prints (stdout and stderr, or its terminal), and our hold on that terminal."""

    tree: ProcessTree
    outputs: list[int]
    slave: int | None


def _start(words: list[str], where: Path | None, environment: dict[str, str], *, terminal: bool) -> _Started:
    pairs = [os.openpty()] if terminal else [os.pipe(), os.pipe()]
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    kept = False
    try:
        if terminal:
            # The client opens it by its name; until it has, somebody has to hold it.
            tree = start_process(words, cwd=where, env=environment, tty=os.ttyname(theirs[0]))
            kept = True
            return _Started(tree, ours, theirs[0])
        return _Started(
            start_process(words, cwd=where, env=environment, stdout=theirs[0], stderr=theirs[1]), ours, None
        )
    except BaseException:
        for descriptor in ours:
            os.close(descriptor)
        raise
    finally:
        for descriptor in () if kept else theirs:
            os.close(descriptor)


class _Output(asyncio.Protocol):
    def __init__(self) -> None:
        self._data = bytearray()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.BaseTransport | None = None

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data[: max(_KEPT - len(self._data), 0)]

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if not self.over.done():
            self.over.set_result(None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _reading(descriptor: int) -> _Output:
    loop = asyncio.get_running_loop()
    _, reader = await loop.connect_read_pipe(_Output, os.fdopen(descriptor, "rb", buffering=0))
    return reader
