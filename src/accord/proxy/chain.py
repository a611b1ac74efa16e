"""A proxy as a part of a chain, which a conductor connects: `proxy/initialize` and `proxy/successor`.

The proxy has one connection, to the conductor. What concerns its client is sent as it is; what concerns the
agent is wrapped in `proxy/successor`. Ids need no table: those of the conductor's requests differ, and the
proxy passes them on unchanged.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.errors import InvalidRequest
from accord.schema.codec import encode
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
from accord.wire.transport import Frame, Receiver, Transport, TransportEnd

PROXY_INITIALIZE: Final = "proxy/initialize"
SUCCESSOR: Final = "proxy/successor"


class Wrapped(Struct):
    """The params of `proxy/successor`: a message to or from the next part of a chain."""

    method: str
    params: Raw = ABSENT


_read_wrapped = msgspec.json.Decoder(Wrapped).decode


def call_frame(id: Any, method: str, params: Raw) -> bytes:
    """A request, or a notification if the id is UNSET."""
    message: dict[str, Any] = {"jsonrpc": "2.0"}
    if id is not UNSET:
        message["id"] = id
    message["method"] = method
    if params is not ABSENT:
        message["params"] = params
    return encode(message)


def wrapped_frame(id: Any, method: str, params: Raw) -> bytes:
    """The same message, for the other side of a conductor."""
    members: dict[str, Any] = {"method": method}
    if params is not ABSENT:
        members["params"] = params
    return call_frame(id, SUCCESSOR, Raw(encode(members)))


def unwrap(envelope: Envelope) -> Wrapped:
    """The message in a `proxy/successor`. Raises InvalidRequest."""
    try:
        return _read_wrapped(envelope.params)
    except (msgspec.MsgspecError, ValueError):
        raise InvalidRequest(data="proxy/successor needs a method and its params") from None


class _CancelParams(Struct):
    request_id: RequestId = msgspec.field(name="requestId", default=None)


_read_cancel = msgspec.json.Decoder(_CancelParams).decode


def cancelled_id(envelope: Envelope) -> RequestId:
    """The request that a `$/cancel_request` names; None if it names none."""
    try:
        return _read_cancel(envelope.params).request_id
    except (msgspec.MsgspecError, ValueError):
        return None


class ChainLink:
    """Splits the connection to a conductor: `client` and `agent` are the transports of a `Proxy`."""

    def __init__(self, conductor: Transport) -> None:
        self.client: ChainSide = ChainSide(self, is_agent=False)
        self.agent: ChainSide = ChainSide(self, is_agent=True)
        self._conductor = conductor
        self._asked_agent: set[str] = set()
        """The ids of open requests to the agent."""
        self._agent_asks: set[str] = set()
        """The ids of open requests of the agent."""
        self._paused = 0
        self._started = False

    def start(self) -> None:
        """Read, once both sides have their receivers."""
        if not self._started and self.client.receiver is not None and self.agent.receiver is not None:
            self._started = True
            self._conductor.start(self)

    # -- from the conductor

    def frames(self, frames: list[Frame]) -> None:
        """Pass each frame to the side that it concerns."""
        for frame in frames:
            side, unwrapped = self._sort(frame)
            if side is not None and side.receiver is not None:
                side.receiver.frames([unwrapped])

    def _sort(self, frame: Frame) -> "tuple[ChainSide | None, Frame]":
        try:
            envelope = parse_envelope(frame) if isinstance(frame, bytes) else None
        except InvalidMessage:
            envelope = None
        if envelope is None:
            return self.client, frame  # the connection answers it
        id, method = envelope.id, envelope.method
        if method is UNSET:
            key = id_key(id)
            is_agents = key in self._asked_agent
            self._asked_agent.discard(key)
            return (self.agent if is_agents else self.client), frame
        if method == CANCEL_REQUEST:
            from_agent = id_key(cancelled_id(envelope)) in self._agent_asks
            return (self.agent if from_agent else self.client), frame
        if method == PROXY_INITIALIZE:
            return self.client, call_frame(id, "initialize", envelope.params)
        if method != SUCCESSOR and method != "initialize":
            return self.client, frame
        try:
            if method == "initialize":
                raise InvalidRequest(data="this is a proxy: it needs proxy/initialize and a next part")
            message = unwrap(envelope)
        except InvalidRequest as error:
            if id is not UNSET:
                self._conductor.send(encode_failure(id, error))
            return None, frame
        if id is not UNSET:
            self._agent_asks.add(id_key(id))
        return self.agent, call_frame(id, message.method, message.params)

    def ended(self, end: TransportEnd) -> None:
        """The conductor has ended: so have both sides."""
        for side in (self.client, self.agent):
            if side.receiver is not None:
                side.receiver.ended(end)

    # -- to the conductor

    def send_to_client(self, frame: bytes) -> None:
        self._conductor.send(frame)

    def send_to_agent(self, frame: bytes) -> None:
        """Wrap a call. A response and a cancellation go as they are, under their id of this connection."""
        envelope = parse_envelope(frame)
        if envelope.method is UNSET:
            self._agent_asks.discard(id_key(envelope.id))
        elif envelope.method != CANCEL_REQUEST:
            if envelope.id is not UNSET:
                self._asked_agent.add(id_key(envelope.id))
            frame = wrapped_frame(envelope.id, envelope.method, envelope.params)
        self._conductor.send(frame)

    @property
    def unsent(self) -> int:
        return self._conductor.unsent

    async def drain(self) -> None:
        await self._conductor.drain()

    def pause(self) -> None:
        """Stop reading while one of the sides wants that."""
        self._paused += 1
        if self._paused == 1:
            self._conductor.pause()

    def resume(self) -> None:
        self._paused -= 1
        if self._paused == 0:
            self._conductor.resume()

    async def aclose(self) -> None:
        await self._conductor.aclose()


class ChainSide:
    """The transport to the client, or to the agent, of a proxy in a chain."""

    def __init__(self, link: ChainLink, *, is_agent: bool) -> None:
        self.receiver: Receiver | None = None
        self._link = link
        self._send = link.send_to_agent if is_agent else link.send_to_client
        self._paused = False

    def start(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self._link.start()

    def send(self, frame: bytes) -> None:
        self._send(frame)

    @property
    def unsent(self) -> int:
        return self._link.unsent

    async def drain(self) -> None:
        await self._link.drain()

    def pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._link.pause()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._link.resume()

    async def aclose(self) -> None:
        await self._link.aclose()
