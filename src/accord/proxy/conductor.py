"""Connects a client, proxies and an agent to a chain: each proxy sees the part behind it through
`proxy/successor`.

To the client, a conductor is an ordinary agent. It forwards calls in order, under ids of each connection, and
re-issues cancellations with the id of the next one.
"""

import asyncio
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.clock import OwnedTasks
from accord.errors import InternalError, InvalidParams, InvalidRequest, MethodNotFound, RpcError
from accord.proxy.chain import (
    PROXY_INITIALIZE,
    SUCCESSOR,
    call_frame,
    cancelled_id,
    unwrap,
    wrapped_frame,
)
from accord.proxy.proxy import AGENT_TIMEOUTS, FLUSH_SECONDS, print_line
from accord.schema.codec import encode
from accord.trace.recorder import exit_like, forwarded_signals
from accord.wire.connection import CANCEL_REQUEST
from accord.wire.envelope import (
    ABSENT,
    Envelope,
    InvalidMessage,
    RequestId,
    encode_failure,
    id_key,
    parse_envelope,
)
from accord.wire.process import ProcessTransport, spawn
from accord.wire.stdio import StdioTransport
from accord.wire.transport import Frame, Transport, TransportEnd

_HIGH_WATER: Final = 4 * 1024 * 1024
"""Unsent bytes of a part at which its sources are read no more."""


class _Version(Struct):
    version: Any = msgspec.field(name="protocolVersion", default=None)


_read_version = msgspec.json.Decoder(_Version).decode


class _OpenRequest(Struct, eq=False):
    """A request that was forwarded: where it came from, and its id there."""

    source: "_Part"
    id: RequestId


class _Part:
    """The client, a proxy or the agent, with its place: -1, 0 and so on."""

    def __init__(self, conductor: "Conductor", place: int, transport: Transport) -> None:
        self.place = place
        self.transport = transport
        self.open: dict[str, _OpenRequest] = {}
        """The requests that it has to answer, by their id on its connection."""
        self.sent_ids: dict[tuple[int, str], int] = {}
        """Their ids on this connection, by source and id there."""
        self._conductor = conductor
        self._last_id = 0

    def ask(self, source: "_Part", id: RequestId, frame: Callable[[int], bytes]) -> None:
        """Forward a request under an id of this connection."""
        self._last_id += 1
        self.open[id_key(self._last_id)] = _OpenRequest(source, id)
        self.sent_ids[source.place, id_key(id)] = self._last_id
        self.transport.send(frame(self._last_id))

    def frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._conductor.receive(self, frame)
        self._conductor.relieve(self)

    def ended(self, end: TransportEnd) -> None:
        self._conductor.part_ended(self, end)


