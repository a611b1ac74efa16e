"""The format of a recording: one JSON object per line, as described in docs/trace.md.

Writing and reading, no I/O. A recording contains runs. A run begins with a start line. Every line names its
run, so that several programs can append to one file. A JSON frame is stored byte for byte, unless it is
redacted.
"""

import base64
from collections.abc import Sequence
from typing import Final, Literal, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.schema.codec import NotJson, parse_json
from accord.trace.redaction import has_unique_keys, redact_command, redact_frame, redact_value
from accord.trace.secret_names import REDACTED
from accord.trace.text_redaction import StderrRedactor, redact_text
from accord.wire.envelope import Message
from accord.wire.transport import Frame

VERSION: Final = 1

_FRAME: Final = b'{"run":"%b","t":%.6f,"from":"%b","size":%d,"frame":%b}\n'
_decode = msgspec.json.Decoder().decode

Side = Literal["client", "agent"]
Sender = Literal["client", "agent", "stderr"]
Kind = Literal["frame", "cut", "stderr", "closed", "exit", "lost"]


class TraceStart(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The first line of a run: when it started, which program recorded it (`by`), and the agent's command."""

    accord_trace: int
    run: str
    started: str
    by: str = ""
    command: tuple[str, ...] = ()
    redacted: bool = True


class TraceEntry(Struct, frozen=True, kw_only=True):
    """One entry, `at` seconds after the start of its run.

    `kind` is "frame" (a message), "cut" (a message too long to record: `data` is its beginning), "stderr" (a
    line of the agent's stderr), "closed" (a side closed its output), "exit" (the agent's exit) or "lost" (the
    recorder was too slow: `size` bytes in `count` pieces are missing).
    """

    run: str = ""
    at: float = 0.0
    kind: Kind
    sender: Sender | None = None
    data: bytes = b""
    size: int = 0
    redacted: bool = False
    reason: str = ""
    code: int | None = None
    signal: str | None = None
    count: int = 0

    @property
    def message(self) -> Message | None:
        """The frame as a JSON object, or None if it is not one."""
        return parse_message(self.data) if self.kind == "frame" else None

    @property
    def text(self) -> str:
        """The data as text."""
        return self.data.decode("utf-8", "replace")


class DamagedLine(Struct, frozen=True):
    """A line that is not part of a recording: cut off if it is not `complete`, or of a `newer` version."""

    line: bytes
    reason: str
    complete: bool = True
    newer: int = 0


def parse_message(frame: Frame) -> Message | None:
    """Parse a frame; None if it is oversized or not a JSON object."""
    try:
        value = parse_json(frame) if isinstance(frame, bytes) else None
    except NotJson:
        return None
    return cast(Message, value) if isinstance(value, dict) else None


def start_line(start: TraceStart) -> bytes:
    """Encode the start of a run as a line."""
    return msgspec.json.encode(start) + b"\n"


def make_start(
    run: str, started: str, *, by: str, command: Sequence[str] = (), redact: bool = True
) -> TraceStart:
    """Return the start of a run, with the command line redacted."""
    recorded_command = redact_command(command) if redact else command
    return TraceStart(
        accord_trace=VERSION,
        run=run,
        started=started,
        by=by,
        command=tuple(word.encode(errors="replace").decode() for word in recorded_command),
        redacted=redact,
    )


def frame_entry(at: float, sender: Side, frame: Frame, *, run: str = "", redact: bool = True) -> TraceEntry:
    if not isinstance(frame, bytes):
        # Keep only complete strings of the beginning: a secret that is cut off cannot be recognized.
        head = frame.head[: frame.head.rfind(b'"') + 1] if b'"' in frame.head else b""
        redacted_data = redact_frame(head) if redact else frame.head
        return TraceEntry(run=run, at=at, kind="cut", sender=sender, data=redacted_data, size=frame.size)
    redacted_data = redact_frame(frame) if redact else frame
    return TraceEntry(
        run=run,
        at=at,
        kind="frame",
        sender=sender,
        data=redacted_data,
        size=len(frame),
        redacted=redacted_data is not frame,
    )


def frame_line(at: float, sender: Side, frame: Frame, *, run: str, redact: bool = True) -> bytes:
    """Encode a frame as a line: like `entry_line(entry_of(...))`, but fast for JSON without secrets."""
    if redact and isinstance(frame, bytes):
        try:
            value = _decode(frame)
            if redact_value(value) is value and b"\n" not in frame and has_unique_keys(frame, value):
                return _FRAME % (run.encode(), at, sender.encode(), len(frame), frame)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass
    return entry_line(frame_entry(at, sender, frame, run=run, redact=redact))


def stderr_entry(
    at: float, line: bytes, *, run: str = "", redact: bool = True, redactor: StderrRedactor | None = None
) -> TraceEntry:
    """Return the entry of a line of the agent's stderr. `redactor` has processed the lines before it."""
    text = line.decode("utf-8", "replace")
    redacted_text = text
    if redact:
        redacted_text = REDACTED if redactor is not None and redactor.must_redact(text) else redact_text(text)
    return TraceEntry(
        run=run,
        at=at,
        kind="stderr",
        sender="stderr",
        data=redacted_text.encode(),
        size=len(line),
        redacted=redacted_text != text,
    )


def entry_line(entry: TraceEntry) -> bytes:
    """Encode an entry as a line."""
    head = b'{"run":"%b","t":%.6f' % (entry.run.encode(), entry.at)
    match entry.kind:
        case "frame" | "cut" | "stderr":
            body = b',"from":"%b","size":%d%b' % (
                (entry.sender or "").encode(),
                entry.size,
                b',"redacted":true' if entry.redacted else b"",
            )
            return b'%b%b,"%b":%b}\n' % (head, body, *_encode_payload(entry))
        case "closed":
            rest = {"closed": entry.sender, "reason": entry.reason}
        case "exit":
            rest = {"exit": {"code": entry.code, "signal": entry.signal}}
        case "lost":
            rest = {"lost": {"from": entry.sender, "pieces": entry.count, "bytes": entry.size}}
    return b"%b,%b\n" % (head, msgspec.json.encode(rest)[1:])


def _encode_payload(entry: TraceEntry) -> tuple[bytes, bytes]:
    data = entry.data
    if entry.kind == "frame" and _is_json(data):
        return b"frame", data
    try:
        text = data.decode()
    except UnicodeDecodeError:
        if entry.kind == "frame":
            return b"base64", b'"%b"' % base64.b64encode(data)
        text = data.decode("utf-8", "replace")
    return b"head" if entry.kind == "cut" else b"text", msgspec.json.encode(text)


_raw_decoder = msgspec.json.Decoder(Raw)


def _is_json(data: bytes) -> bool:
    try:
        _raw_decoder.decode(data)
        return b"\n" not in data and (data.isascii() or bool(data.decode()))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


class _Exit(Struct):
    code: int | None = None
    signal: str | None = None


class _Lost(Struct, rename={"sender": "from"}):
    sender: Sender | None = None
    pieces: int = 0
    bytes: int = 0


class _RecordedLine(Struct, rename={"sender": "from", "accord_trace": "accordTrace"}):
    accord_trace: int | UnsetType = UNSET
    run: str = ""
    t: float = 0.0
    sender: Sender | None = None
    size: int = 0
    redacted: bool = False
    frame: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    head: str | UnsetType = UNSET
    closed: Side | UnsetType = UNSET
    reason: str = ""
    exit: _Exit | UnsetType = UNSET
    lost: _Lost | UnsetType = UNSET


_decode_line = msgspec.json.Decoder(_RecordedLine).decode
_decode_start = msgspec.json.Decoder(TraceStart).decode


def parse_line(line: bytes) -> TraceStart | TraceEntry | DamagedLine | None:
    """Parse one line without its line end. Returns None for a blank line or an unknown kind."""
    if not line.strip():
        return None
    try:
        recorded = _decode_line(line)
        if recorded.accord_trace is not UNSET:
            if recorded.accord_trace > VERSION:
                return DamagedLine(line, "", newer=recorded.accord_trace)
            return _decode_start(line)
        return _make_entry(recorded)
    except (msgspec.MsgspecError, ValueError) as error:
        return DamagedLine(line, str(error))
    except RecursionError:
        return DamagedLine(line, "nested too deeply")


def _make_entry(line: _RecordedLine) -> TraceEntry | None:
    run, at = line.run, line.t
    if line.closed is not UNSET:
        return TraceEntry(run=run, at=at, kind="closed", sender=line.closed, reason=line.reason)
    if line.exit is not UNSET:
        return TraceEntry(run=run, at=at, kind="exit", code=line.exit.code, signal=line.exit.signal)
    if line.lost is not UNSET:
        lost = line.lost
        return TraceEntry(run=run, at=at, kind="lost", sender=lost.sender, count=lost.pieces, size=lost.bytes)
    if line.head is not UNSET:
        data, kind = line.head.encode(), "cut"
    elif line.frame is not UNSET:
        data, kind = bytes(line.frame), "frame"
    elif line.base64 is not UNSET:
        data, kind = base64.b64decode(line.base64), "frame"
    elif line.text is not UNSET:
        data, kind = line.text.encode(), "frame" if line.sender != "stderr" else "stderr"
    else:
        return None
    if line.sender is None:
        return None
    size = line.size or len(data)
    return TraceEntry(
        run=run, at=at, kind=kind, sender=line.sender, data=data, size=size, redacted=line.redacted
    )
