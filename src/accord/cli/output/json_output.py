"""`--format json`: one object per line, as in `events.schema.json`; and `--format quiet`: only the answer.

Version 1 may add members and types. It does not rename or remove one, and does not change its meaning. JSON
output is not cleaned, so that nothing is lost, but characters that a terminal or an editor could act on are
escaped.

Imported on first use: it loads accord.client.
"""

import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from accord.cli.command_parser import json_escape, json_text
from accord.cli.output.output_sink import OutputStream, error_text, note_line
from accord.cli.output_schema import OutputMismatch
from accord.client.client_events import (
    AgentEnded,
    AgentRestarted,
    ClientEvent,
    SessionLost,
    SessionReattached,
    TerminalPrinted,
)
from accord.clock import Clock
from accord.errors import AccordError, ConnectionClosed, RpcError
from accord.frontend.display_text import block_text
from accord.safe_text import clean_text
from accord.schema import Notice, Unknown
from accord.schema.codec import encode, to_builtins
from accord.session import (
    Message,
    PermissionAnswered,
    PermissionAsked,
    ToolCallChanged,
    ToolCallState,
    TurnEnded,
    TurnStarted,
)

if TYPE_CHECKING:
    from accord.client import ClientSession, RemoteAgent


VERSION: Final = 1

_UNSAFE: Final = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_CALL_MEMBERS: Final = ("toolCallId", "title", "kind", "status", "name", "locations", "mark")


class JsonOutput:
    """`--format json`."""

    def __init__(
        self, stdout: OutputStream, stderr: OutputStream, clock: Clock, wall: Callable[[], float] = time.time
    ) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._clock = clock
        self._wall = wall
        self._session: ClientSession | None = None
        self._began = clock.now()
        self._finished = False

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        self._session = session
        self._began = self._clock.now()
        settings = session.state.settings
        info = agent.info
        self._stdout.write(
            self._format_line(
                "opened",
                {
                    "agent": {"name": agent.name} if info is None else to_builtins(info),
                    "cwd": session.state.cwd,
                    "additionalDirectories": list(session.state.additional_directories),
                    "mode": settings.current_mode_id,
                    "configOptions": to_builtins(settings.config_options),
                },
            )
        )

    def event(self, event: ClientEvent) -> None:
        kind, members = _members(event)
        self._stdout.write(self._format_line(kind, members))

    def note(self, text: str) -> None:
        if not self._finished:  # the result is the last line
            self._stdout.try_write(self._format_line("note", {"text": text}))
        self._stderr.try_write(note_line(text))

    @contextmanager
    def question(self) -> Generator[None]:
        yield

    def prompt(self, text: str) -> None:
        self._stdout.prompt = self._stderr.prompt = text

    def finished(
        self, ended: TurnEnded | None, error: AccordError | None, exit_code: int, value: Any = UNSET
    ) -> None:
        session = self._session
        usage = None if session is None else session.state.usage
        self._finished = True
        self._stdout.try_write(
            self._format_line(
                "result",
                {
                    "stopReason": None if ended is None else ended.stop_reason,
                    "rawReason": "" if ended is None else ended.raw_reason,
                    "text": final_answer(session),
                    **({} if value is UNSET else {"output": value}),
                    "usage": None if ended is None or ended.usage is None else to_builtins(ended.usage),
                    "context": None if usage is None else _without_tag(to_builtins(usage)),
                    "error": None if error is None else _error_members(error),
                    "durationMs": round((self._clock.now() - self._began) * 1000),
                    "exitCode": exit_code,
                },
            )
        )
        if error is not None:
            self._stderr.try_write(error_text(error))

    def _format_line(self, kind: str, members: Mapping[str, Any]) -> str:
        time_text = datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="milliseconds")
        session = None if self._session is None else self._session.id
        header = {"v": VERSION, "type": kind, "at": time_text.replace("+00:00", "Z"), "session": session}
        text = encode({**header, **members}).decode()
        return _UNSAFE.sub(lambda match: json_escape(match[0]), text) + "\n"