class Conductor:
    """Runs a chain. `parts` are the transports of the proxies, in order, and of the agent."""

    def __init__(self, client: Transport, parts: Sequence[Transport]) -> None:
        self._client = _Part(self, -1, client)
        self._parts = [_Part(self, place, transport) for place, transport in enumerate(parts)]
        self._version: Any = None
        """The version that the client asked for; no part may change it."""
        self.broken_part: int | None = None
        """The place of the part whose end ended the chain; None if it was the client's."""
        self._tasks = OwnedTasks()

    async def run(self) -> TransportEnd:
        """Forward until the client or a part has ended. Returns that end."""
        self._end: asyncio.Future[TransportEnd] = asyncio.get_running_loop().create_future()
        every = [self._client, *self._parts]
        try:
            for part in reversed(every):
                part.transport.start(part)
            return await self._end
        finally:
            self._tasks.cancel()
            await asyncio.gather(*(part.transport.aclose() for part in every))

    # -- called by the parts

    def receive(self, source: _Part, frame: Frame) -> None:
        """Forward one message."""
        try:
            envelope = parse_envelope(frame) if isinstance(frame, bytes) else None
        except InvalidMessage as error:
            failure = RpcError.of(error.code, error.message, error.reason)
            source.transport.send(encode_failure(error.id, failure))
            return
        if envelope is None:
            return  # larger than any message may be
        if envelope.method is UNSET:
            self._answer(source, envelope, frame)
        elif envelope.method == CANCEL_REQUEST:
            self._cancel(source, envelope)
        else:
            try:
                self._forward(source, envelope)
            except RpcError as error:
                if envelope.id is not UNSET:
                    source.transport.send(encode_failure(envelope.id, error))

    def relieve(self, source: _Part) -> None:
        """Stop reading a part whose messages are not taken fast enough."""
        full = [part for part in (self._client, *self._parts) if part.transport.unsent > _HIGH_WATER]
        if full:
            source.transport.pause()
            self._tasks.start(self._resume_later(source, full))

    async def _resume_later(self, source: _Part, full: list[_Part]) -> None:
        await asyncio.gather(*(part.transport.drain() for part in full))
        source.transport.resume()

    def part_ended(self, part: _Part, end: TransportEnd) -> None:
        """End the chain. Requests that the part has not answered fail."""
        name = "the client" if part is self._client else f"part {part.place + 1} of the chain"
        for request in part.open.values():
            failure = InternalError(f"{name} has ended: {end.reason}")
            request.source.transport.send(encode_failure(request.id, failure))
        part.open.clear()
        if not self._end.done():
            self.broken_part = None if part is self._client else part.place
            self._end.set_result(end)

    # -- forwarding

    def _forward(self, source: _Part, envelope: Envelope) -> None:
        """Send a call on: plain ones towards the client, wrapped ones towards the agent."""
        method, params = str(envelope.method), envelope.params
        if source is self._client:
            target = self._parts[0]
            if method == "initialize":
                self._version = _version_of(params)
        elif method == SUCCESSOR:
            if source.place + 1 == len(self._parts):
                raise MethodNotFound(data={"method": SUCCESSOR})
            message = unwrap(envelope)
            method, params = message.method, message.params
            target = self._parts[source.place + 1]
            if method == "initialize" and _version_of(params) != self._version:
                raise InvalidParams(data=f"a proxy must not change the version {self._version!r}")
        else:
            target = self._client if source.place == 0 else self._parts[source.place - 1]
            wrap = call_frame if target is self._client else wrapped_frame
            self._send(source, target, envelope.id, partial(wrap, method=method, params=params))
            return
        if method == "initialize" and target is not self._parts[-1]:
            method = PROXY_INITIALIZE
        elif method == PROXY_INITIALIZE:
            raise InvalidRequest(data="a conductor gets initialize")
        self._send(source, target, envelope.id, partial(call_frame, method=method, params=params))

    def _send(self, source: _Part, target: _Part, id: Any, frame: Callable[[Any], bytes]) -> None:
        if id is UNSET:
            target.transport.send(frame(UNSET))
        else:
            target.ask(source, id, frame)

    def _answer(self, source: _Part, envelope: Envelope, frame: Frame) -> None:
        """Return a response to where its request came from, with its id there."""
        request = source.open.pop(id_key(envelope.id), None)
        if request is None:
            return
        source.sent_ids.pop((request.source.place, id_key(request.id)), None)
        members = {"result": envelope.result, "error": envelope.error}
        given = {name: value for name, value in members.items() if value is not ABSENT}
        request.source.transport.send(encode({"jsonrpc": "2.0", "id": request.id, **given}))

    def _cancel(self, source: _Part, envelope: Envelope) -> None:
        """Cancel a forwarded request, with its id on the connection that has it."""
        key = (source.place, id_key(cancelled_id(envelope)))
        for part in (self._client, *self._parts):
            if key in part.sent_ids:
                params = Raw(encode({"requestId": part.sent_ids[key]}))
                part.transport.send(call_frame(UNSET, CANCEL_REQUEST, params))


def run_chain(
    *proxies: Sequence[str],
    agent: Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
) -> int:
    """Start proxies and an agent, each by its command, and connect them to a chain on stdin and stdout.

    The first proxy is next to the client. Returns the agent's exit code; 1 if a proxy has ended before it.
    Raises NeverStarted.
    """
    return asyncio.run(_run_chain([*map(list, proxies), list(agent)], cwd, env))


async def _run_chain(
    commands: list[list[str]],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str | None] | None,
) -> int:
    client = StdioTransport(flush=FLUSH_SECONDS)
    parts: list[ProcessTransport] = []
    try:
        for command in commands:
            transport = await spawn(command, cwd=cwd, env=env, on_stderr=print_line, timeouts=AGENT_TIMEOUTS)
            parts.append(transport)
    except BaseException:
        await asyncio.gather(*(part.aclose() for part in parts))
        raise
    conductor = Conductor(client, parts)
    running = asyncio.ensure_future(conductor.run())

    def stop() -> None:
        running.cancel()

    with forwarded_signals(parts[-1].tree, stop):
        await asyncio.wait((running,))
    if not running.cancelled():
        end = running.result()
        place = conductor.broken_part
        if place is not None and place + 1 < len(commands):
            command = shlex.join(commands[place])
            print_line(f"accord proxy: part {place + 1} of the chain has ended: {end.reason} ({command})")
            return 1
    exit = parts[-1].tree.exit
    return 1 if exit is None else exit_like(exit)


def _version_of(params: Raw) -> Any:
    try:
        return _read_version(params).version
    except (msgspec.MsgspecError, ValueError):
        return None
