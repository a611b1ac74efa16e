"""What the messages of a WebSocket mean to the front: the first one, those about the line itself, those that are none."""

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.errors import InvalidParams, InvalidRequest, NotFound, RpcError
from accord.gateway.access.limits import LimitReached
from accord.gateway.front.line import POLICY, PROTOCOL_ERROR
from accord.gateway.front.socketline import SocketLine
from accord.gateway.line import Outgoing
from accord.schema.codec import encode
from accord.wire.envelope import (
    ABSENT,
    Envelope,
    NoMessage,
    Notification,
    RequestId,
    Success,
    decode_envelope,
    encode_failure,
    id_of_call,
    second_look,
)

if TYPE_CHECKING:
    from accord.gateway.front.websocket import WebSocket

RESUME: Final = "_accord/resume"
ACK: Final = "_accord/ack"


class Resume(Struct, rename="camel"):
    """Where a client that comes back stopped."""

    connection_id: str
    received: int


class Ack(Struct):
    """How many messages the other side has."""

    received: int


_read_resume = msgspec.json.Decoder(Resume).decode
_read_ack = msgspec.json.Decoder(Ack).decode


class Conversation:
    """Sorts the messages of one socket; what is ACP goes to the line as it came."""

    def __init__(self, socket: "WebSocket") -> None:
        self._socket = socket
        self.fresh = True
        """Neither `initialize` nor a resume has come."""

    def take(self, messages: list[bytes]) -> None:
        """Messages in order. Stops where the socket is closed."""
        socket = self._socket
        forward: list[bytes] = []
        for message in messages:
            try:
                envelope = read_envelope(message)
            except NoMessage as error:
                self._count(len(message))
                self._answer(error.id, RpcError.of(error.code, error.sentence, error.reason))
                continue
            if envelope.method in (RESUME, ACK):
                socket.line.deliver(forward)
                forward = []
                self._own(envelope)
            elif self.fresh and not self._begins(envelope):
                break
            elif envelope.method == "initialize" and socket.line.initialized and envelope.id is not UNSET:
                self._count(len(message))
                self._answer(envelope.id, InvalidRequest(data="this connection is initialized already"))
            else:
                socket.line.initialized = True
                self._count(len(message))
                forward.append(message)
            if socket.line.over:
                return
        if forward:
            socket.line.deliver(forward)

    def _begins(self, envelope: Envelope) -> bool:
        """Whether the first message is `initialize`, and there is room for the line."""
        line = self._socket.line
        if envelope.method != "initialize" or envelope.id is UNSET:
            line.end(PROTOCOL_ERROR, "the first message must be initialize")
            return False
        try:
            self._socket.premises.lines.settle(line)
        except LimitReached as error:
            self._socket.premises.metrics.refused["connections"] += 1
            self._answer(envelope.id, error)
            line.end(POLICY, error.message)
            return False
        self.fresh = False
        return True

    def _count(self, size: int) -> None:
        line = self._socket.line
        if line.count(size):
            self._socket.say(encode(Notification(ACK, {"received": line.received})))

    def _answer(self, id: RequestId, error: RpcError) -> None:
        self._socket.line.send(Outgoing(encode_failure(id, error)), None)

    def _own(self, envelope: Envelope) -> None:
        """A message about the line itself; it is not counted and has no number."""
        socket, id = self._socket, id_of_call(envelope)
        params = envelope.params if envelope.params is not ABSENT else Raw(b"null")
        try:
            if envelope.method == ACK:
                if not socket.line.acknowledged(_read_ack(params).received):
                    raise InvalidParams(data="more messages are acknowledged than were sent")
                return
            if not self.fresh:
                raise InvalidRequest(data=f"{RESUME} comes before anything else")
            answer = self._resume(_read_resume(params))
        except (msgspec.MsgspecError, ValueError) as error:
            self._refuse(id, InvalidParams(data=f"{envelope.method}: {error}"))
        except RpcError as error:
            self._refuse(id, error)
        else:
            socket.say(encode(Success(id, answer)))
            socket.line.flush()

    def _refuse(self, id: RequestId, error: RpcError) -> None:
        socket = self._socket
        if id is not None:
            socket.say(encode_failure(id, error))
        if self.fresh:
            socket.line.end(POLICY, "there is nothing to resume: initialize, then load the session")

    def _resume(self, wish: Resume) -> dict[str, object]:
        """Carry the line the client had. Raises NotFound, and nothing has happened then."""
        socket = self._socket
        lines, own = socket.premises.lines, socket.line
        line = lines.find(SocketLine, wish.connection_id, socket.visa)
        if line is None or line is own or not line.initialized or line.agent != own.agent:
            raise NotFound("No such connection", {"connectionId": wish.connection_id[:64]})
        missing = line.missing(wish.received)
        if missing is None:
            raise NotFound("That many messages were never sent", {"received": wish.received})
        if missing:
            raise NotFound("The messages that were missed are no longer kept", {"missing": missing})
        former = line.outlet
        own.drop(socket)
        own.end(POLICY, "the client took up an earlier connection")
        if former is not None:
            line.drop(former)
            former.close(POLICY, "the client came back on another socket")
        self.fresh = False
        socket.line = line
        line.resumed()
        line.attach(socket, wish.received)
        lines.metrics.resumed += 1
        return {"connectionId": line.id, "received": line.received}


def read_envelope(message: bytes) -> Envelope:
    """One message. Raises NoMessage."""
    try:
        return decode_envelope(message)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return second_look(message)
