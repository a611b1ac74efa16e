"""Runs programs that were written for the official Python SDK (package `acp`) on Accord's connection.

`install()` replaces the SDK's connection class, so that its `run_agent`, `connect_to_agent` and
`spawn_agent_process` use Accord's. `python -m accord.compat PROGRAM ...` does that for a program that is not
changed at all. The classes and messages of the SDK stay as they are.
"""

import asyncio
import importlib
import json
import logging
import os
import runpy
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from accord.errors import ConnectionClosed, InternalError, InvalidParams, RpcError, UsageError
from accord.trace.tap import TappedTransport
from accord.trace.trace_format import Side
from accord.wire.calls import ConnectionReport, IncomingCall, Route
from accord.wire.connection import CANCEL_REQUEST, Connection
from accord.wire.pipes import LineFramer
from accord.wire.transport import Frame, Receiver, TransportEnd

LOG: Final = logging.getLogger("accord.compat")

_MODULES: Final = (
    "acp.connection", "acp.core", "acp.stdio", "acp.agent.connection", "acp.client.connection",
)  # fmt: skip
_READ_BYTES: Final = 64 * 1024
_FLUSH_SECONDS: Final = 2.0

Handler = Callable[[str, Any, bool], Awaitable[Any]]
"""Handles a message for the SDK: method, parameters, and whether it is a notification."""
StreamObserver = Callable[[Any], Awaitable[None] | None]


def install() -> None:
    """Let the official SDK in this process use Accord's connection. May be called twice."""
    try:
        modules = [importlib.import_module(name) for name in _MODULES]
    except ImportError:
        raise UsageError(
            "accord.compat needs the official SDK: pip install 'agent-client-protocol>=0.12,<0.13'"
        ) from None
    for module in modules:
        setattr(module, "Connection", CompatConnection)  # noqa: B010 - a module has no such attribute to type


def main(words: list[str]) -> None:
    """Run a Python program with the official SDK on Accord's connection."""
    if not words or words[0].startswith("-"):
        sys.exit("accord.compat: usage: python -m accord.compat PROGRAM.py [ARGUMENT ...]")
    if not os.path.isfile(words[0]):
        sys.exit(f"accord.compat: cannot run {words[0]!r}: there is no such file")
    try:
        install()
    except UsageError as error:
        sys.exit(str(error))
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


