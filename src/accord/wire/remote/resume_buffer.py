"""What a WebSocket client remembers so that a dropped connection can go on: counts, and the frames nobody has confirmed.

Both sides count the text frames they got on a connection; confirmations and the words of coming back do not count. Only a
server that announces it is spoken to in this way. Pure: frames in, frames out.
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
"""After so many frames, or bytes, what arrived is confirmed."""

MOST_FRAMES: Final = 65_536
MOST_BYTES: Final = 64 * 1024 * 1024
"""What is kept at most; beyond it the oldest goes, and with it the way back."""

_ACK_MARK: Final = ACK.encode()
_ACK_LONGEST: Final = 512


class ResumeFailed(Exception):
    """The connection cannot be had back; the message says why."""


class ResumeBuffer:
    """The book of one connection, over all sockets that carry it."""

    def __init__(self) -> None:
        self.received = 0
        self._known = False  # whether the server has said what it can do
        self._announced = False
        self._initialize: Any = None  # the id of that request
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._first = 0  # the number of the first frame that is kept
        self._unconfirmed = 0  # frames received since the last confirmation, and their bytes
        self._unconfirmed_bytes = 0

    @property
    def resumable(self) -> bool:
        """Whether the server has announced that a connection can be had back."""
        return self._announced

    def sent(self, frame: bytes) -> None:
        """A frame goes to the server, now or later."""
        if not self._announced:
            if self._known:
                return
            if self._initialize is None:
                self._initialize = _id_of_initialize(frame)
                self._known = self._initialize is None
                if self._known:
                    return
        self._kept.append(frame)
        self._kept_bytes += len(frame)
        while len(self._kept) > MOST_FRAMES or self._kept_bytes > MOST_BYTES:
            self._forget_one()

    def heard(self, frames: list[bytes]) -> list[bytes]:
        """Frames came from the server; those that are for the application."""
        if not self._known:
            for frame in frames:
                self._look_for_announcement(frame)
        if not self._announced:
            self.received += len(frames)
            return frames
        theirs = [frame for frame in frames if not self._is_ack(frame)]
        self.received += len(theirs)
        self._unconfirmed += len(theirs)
        self._unconfirmed_bytes += sum(map(len, theirs))
        return theirs

    def confirmation(self) -> bytes | None:
        """What to tell the server about what has arrived, if it is time for that."""
        if not self._announced or (self._unconfirmed < ACK_FRAMES and self._unconfirmed_bytes < ACK_BYTES):
            return None
        self._unconfirmed = self._unconfirmed_bytes = 0
        return encode({"jsonrpc": "2.0", "method": ACK, "params": {"received": self.received}})

    def request(self, connection_id: str) -> bytes:
        """The first frame on a new socket."""
        params = {"connectionId": connection_id, "received": self.received}
        self._unconfirmed = self._unconfirmed_bytes = 0
        return encode({"jsonrpc": "2.0", "id": RESUME_ID, "method": RESUME, "params": params})

    def missed(self, answer: bytes) -> list[bytes]:
        """The frames that the server has not got, by its answer to `request`. Raises Gone."""
        told = _parsed(answer)
        if told.get("id") != RESUME_ID:
            raise ResumeFailed("the server did not answer the request to go on")
        if "error" in told:
            said = one_line(str(_member(told["error"], "message")))
            raise ResumeFailed(f"the server no longer has the connection: {said}")
        received = _count(told.get("result"))
        if received is None or received > self._first + len(self._kept):
            raise ResumeFailed("the server cannot say what it has received")
        if received < self._first:
            raise ResumeFailed(f"{self._first - received} messages that the server missed are no longer here")
        self._confirmed(received)
        return list(self._kept)

    def _is_ack(self, frame: bytes) -> bool:
        if len(frame) > _ACK_LONGEST or _ACK_MARK not in frame:
            return False
        told = _parsed(frame)
        if told.get("method") != ACK or "id" in told:
            return False
        received = _count(told.get("params"))
        if received is not None and received <= self._first + len(self._kept):
            self._confirmed(received)
        return True

    def _confirmed(self, received: int) -> None:
        while self._first < received:
            self._forget_one()

    def _forget_one(self) -> None:
        self._kept_bytes -= len(self._kept.popleft())
        self._first += 1

    def _look_for_announcement(self, frame: bytes) -> None:
        if self._known:
            return
        told = _parsed(frame)
        if "method" in told or told.get("id") != self._initialize:
            return
        self._known = True
        self._announced = _announces(told)
        if not self._announced:
            self._kept.clear()
            self._kept_bytes = 0


def announces_return(welcome: bytes) -> bool:
    """Whether the server's answer to `initialize` says that a connection to it can be had back."""
    return _announces(_parsed(welcome))


def _announces(told: dict[str, Any]) -> bool:
    found: Any = told.get("result")
    for name in ("agentCapabilities", "_meta", "accord", "resume", "version"):
        found = _member(found, name)
    return type(found) is int and found == 1


def _parsed(frame: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _count(value: Any) -> int | None:
    number = _member(value, "received")
    return number if type(number) is int and number >= 0 else None


def _id_of_initialize(frame: bytes) -> Any:
    told = _parsed(frame)
    return told.get("id") if told.get("method") == "initialize" else None
