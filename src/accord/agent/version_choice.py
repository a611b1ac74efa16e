"""Chooses the protocol version of a connection from the client's `initialize`.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from typing import Any, cast

from accord.errors import UNSUPPORTED_VERSION, InvalidParams, RpcError
from accord.schema.codec import NotJson, parse_json
from accord.wire.envelope import InvalidMessage, encode_failure, parse_envelope
from accord.wire.translation import TranslatingTransport
from accord.wire.transport import Frame, Transport


class VersionChoice:
    """Passes frames on until `initialize` has chosen a version, and then puts its translator in place.

    Version 1 needs none: before `initialize`, it refuses everything else. The agent itself always sees
    version 1.
    """

    def __init__(
        self, transport: TranslatingTransport, versions: tuple[int, ...], *, strict: bool = False
    ) -> None:
        self.version: int = 0
        """The chosen version; 0 until then."""
        self._transport = transport
        self._versions = versions
        self._strict = strict

    def receive(self, frame: Frame) -> None:
        """Handle a frame of a client that has not said its version yet."""
        params, id = initialize_params(frame)
        requested = params.get("protocolVersion") if params is not None else None
        if not isinstance(requested, int) or isinstance(requested, bool):
            self._transport.deliver(frame)
            return
        choice = max((version for version in self._versions if version <= requested), default=0)
        if requested < 0:
            self._transport.transmit(
                encode_failure(id, InvalidParams(f"protocolVersion: {requested} is below 0"))
            )
        elif choice == 0:
            data = {"requested": requested, "supported": sorted(self._versions)}
            error = RpcError("Unsupported protocol version", data, code=UNSUPPORTED_VERSION)
            self._transport.transmit(encode_failure(id, error))
        elif choice == 1 or (1 in self._versions and not self._strict and is_version_1(params)):
            self._choose(1, frame)
        else:
            self._choose(2, frame)

    def send(self, frame: bytes) -> None:
        """Send a frame, such as an error, before a version is chosen."""
        self._transport.transmit(frame)

    def ended(self) -> None:
        """Nothing is left to do."""

    def _choose(self, version: int, frame: Frame) -> None:
        self.version = version
        self._transport.translator = None
        if version == 1:
            self._transport.deliver(frame)
            return
        from accord.agent.protocol_v2 import AgentProtocolV2

        self._transport.translator = translator = AgentProtocolV2(self._transport, self._start_again)
        translator.receive(frame)

    def _start_again(self) -> None:
        """Choose again: the first `initialize` failed."""
        self.version = 0
        self._transport.translator = self


def versioned(transport: Transport, versions: tuple[int, ...], *, strict: bool) -> TranslatingTransport:
    """Return the transport of an agent that speaks these versions."""
    translating = TranslatingTransport(transport)
    translating.translator = VersionChoice(translating, versions, strict=strict)
    return translating


def initialize_params(frame: Frame) -> tuple[dict[str, Any] | None, Any]:
    """The parameters and the id of an `initialize` request; None for any other frame."""
    if not isinstance(frame, bytes) or b'"initialize"' not in frame:
        return None, None
    try:
        envelope = parse_envelope(frame)
        params = parse_json(envelope.params) if envelope.method == "initialize" else None
    except (InvalidMessage, NotJson):
        return None, None
    return (cast(dict[str, Any], params) if isinstance(params, dict) else None), envelope.id


def is_version_1(params: dict[str, Any] | None) -> bool:
    """Whether a request for version 2 has the members of version 1, and none of version 2."""
    members = (params or {}).keys()
    return bool(members & {"clientInfo", "clientCapabilities"}) and not members & {"info", "capabilities"}