class CompatConnection:
    """What the SDK expects of its connection, on Accord's: order, cancellation, back-pressure, limits."""

    def __init__(
        self,
        handler: Handler,
        writer: Any,
        reader: asyncio.StreamReader | None = None,
        *,
        observers: list[StreamObserver] | None = None,
        listening: bool = True,
        receive_timeout: float | None = None,
    ) -> None:
        """With a reader, both are asyncio streams; without one, `writer` is a transport of the SDK."""
        self._handler = handler
        self._observers = list(observers or ())
        self._started = False
        self._closed = False
        transport = (
            MessageTransport(writer) if reader is None else StreamTransport(reader, writer, receive_timeout)
        )
        self._connection = Connection(
            TappedTransport(transport, _ObserverSink(self._observers)),
            requests=_EveryMethod(lambda method: self._route(self._answer, method)),
            notifications=_EveryMethod(lambda method: self._route(self._handle_notification, method)),
            observer=_log_report,
        )
        if listening:
            self._start()

    async def main_loop(self) -> None:
        """Handle messages until the connection ends."""
        self._start()
        end = await self._connection.wait_ended()
        if end.reason == StreamTransport.SILENT:
            raise _request_error(InternalError(data={"details": "Agent timeout"}))

    async def send_request(self, method: str, params: Any = None) -> Any:
        """Send a request and return its result. Raises the SDK's RequestError, or ConnectionError."""
        self._check_open()
        self._start()
        try:
            return await self._connection.request(
                method,
                params,
                read=msgspec.json.decode,
                key=_session_of(params),
                streaming=method == "session/prompt",
            )
        except RpcError as error:
            raise _request_error(error) from None
        except ConnectionClosed:
            raise ConnectionError("Connection closed") from None

    async def send_notification(self, method: str, params: Any = None) -> None:
        """Send a notification. Waits while the peer does not read."""
        self._check_open()
        self._connection.notify(method, params)
        try:
            await self._connection.drain()
        except ConnectionClosed:
            raise ConnectionError("Connection closed") from None

    def add_observer(self, observer: StreamObserver) -> None:
        """Call a function with a `StreamEvent` for every message in both directions."""
        self._observers.append(observer)

    async def close(self) -> None:
        """Cancel running handlers and end the connection."""
        if not self._closed:
            self._closed = True
            self._start()
            await self._connection.aclose()

    async def __aenter__(self) -> "CompatConnection":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._connection.start()

    def _check_open(self) -> None:
        if self._closed or self._connection.end is not None:
            raise ConnectionError("Connection closed")

    # -- incoming --

    def _route(self, run: Callable[..., Any], method: str) -> Route:
        return Route(partial(run, method), _read_params, _session_of, urgent=method == "session/cancel")

    async def _answer(self, method: str, params: Any, call: IncomingCall) -> Any:
        from acp.exceptions import RequestError
        from acp.telemetry import span_context
        from pydantic import BaseModel, ValidationError

        with span_context("acp.request", attributes={"method": method}):
            try:
                result = await self._handler(method, params, False)
            except RequestError as error:
                data: dict[str, Any] = {} if error.data is None else {"data": error.data}
                raise RpcError.of(error.code, str(error), **data) from None
            except ValidationError as error:
                raise InvalidParams(data={"errors": json.loads(error.json(include_url=False))}) from None
            except Exception as error:
                LOG.exception("the handler of %s failed", method)
                raise InternalError(data=_error_data(error)) from None
        if isinstance(result, BaseModel):
            return result.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
        return result

    async def _handle_notification(self, method: str, params: Any) -> None:
        from acp.telemetry import span_context

        with span_context("acp.notification", attributes={"method": method}):
            try:
                await self._handler(method, params, True)
            except Exception:
                LOG.exception("the handler of %s failed", method)


class _ObserverSink:
    """Shows the messages of a connection to the observers of the SDK."""

    def __init__(self, observers: list[StreamObserver]) -> None:
        self._observers = observers
        self._running: set[asyncio.Future[None]] = set()

    def add_frames(self, sender: Side, frames: Sequence[Frame]) -> None:
        """Show messages to the observers."""
        for frame in frames if self._observers else ():
            if isinstance(frame, bytes):
                self._observe("outgoing" if sender == "agent" else "incoming", frame)

    def ended(self, end: TransportEnd, sender: Side) -> None:
        """Nothing to show: the SDK's observers see messages only."""

    async def aclose(self) -> None:
        """Cancel what the observers still do."""
        for task in self._running:
            task.cancel()

    def _observe(self, direction: str, frame: bytes) -> None:
        from acp.connection import StreamDirection, StreamEvent

        try:
            event = StreamEvent(StreamDirection(direction), msgspec.json.decode(frame))
        except (ValueError, RecursionError):
            return  # not a message; the connection reports it
        for observer in list(self._observers):
            try:
                result = observer(event)
            except Exception:
                LOG.exception("a stream observer failed")
                continue
            if result is not None:
                task = asyncio.ensure_future(_logged(result))
                self._running.add(task)
                task.add_done_callback(self._running.discard)


