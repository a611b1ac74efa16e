"""Answers the agent's requests as a small but complete client, or as a case overrides it.

Files are real files in the folder of the case. Terminals are simulated: no command of an agent is run.
"""

from pathlib import Path
from typing import Any, Final, cast

from accord.check.checked_connection import Handler, Reply, Responder, error_reply, result_reply
from accord.check.mcp_server_program import mcp_result
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine
from accord.wire.envelope import Message

FORM_ANSWER: Final = "answer-in-the-form"
"""The text that the user enters into every form."""

METHODS_WITH_EFFECTS: Final = ("fs/write_text_file", "terminal/create")
"""The requests that have side effects."""


def select_option(option_id: Any) -> Message:
    """A permission answer that selects this option."""
    return result_reply({"outcome": {"outcome": "selected", "optionId": option_id}})


CANCELLED_REPLY: Final = result_reply({"outcome": {"outcome": "cancelled"}})


def find_option(line: WireLine, *kinds: str) -> str | None:
    """The id of the first option of one of these kinds, in order of preference."""
    for kind in kinds:
        for option in listed(line.params, "options"):
            if at(option, "kind") == kind and isinstance(at(option, "optionId"), str):
                return at(option, "optionId")
    return None


def allow(line: WireLine) -> Reply:
    """Select an option that allows, preferably once; cancel if there is none."""
    option_id = find_option(line, "allow_once", "allow_always")
    return CANCELLED_REPLY if option_id is None else select_option(option_id)


def reject(line: WireLine) -> Reply:
    """Select an option that rejects, preferably once; cancel if there is none."""
    option_id = find_option(line, "reject_once", "reject_always")
    return CANCELLED_REPLY if option_id is None else select_option(option_id)


_OUTSIDE_REPLY: Final = error_reply(-32602, "the path is outside the session's folders")
_NO_TERMINAL_REPLY: Final = error_reply(-32002, "terminal not found")
_MAX_FILE_BYTES: Final = 8 * 1024 * 1024


def _describe_error(failure: Exception) -> str:
    return getattr(failure, "strerror", None) or type(failure).__name__


def _is_regular_or_missing(path: Path) -> bool:
    """Whether it is a regular file or does not exist. A pipe would block, a folder cannot be written."""
    return path.is_file() or not path.exists()