def _members(event: ClientEvent) -> tuple[str, Mapping[str, Any]]:
    """Return the type and the members of an event's line."""
    match event:
        case Unknown():
            return "unknown", {"kind": event.kind, "update": event.raw}
        case ToolCallChanged():
            return "tool_call_changed", {
                "toolCallId": event.patch.tool_call_id,
                "change": to_builtins(event.patch),
                "call": _call_summary(event.call),
                "new": event.new,
            }
        case PermissionAsked():
            members = _without_tag(to_builtins(event))
            call = event.call
            return "permission_asked", {**members, "call": None if call is None else _call_summary(call)}
        case PermissionAnswered():
            return "permission_answered", {"option": None, **_without_tag(to_builtins(event))}
        case TurnStarted():
            return "turn_started", {"prompt": to_builtins(event.prompt)}
        case TurnEnded():
            blank = {"stopReason": None, "rawReason": "", "usage": None, "error": None}
            return "turn_ended", {**blank, **_without_tag(to_builtins(event))}
        case AgentEnded():
            return "agent_ended", {
                "message": event.error.message,
                "exitCode": event.exit_code,
                "signal": event.signal,
                "stderr": event.stderr,
            }
        case AgentRestarted():
            return "agent_restarted", {"attempt": event.attempt}
        case SessionReattached():
            return "session_reattached", {"by": event.by}
        case SessionLost():
            return "session_lost", {"reason": event.reason}
        case TerminalPrinted():
            return "terminal_printed", {"terminalId": event.terminal_id, "text": event.text}
        case _:
            members = to_builtins(event)
            kind = members["sessionUpdate"].removeprefix("_accord/")
            return kind, _without_tag(members)


def _without_tag(members: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != "sessionUpdate"}


def _call_summary(call: ToolCallState) -> dict[str, Any]:
    """Return the state of the call without large members: those are only in `change`."""
    members = {"title": "", "kind": "other", "status": "pending", "mark": ""} | to_builtins(call)
    return {key: members[key] for key in _CALL_MEMBERS if key in members}


def _error_members(error: AccordError) -> dict[str, Any]:
    members: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, RpcError):
        members |= {"code": error.code, "message": error.message}
        if error.has_data:
            members["data"] = error.data
    if isinstance(error, ConnectionClosed):
        members |= {"exitCode": error.exit_code, "signal": error.signal, "stderr": error.stderr}
    return members


class QuietOutput:
    """`--format quiet`: the agent's last message on stdout, notes and errors on stderr."""

    def __init__(self, stdout: OutputStream, stderr: OutputStream) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._session: ClientSession | None = None
        self._last_warning = ""

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        self._session = session

    def event(self, event: ClientEvent) -> None:
        if isinstance(event, Notice) and event.severity == "warning":
            self._last_warning = event.text

    def note(self, text: str) -> None:
        self._stderr.try_write(note_line(text))

    @contextmanager
    def question(self) -> Generator[None]:
        yield

    def prompt(self, text: str) -> None:
        self._stdout.prompt = self._stderr.prompt = text

    def finished(
        self, ended: TurnEnded | None, error: AccordError | None, exit_code: int, value: Any = UNSET
    ) -> None:
        answer = clean_text(final_answer(self._session)).strip("\n")
        if value is not UNSET:
            answer = json_text(value)
        elif isinstance(error, OutputMismatch):
            answer = ""  # a program reads it
        if answer and ended is not None:
            self._stdout.try_write(f"{answer}\n")
        if ended is not None and ended.stop_reason == "max_turn_requests" and self._last_warning:
            self.note(self._last_warning.replace("\n", ": ", 1))  # it names the limit
        if error is not None:
            self._stderr.try_write(error_text(error))


def final_answer(session: "ClientSession | None") -> str:
    """Return the agent's last message in the latest turn, or "" if there is none."""
    if session is None:
        return ""
    for entry in reversed(session.state.history.latest_turn):
        if isinstance(entry, Message) and entry.kind == "agent":
            text = "".join(map(block_text, entry.blocks))
            if text.strip():
                return text
    return ""