async def _logged(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:
        LOG.exception("a stream observer failed")


def _log_report(report: ConnectionReport) -> None:
    LOG.warning("%s: %s", report.kind, report.detail)


def _read_params(raw: Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def _session_of(params: Any) -> str | None:
    if not isinstance(params, dict):
        return None
    session_id = cast("dict[str, Any]", params).get("sessionId")
    return session_id if isinstance(session_id, str) else None


def _request_error(error: RpcError) -> Exception:
    from acp.exceptions import RequestError

    return RequestError(error.code, error.message, error.data)


def _error_data(error: Exception) -> Any:
    """The data that the SDK gives an error: the text as JSON if it is, else as details."""
    try:
        return json.loads(str(error))
    except ValueError:
        return {"details": str(error)}


class _EveryMethod(Mapping[str, Route]):
    """A route for every method: the SDK's own router knows which ones exist."""

    def __init__(self, make: Callable[[str], Route]) -> None:
        self._make = make

    def __getitem__(self, method: str) -> Route:
        if method == CANCEL_REQUEST:
            raise KeyError(method)
        return self._make(method)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


# -- transports ----------------------------------------------------------------------------------------------


class _TaskTransport:
    """A transport that reads in a task. Subclasses read, send and close."""

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self._reading: asyncio.Task[None] | None = None
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._end: TransportEnd | None = None

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        raise AssertionError("a subclass reads")

    async def _close(self) -> None:
        raise AssertionError("a subclass closes")

    async def _deliver(self, frames: list[Frame]) -> None:
        await self._resumed.wait()
        if frames and self._receiver is not None and self._end is None:
            self._receiver.frames(frames)

    def pause(self) -> None:
        self._resumed.clear()

    def resume(self) -> None:
        self._resumed.set()

    async def aclose(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        with suppress(OSError):  # also of the time limit
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._close()
        self._finish("this side closed the connection")

    def _finish(self, reason: str, *, can_send: bool = False) -> None:
        if self._end is None:
            self._end = TransportEnd(reason, can_send=can_send)
            if self._receiver is not None:
                self._receiver.ended(self._end)
        elif not can_send:
            self._end = TransportEnd(self._end.reason)


class StreamTransport(_TaskTransport):
    """Accord's transport over a pair of asyncio streams, one message per line."""

    SILENT: Final = "the peer sent nothing within the time limit"

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float | None = None
    ) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer
        self._timeout = timeout
        self._framer = LineFramer()

    def send(self, frame: bytes) -> None:
        if (self._end is None or self._end.can_send) and not self._writer.is_closing():
            self._writer.write(frame + b"\n")

    @property
    def unsent(self) -> int:
        # The SDK's stream for a Windows console writes at once and has no buffer.
        size = getattr(self._writer.transport, "get_write_buffer_size", None)
        return 0 if size is None or self._writer.is_closing() else size()

    async def drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError as error:
            self._finish(f"the peer no longer reads ({error.strerror or error})")

    async def _read(self) -> None:
        try:
            while data := await asyncio.wait_for(self._reader.read(_READ_BYTES), self._timeout):
                await self._deliver(self._framer.feed(data))
            await self._deliver(self._framer.finish())
        except TimeoutError:
            self._finish(self.SILENT)
        except OSError as error:
            self._finish(f"reading failed ({error.strerror or error})")
        else:
            self._finish("the peer closed the stream", can_send=True)

    async def _close(self) -> None:
        try:
            if not self._writer.is_closing():
                await self._writer.drain()
        finally:
            self._writer.close()


class MessageTransport(_TaskTransport):
    """Accord's transport over a transport of the SDK, which carries decoded messages (HTTP, WebSocket)."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self._inner = inner
        self._outbox: deque[bytes] = deque()
        self._sending: asyncio.Task[None] | None = None

    def send(self, frame: bytes) -> None:
        if self._end is not None and not self._end.can_send:
            return
        self._outbox.append(frame)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    @property
    def unsent(self) -> int:
        return sum(map(len, self._outbox))

    async def drain(self) -> None:
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _send_all(self) -> None:
        while self._outbox:
            message = msgspec.json.decode(self._outbox[0])
            try:
                await self._inner.send(message)
            except Exception as error:  # noqa: BLE001 - whatever the SDK's transport raises ends the request
                LOG.warning("a message was not sent: %s", error)
                if "id" in message and "method" in message:
                    failure = {
                        "code": InternalError.default_code,
                        "message": f"the request was not sent: {error}",
                    }
                    answer = {"jsonrpc": "2.0", "id": message["id"], "error": failure}
                    await self._deliver([msgspec.json.encode(answer)])
            self._outbox.popleft()

    async def _read(self) -> None:
        try:
            while (message := await self._inner.receive()) is not None:
                await self._deliver([msgspec.json.encode(message)])
        except Exception as error:  # noqa: BLE001 - whatever the SDK's transport raises ends the connection
            self._finish(f"reading failed ({error})")
        else:
            self._finish("the peer closed the connection", can_send=True)

    async def _close(self) -> None:
        await self.drain()
        await self._inner.close()


if __name__ == "__main__":
    main(sys.argv[1:])