class ClientResponder(Responder):
    """The client side of a case."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.keep_terminals_running = False
        """Whether terminals run until they are killed."""
        self.terminal_output = "checked\n"
        self.form_text = FORM_ANSWER
        self._terminals: dict[str, _Terminal] = {}
        self.pending_waits: list[tuple[WireLine, _Terminal]] = []
        """Pending `terminal/wait_for_exit` requests with their terminals."""
        self.handlers: dict[str, Handler] = {
            "session/request_permission": allow,
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
            "elicitation/create": self._elicit,
            "mcp/message": _answer_mcp,
        }

    def ready_replies(self) -> list[tuple[WireLine, Message]]:
        """Answers to pending requests whose terminals have ended."""
        ready = [(line, terminal) for line, terminal in self.pending_waits if not terminal.running]
        self.pending_waits = [(line, terminal) for line, terminal in self.pending_waits if terminal.running]
        return [(line, result_reply(terminal.status)) for line, terminal in ready]

    def _allowed_path(self, line: WireLine) -> Path | None:
        path = at(line.params, "path")
        if not isinstance(path, str) or not Path(path).is_absolute():
            return None
        try:
            resolved = Path(path).resolve()
        except (OSError, ValueError, RuntimeError):  # an invalid path, or a loop of links
            return None
        return resolved if resolved.is_relative_to(self.folder.resolve()) else None

    def _read(self, line: WireLine) -> Reply:
        path = self._allowed_path(line)
        if path is None:
            return _OUTSIDE_REPLY
        try:
            if not _is_regular_or_missing(path) or path.stat().st_size > _MAX_FILE_BYTES:
                return error_reply(-32603, f"not a file, or over {_MAX_FILE_BYTES} bytes")
            text = path.read_text("utf-8")
        except FileNotFoundError:
            return error_reply(-32002, "file not found")
        except (OSError, ValueError) as failure:
            return error_reply(-32603, f"the file cannot be read as text: {_describe_error(failure)}")
        first_line, limit = at(line.params, "line"), at(line.params, "limit")
        lines = text.splitlines(keepends=True)
        start = max(first_line, 1) - 1 if isinstance(first_line, int) else 0
        end = start + max(limit, 0) if isinstance(limit, int) else len(lines)
        return result_reply({"content": "".join(lines[start:end])})

    def _write(self, line: WireLine) -> Reply:
        path, text = self._allowed_path(line), at(line.params, "content")
        if path is None or not isinstance(text, str):
            return _OUTSIDE_REPLY if path is None else error_reply(-32602, "the content is not a string")
        try:
            if not _is_regular_or_missing(path):
                return error_reply(-32603, "not a regular file")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        except (OSError, ValueError) as failure:
            return error_reply(-32603, f"the file cannot be written: {_describe_error(failure)}")
        return result_reply({})

    def _create(self, line: WireLine) -> Reply:
        id = f"terminal-{len(self._terminals) + 1}"
        self._terminals[id] = _Terminal(running=self.keep_terminals_running)
        return result_reply({"terminalId": id})

    def _terminal(self, line: WireLine) -> "_Terminal | None":
        """The terminal that a request names; None if it is unknown or released."""
        id = at(line.params, "terminalId")
        terminal = self._terminals.get(id) if isinstance(id, str) else None
        return None if terminal is None or terminal.released else terminal

    def _output(self, line: WireLine) -> Reply:
        terminal = self._terminal(line)
        if terminal is None:
            return _NO_TERMINAL_REPLY
        if terminal.running:
            return result_reply({"output": "", "truncated": False})
        return result_reply(
            {"output": self.terminal_output, "truncated": False, "exitStatus": terminal.status}
        )

    def _wait(self, line: WireLine) -> Reply:
        terminal = self._terminal(line)
        if terminal is None:
            return _NO_TERMINAL_REPLY
        if not terminal.running:
            return result_reply(terminal.status)
        self.pending_waits.append((line, terminal))
        return None

    def _kill(self, line: WireLine) -> Reply:
        terminal = self._terminal(line)
        if terminal is None:
            return _NO_TERMINAL_REPLY
        terminal.end()
        return result_reply({})

    def _release(self, line: WireLine) -> Reply:
        terminal = self._terminal(line)
        if terminal is None:
            return _NO_TERMINAL_REPLY
        terminal.end()
        terminal.released = True
        return result_reply({})

    def _elicit(self, line: WireLine) -> Reply:
        if at(line.params, "mode") == "url":
            return result_reply({"action": "accept"})
        return result_reply({"action": "accept", "content": form_content(line, self.form_text)})


class _Terminal:
    def __init__(self, *, running: bool) -> None:
        self.running = running
        self.released = False
        self.status: Message = {"exitCode": 0}

    def end(self) -> None:
        if self.running:
            self.running = False
            self.status = {"exitCode": None, "signal": "SIGKILL"}


def form_content(line: WireLine, text: str) -> Message:
    """Form content with a valid value for every field."""
    fields: Any = at(line.params, "requestedSchema", "properties")
    if not isinstance(fields, dict):
        return {}
    return {name: _field_value(field, text) for name, field in cast(Message, fields).items()}


def _field_value(field: Any, text: str) -> Any:
    choices = listed(field, "enum") or [at(one, "const") for one in listed(field, "oneOf")]
    if choices:
        return choices[0]
    match at(field, "type"):
        case "boolean":
            return True
        case "integer" | "number":
            return at(field, "minimum") or 1
        case "array":
            return []
        case _:
            return text


def _answer_mcp(line: WireLine) -> Reply:
    method = at(line.params, "method")
    return result_reply(
        {"result": mcp_result(method if isinstance(method, str) else "", at(line.params, "params"))}
    )
