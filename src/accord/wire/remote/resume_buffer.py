"""The unconfirmed frames and counters of a WebSocket client, so that a dropped connection can be resumed.

Both sides count the text frames they received on a connection, except confirmations and the resume request
itself. Used only with servers that announce it. No I/O: frames in, frames out.
"""

from collections import deque
from typing import Any, Final, cast

import msgspec

from accord.safe_text import one_line
from accord.schema.codec import encode

RESUME: Final = "_accord/resume"
ACK: Final = "_accord/ack"
RESUME_ID: Final = "accord-resume"

ACK_FRAMES: Final = 64
ACK_BYTES: Final = 1024 * 1024
"""Received frames are confirmed after this many frames or bytes."""

MAX_KEPT_FRAMES: Final = 65_536
MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""The most that is kept. Beyond it the oldest frames are dropped, and the connection may not be resumable."""

_ACK_METHOD_BYTES: Final = ACK.encode()
_MAX_ACK_BYTES: Final = 512


class ResumeFailed(Exception):
    """The connection cannot be resumed; the message says why."""


class ResumeBuffer:
    """The frames and counters of one connection, across all its sockets."""

    def __init__(self) -> None:
        self.received: int = 0
        self._announcement_read = False  # whether the server has announced what it supports
        self._resumable = False
        self._initialize_id: Any = None  # the id of the `initialize` request
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._first_kept_number = 0  # the number of the first kept frame
        self._unconfirmed_frames = 0  # frames received since the last confirmation, and their bytes
        self._unconfirmed_bytes = 0

    @property
    def resumable(self) -> bool:
        """Whether the server has announced that connections can be resumed."""
        return self._resumable

    def keep(self, frame: bytes) -> None:
        """Keep a frame that goes to the server, now or later."""
        if not self._resumable:
            if self._announcement_read:
                return
            if self._initialize_id is None:
                self._initialize_id = _id_of_initialize(frame)
                self._announcement_read = self._initialize_id is None
                if self._announcement_read:
                    return
        self._kept.append(frame)
        self._kept_bytes += len(frame)
        while len(self._kept) > MAX_KEPT_FRAMES or self._kept_bytes > MAX_KEPT_BYTES:
            self._drop_oldest()

    def receive(self, frames: list[bytes]) -> list[bytes]:
        """Count frames from the server; return those that are for the application."""
        if not self._announcement_read:
            for frame in frames:
                self._read_announcement(frame)
        if not self._resumable:
            self.received += len(frames)
            return frames
        messages = [frame for frame in frames if not self._is_ack(frame)]
        self.received += len(messages)
        self._unconfirmed_frames += len(messages)
        self._unconfirmed_bytes += sum(map(len, messages))
        return messages

    def take_confirmation(self) -> bytes | None:
        """Return the confirmation for the server when one is due, else None."""
        if not self._resumable or (
            self._unconfirmed_frames < ACK_FRAMES and self._unconfirmed_bytes < ACK_BYTES
        ):
            return None
        self._unconfirmed_frames = self._unconfirmed_bytes = 0
        return encode({"jsonrpc": "2.0", "method": ACK, "params": {"received": self.received}})

    def resume_request(self, connection_id: str) -> bytes:
        """Return the resume request, the first frame on a new socket."""
        params = {"connectionId": connection_id, "received": self.received}
        self._unconfirmed_frames = self._unconfirmed_bytes = 0
        return encode({"jsonrpc": "2.0", "id": RESUME_ID, "method": RESUME, "params": params})

    def frames_to_resend(self, response: bytes) -> list[bytes]:
        """Return the frames that the server missed, according to its response. Raises ResumeFailed."""
        message = _parse(response)
        if message.get("id") != RESUME_ID:
            raise ResumeFailed("the server did not answer the resume request")
        if "error" in message:
            reason = one_line(str(_member(message["error"], "message")))
            raise ResumeFailed(f"the server no longer has the connection: {reason}")
        received = _read_received(message.get("result"))
        if received is None or received > self._first_kept_number + len(self._kept):
            raise ResumeFailed("the server sent an invalid count of received messages")
        if received < self._first_kept_number:
            raise ResumeFailed(
                f"{self._first_kept_number - received} messages that the server missed are no longer kept"
            )
        self._drop_confirmed(received)
        return list(self._kept)

    def _is_ack(self, frame: bytes) -> bool:
        if len(frame) > _MAX_ACK_BYTES or _ACK_METHOD_BYTES not in frame:
            return False
        message = _parse(frame)
        if message.get("method") != ACK or "id" in message:
            return False
        received = _read_received(message.get("params"))
        if received is not None and received <= self._first_kept_number + len(self._kept):
            self._drop_confirmed(received)
        return True

    def _drop_confirmed(self, received: int) -> None:
        while self._first_kept_number < received:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._kept_bytes -= len(self._kept.popleft())
        self._first_kept_number += 1

    def _read_announcement(self, frame: bytes) -> None:
        if self._announcement_read:
            return
        message = _parse(frame)
        if "method" in message or message.get("id") != self._initialize_id:
            return
        self._announcement_read = True
        self._resumable = _announces_resume(message)
        if not self._resumable:
            self._kept.clear()
            self._kept_bytes = 0


def announces_resume(response: bytes) -> bool:
    """Return whether the response to `initialize` announces that connections can be resumed."""
    return _announces_resume(_parse(response))


def _announces_resume(message: dict[str, Any]) -> bool:
    value: Any = message.get("result")
    for name in ("agentCapabilities", "_meta", "accord", "resume", "version"):
        value = _member(value, name)
    return type(value) is int and value == 1


def _parse(frame: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _read_received(value: Any) -> int | None:
    number = _member(value, "received")
    return number if type(number) is int and number >= 0 else None


def _id_of_initialize(frame: bytes) -> Any:
    message = _parse(frame)
    return message.get("id") if message.get("method") == "initialize" else None
