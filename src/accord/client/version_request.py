"""Asks an agent for version 2 of the protocol, and continues in the version that it answers.

Imported on first use: a client of version 1 does not need it.
"""

from typing import Any, Final, cast

from accord.client.protocol_v2 import ClientProtocolV2
from accord.errors import InvalidRequest
from accord.schema import InitializeRequest, v2
from accord.schema.base import Mismatch
from accord.schema.codec import NotJson, decode, encode, parse_json, to_builtins
from accord.session.requests_v2 import initialize_request_v2, initialize_response_v1
from accord.wire.envelope import (
    ABSENT,
    Envelope,
    InvalidMessage,
    Request,
    Success,
    encode_failure,
    parse_envelope,
)
from accord.wire.translation import TranslatingTransport
from accord.wire.transport import Frame, Transport

VERSION: Final = 2


class VersionRequest:
    """Turns `initialize` into one for version 2, and puts the translator of the answered version in place."""

    def __init__(self, transport: TranslatingTransport, *, only: bool, events: bool) -> None:
        """`only` refuses an agent that answers another version. See `ClientProtocolV2` for `events`."""
        self._events = events
        self._transport = transport
        self._only = only
        self._id: Any = None

    def send(self, frame: bytes) -> None:
        """Send the client's `initialize`. A version 1 agent finds what it needs in the same message."""
        envelope = parse_envelope(frame)
        if envelope.method != "initialize":
            self._transport.transmit(frame)
            return
        self._id = envelope.id
        request = decode(InitializeRequest, envelope.params)
        params = to_builtins(initialize_request_v2(request))
        if not self._only:
            params = {**to_builtins(request), **params}
        self._transport.transmit(encode(Request(self._id, "initialize", params)))

    def receive(self, frame: Frame) -> None:
        """Handle a frame of the agent before its version is known."""
        try:
            envelope = parse_envelope(frame) if isinstance(frame, bytes) else None
        except InvalidMessage:
            envelope = None
        if envelope is None or not self._is_result(envelope):
            self._transport.deliver(frame)
            return
        try:
            version = _version(envelope)
            if version == VERSION:
                response = decode(v2.InitializeResponseV2, envelope.result)
                self._transport.translator = ClientProtocolV2(self._transport, events=self._events)
                self._transport.deliver(encode(Success(self._id, initialize_response_v1(response))))
                return
        except Mismatch as error:
            self._refuse(f"the answer to initialize cannot be read: {error}")
            return
        if self._only:
            self._refuse(f"the agent answered with protocol version {version}; this client speaks only 2")
            return
        self._transport.translator = None
        self._transport.deliver(frame)

    def ended(self) -> None:
        """Nothing is left to do."""

    def _is_result(self, envelope: Envelope) -> bool:
        return (
            not isinstance(envelope.method, str)
            and envelope.id == self._id
            and envelope.error is ABSENT
            and envelope.result is not ABSENT
        )

    def _refuse(self, reason: str) -> None:
        self._transport.deliver(encode_failure(self._id, InvalidRequest(reason)))


def _version(envelope: Envelope) -> int:
    try:
        result: Any = parse_json(envelope.result)
    except NotJson as error:
        raise Mismatch("result", str(error)) from None
    version: Any = cast("dict[str, Any]", result).get("protocolVersion") if isinstance(result, dict) else None
    return version if isinstance(version, int) else 1


def requesting(transport: Transport, *, only: bool, events: bool = True) -> TranslatingTransport:
    """Return the transport of a client that asks for version 2.

    Without `events`, the client gets only what version 1 has.
    """
    translating = TranslatingTransport(transport)
    translating.translator = VersionRequest(translating, only=only, events=events)
    return translating
