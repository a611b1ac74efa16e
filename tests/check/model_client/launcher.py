"""An agent's stdio in memory, and the launcher of model clients."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tests.check.model_client.client import ModelClient
from tests.check.model_client.connection import Crash

from accord.check.check_script import ClientCheckScript
from accord.check.client.client_under_test import PipeHandler
from accord.check.program_launch import StartOptions
from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.wire.pipes import LineFramer
from accord.wire.process_tree import ProcessExit
from accord.wire.transport import Receiver, TransportEnd

SCRIPT = ClientCheckScript(
    name="the model client",
    ours=True,
    cancels=True,
    acts={
        **{
            name: (name,)
            for name in ("allow", "reject", "reads", "ask", "deadline", "strict", "newest", "servers")
        },
        "session": ("session={session}",),
        "roots": ("roots={extra}",),
        "attach": ("attach={file}",),
        "mode": ("mode={mode}",),
        "option": ("option={option}={value}",),
        "delete": ("delete={session}",),
    },
)


class MemoryPipe:
    """Both ends of the stdio of an agent: the checker has the methods of its client pipe, the client has
    `put`.
    """

    def __init__(
        self, on_data: Callable[[bytes], None], on_exit: Callable[[], None], *, write_is_frame: bool
    ) -> None:
        self.arguments: Sequence[str] = []
        self.login = ""
        self._on_data = on_data
        self._on_exit = on_exit
        self._write_is_frame = write_is_frame
        self._receiver: Receiver | None = None
        self._in = LineFramer()
        self._out = LineFramer()
        self._reading = True
        self.unread_data: list[bytes] = []
        self._over = False

    def _call_soon(self, callback: Callable[..., Any], *arguments: Any) -> None:
        asyncio.get_running_loop().call_soon(callback, *arguments)

    # -- the checker's end

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def write(self, data: bytes) -> None:
        frames = [data] if self._write_is_frame else self._in.feed(data)
        for frame in frames:
            assert isinstance(frame, bytes)
            self._call_soon(self._on_data, frame)

    def write_stderr(self, text: str) -> None:
        pass

    def set_reading(self, reading: bool) -> None:
        # Queued behind earlier writes, because the other side reads later.
        self._call_soon(self._set_reading, reading)

    def _set_reading(self, reading: bool) -> None:
        self._reading = reading
        if reading:
            unread_data, self.unread_data = self.unread_data, []
            for data in unread_data:
                self._deliver(data)

    def exit(self, code: int | None = None) -> None:
        self._call_soon(self._on_exit)

    # -- the client's end

    def put(self, data: bytes) -> None:
        if self._reading:
            self._call_soon(self._deliver, data)
        else:
            self.unread_data.append(data)

    def _deliver(self, data: bytes) -> None:
        if self._receiver is not None and not self._over:
            self._receiver.frames(self._out.feed(data))

    def close(self) -> None:
        self._call_soon(self._end)

    def _end(self) -> None:
        if self._receiver is not None and not self._over:
            self._over = True
            self._receiver.ended(TransportEnd("the client closed the agent's input"))


class LaunchedModelClient:
    """One model client."""

    def __init__(self, client: ModelClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._exited: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            code = await self._client.run()
            self._exited.set_result(ProcessExit(code))
        except Crash:
            self._exited.set_result(ProcessExit(signal="SIGABRT"))
        finally:
            await self._client.aclose()

    @property
    def output(self) -> str:
        return self._client.output

    stdout = output

    @property
    def exit(self) -> ProcessExit | None:
        return self._exited.result() if self._exited.done() else None

    async def wait(self, seconds: float) -> bool:
        return await within(self._clock, seconds, self._exited)

    def interrupt(self) -> None:
        self._client.interrupt()

    async def end(self) -> bool:
        forced = not self._exited.done()
        if forced:
            self._task.cancel()  # not after its exit: its commands would keep running
        await asyncio.gather(self._task, return_exceptions=True)
        return forced


class ModelLauncher:
    """Starts model clients that break one rule, or none."""

    can_choose_prompt = True

    def __init__(
        self, broken: Any = None, *, lacks: tuple[str, ...] = (), clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.broken = broken
        self.lacks = lacks
        self.clock = clock

    async def __call__(self, options: StartOptions, on_pipe: PipeHandler) -> LaunchedModelClient:
        client = ModelClient(options, self.broken, self.lacks, self.clock)

        def connect(words: list[str], login: str = "") -> MemoryPipe:
            pipe = MemoryPipe(
                client.receive, lambda: client.agent_ended(pipe), write_is_frame=client.breaks("fault-pieces")
            )
            pipe.arguments, pipe.login = words, login
            on_pipe(pipe)
            return pipe

        client.connect = connect
        client.pipe = connect([])
        return LaunchedModelClient(client, self.clock)
