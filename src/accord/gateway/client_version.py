"""Lets a client speak version 2 with the gateway, whose methods are those of version 1.

Imported on first use: a gateway whose clients speak version 1 never loads it.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from accord.agent.protocol_v2 import AgentProtocolV2, Answer
from accord.agent.session_v2 import SessionV2
from accord.gateway.client_connection import CallFrame, ConnectionHandler, IncomingFrame, OutgoingFrame
from accord.gateway.client_features import with_accord_meta
from accord.gateway.gateway_client import session_id_of
from accord.schema import ClientCapabilities, Error, InitializeRequest, PromptRequest
from accord.schema.codec import decoder, encode
from accord.session.events import TurnEnded
from accord.session.protocol_v1 import accord_meta
from accord.wire.envelope import ABSENT, Envelope, id_key, parse_envelope
from accord.wire.translation import TranslatingTransport
from accord.wire.transport import Frame, Receiver, TransportEnd

_UPDATE: Final = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'


class TranslatedConnection(Protocol):
    """The connection of a client, as a translation needs it."""

    @property
    def handler(self) -> ConnectionHandler | None:
        """The gateway's end; None after the end."""
        ...

    def transmit(self, frames: Sequence[OutgoingFrame], stream: str | None) -> None:
        """Send frames of version 2."""
        ...


class ClientTranslation:
    """Translates the frames of one client. It is the transport below the translator, and its receiver."""

    unsent = 0
    """The connection counts what is not sent."""

    def __init__(self, connection: TranslatedConnection) -> None:
        self._connection = connection
        self._sessions: dict[str, str] = {}
        """The sessions of the client's open requests: their streams carry the responses."""
        self._update_start = b"\n"
        self._update_session: str | None = None
        """What an update of the latest session begins with, and the session."""
        self._updates: list[OutgoingFrame] | None = None
        """While frames are passed on: updates of the latest session that are sent together."""
        self._below: Receiver | None = None
        self._transport = TranslatingTransport(self)
        self._transport.translator = _GatewayProtocolV2(self._transport, _keep_version)
        self._transport.start(_ToGateway(connection))

    def receive(self, frames: list[IncomingFrame]) -> None:
        """Pass messages of the client to the gateway."""
        for frame in frames:
            envelope = frame.envelope
            if envelope.method is not msgspec.UNSET and envelope.id is not msgspec.UNSET:
                session = session_id_of(params_of(envelope))
                if session is not None:
                    self._sessions[id_key(envelope.id)] = session
        if self._below is not None:
            self._below.frames([frame.body for frame in frames])

    def send_frames(self, frames: Sequence[OutgoingFrame]) -> None:
        """Pass messages of the gateway to the client."""
        self._updates = []
        try:
            for frame in frames:
                self._transport.send(frame.body)
        finally:
            self._send_updates()
            self._updates = None

    def _send_updates(self) -> None:
        if self._updates:
            updates, self._updates = self._updates, []
            self._connection.transmit(updates, self._update_session)

    # -- the transport below the translator

    def start(self, receiver: Receiver) -> None:
        self._below = receiver

    def send(self, frame: bytes) -> None:
        """Send a frame of version 2 on the stream that it belongs to."""
        if frame.startswith(self._update_start):
            if self._updates is None:
                self._connection.transmit((OutgoingFrame(frame),), self._update_session)
            else:
                self._updates.append(OutgoingFrame(frame))
            return
        self._send_updates()
        envelope = parse_envelope(frame)
        id: Any = envelope.id
        if id is msgspec.UNSET or id is None:
            session = session_id_of(params_of(envelope))
            start = _UPDATE + encode(session)
            if frame.startswith(start):
                self._update_start, self._update_session = start, session
            self._connection.transmit((OutgoingFrame(frame),), session)
        elif envelope.method is msgspec.UNSET:
            self._connection.transmit((CallFrame(frame, id=id),), self._sessions.pop(id_key(id), None))
        else:
            self._connection.transmit(
                (CallFrame(frame, id=id, is_request=True),), session_id_of(params_of(envelope))
            )

    async def drain(self) -> None:
        """The gateway watches what its clients leave unread."""

    def pause(self) -> None:
        """The gateway never pauses a client."""

    def resume(self) -> None:
        """See `pause`."""

    async def aclose(self) -> None:
        """The connection ends by itself."""


class _ToGateway:
    """Passes translated messages to the gateway's end of the connection."""

    def __init__(self, connection: TranslatedConnection) -> None:
        self._connection = connection

    def frames(self, frames: list[Frame]) -> None:
        handler = self._connection.handler
        if handler is not None:
            handler.on_frames(
                [IncomingFrame(frame, parse_envelope(frame)) for frame in frames if isinstance(frame, bytes)]
            )

    def ended(self, end: TransportEnd) -> None:
        """The connection ends by itself."""


class _TurnState(msgspec.Struct, rename="camel"):
    """What `_accord/turn` says: the state of a turn of any client."""

    session_id: str
    state: str
    stop_reason: str | None = None
    error: Error | None = None


class _GatewayProtocolV2(AgentProtocolV2):
    """Reports the turns of other clients, too, as states of the session."""

    def send(self, frame: bytes) -> None:
        is_turn = frame.find(b'"_accord/turn"') >= 0
        if is_turn and (envelope := parse_envelope(frame)).method == "_accord/turn":
            self._report_turn(decoder(_TurnState).decode(envelope.params))
        else:
            super().send(frame)

    def call_agent(self, method: str, params: Any, ended: Answer) -> str:
        if isinstance(params, PromptRequest):  # the gateway logs the message with the id that the client gets
            session = self._session(params.session_id)
            session.next_message_id = session.ids.new()
            params.meta = with_accord_meta(params.meta, messageId=session.next_message_id)
        return super().call_agent(method, params, ended)

    def _end_resume(self, session: SessionV2, envelope: Envelope, meta: Any) -> None:
        accord = dict(accord_meta(meta))
        if accord.pop("turn", None) == "running":
            session.join_turn(report=False)
            rest = {**meta, "accord": accord}
            meta = {key: value for key, value in rest.items() if value} or msgspec.UNSET
        super()._end_resume(session, envelope, meta)

    def _report_turn(self, turn: _TurnState) -> None:
        self.forget_chunks()
        session = self._session(turn.session_id)
        if turn.state in ("started", "running"):
            session.join_turn()
        else:
            session.turn_event(TurnEnded(None, turn.stop_reason or "", error=turn.error))

    def _initialize_request(self, request: Any) -> InitializeRequest:
        inner = super()._initialize_request(request)
        capabilities = inner.client_capabilities or ClientCapabilities()
        meta = capabilities.meta or {}
        announced: dict[str, Any] = meta.get("accord") or {}
        capabilities.meta = {**meta, "accord": {**announced, "turn": "answer", "events": True}}
        inner.client_capabilities = capabilities
        return inner


def params_of(envelope: Envelope) -> msgspec.Raw | None:
    """The params of a call; None if it has none."""
    return None if envelope.params is ABSENT else envelope.params


def _keep_version() -> None:
    """A failed `initialize` may be repeated, for version 2 only."""
