"""How WebSockets are refused and lost, and whether another one may take the place of one that was."""

from msgspec import Struct
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus, PayloadTooBig

from accord.wire.remote.sentences import FINAL_CODES, close_sentence, error_sentence, status_sentence


class Loss(Struct, frozen=True):
    """How a socket ended, and whether another one may take its place."""

    reason: str
    final: bool = False


class Refused(Exception):
    """The handshake did not lead to a WebSocket."""

    def __init__(self, reason: str, *, final: bool) -> None:
        super().__init__(reason)
        self.final = final


def refusal_of(websocket: ClientProtocol, error: Exception | None) -> Refused:
    """Why there is no WebSocket."""
    found = websocket.handshake_exc
    if isinstance(found, InvalidStatus):
        status = found.response.status_code
        final = status < 500 and status != 429
        return Refused(status_sentence(status, bytes(found.response.body or b"")), final=final)
    if isinstance(found, InvalidHandshake) and not isinstance(found.__cause__, EOFError):
        return Refused(f"what is there is no ACP server over WebSocket: {error_sentence(found)}", final=True)
    if error is not None:
        return Refused(error_sentence(error), final=False)
    return Refused("it hung up before a WebSocket was opened", final=False)


def loss_of(websocket: ClientProtocol, error: Exception | None) -> Loss:
    """Why there is one no longer."""
    found = websocket.parser_exc
    if isinstance(found, PayloadTooBig):
        return Loss(
            f"the server sent a message over the limit of {websocket.max_message_size} bytes", final=True
        )
    if found is not None and not isinstance(found, EOFError):
        return Loss(f"the server broke the WebSocket protocol: {error_sentence(found)}", final=True)
    said = websocket.close_rcvd
    if said is not None:
        return Loss(close_sentence(said.code, said.reason), final=said.code in FINAL_CODES)
    how = f": {error_sentence(error)}" if error is not None else ""
    return Loss(f"the connection broke off{how}")
