"""Answers the agent's requests as a small but complete client, or as a case overrides it.

Files are real files in the folder of the case. Terminals are simulated: no command of an agent is run.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from accord.check.checked_connection import Message, WireLine
from accord.check.mcp_server_program import mcp_result
from accord.trace.trace_steps import at, listed

Reply: TypeAlias = Message | None
"""`{"result": ...}` or `{"error": ...}`; None leaves the request unanswered."""
Handler: TypeAlias = Callable[[WireLine], Reply]

HOLD: Final[Reply] = None

EFFECTS: Final = ("fs/write_text_file", "terminal/create")
"""The requests that have side effects."""


def result(value: Any) -> Message:
    """A result."""
    return {"result": value}


def error(code: int, message: str) -> Message:
    """An error."""
    return {"error": {"code": code, "message": message}}


def selected(option_id: Any) -> Message:
    """A permission answer that selects this option."""
    return result({"outcome": {"outcome": "selected", "optionId": option_id}})


CANCELLED: Final = result({"outcome": {"outcome": "cancelled"}})


def option(line: WireLine, *kinds: str) -> str | None:
    """The id of the first option of one of these kinds, in order of preference."""
    for kind in kinds:
        for one in listed(line.params, "options"):
            if at(one, "kind") == kind and isinstance(at(one, "optionId"), str):
                return at(one, "optionId")
    return None


def allow(line: WireLine) -> Reply:
    """Allow once."""
    chosen = option(line, "allow_once", "allow_always")
    return CANCELLED if chosen is None else selected(chosen)


def reject(line: WireLine) -> Reply:
    """Reject."""
    chosen = option(line, "reject_once", "reject_always")
    return CANCELLED if chosen is None else selected(chosen)


_NO_PATH: Final = error(-32602, "the path is outside the session's folders")
_MAX_FILE_BYTES: Final = 8 * 1024 * 1024


def _reason(failure: Exception) -> str:
    return getattr(failure, "strerror", None) or type(failure).__name__


def _is_plain(path: Path) -> bool:
    """Whether it is a regular file or does not exist. A pipe would block, a folder cannot be written."""
    return path.is_file() or not path.exists()


class ClientResponder:
    """The client side of a case. A case puts its own handlers into `overrides`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.overrides: dict[str, Handler] = {}
        self.keep_terminals_running = False
        """Whether terminals run until they are killed."""
        self.output = "checked\n"
        self.form_text = "turquoise"
        self._terminals: dict[str, _Terminal] = {}
        self.waiting: list[tuple[WireLine, str]] = []
        """Pending `terminal/wait_for_exit` requests with their terminal ids."""
        self._handlers: dict[str, Handler] = {
            "session/request_permission": allow,
            "fs/read_text_file": self._read,
            "fs/write_text_file": self._write,
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
            "elicitation/create": self._elicit,
            "mcp/message": _mcp,
        }

    def serve(self, line: WireLine) -> Reply:
        """The answer to a request."""
        server = self.overrides.get(line.method) or self._handlers.get(line.method)
        return error(-32601, f"Method not found: {line.method}") if server is None else server(line)

    def ready_replies(self) -> list[tuple[WireLine, Message]]:
        """Answers to pending requests whose terminals have ended."""
        ready = [(line, id) for line, id in self.waiting if not self._terminals[id].running]
        self.waiting = [(line, id) for line, id in self.waiting if self._terminals[id].running]
        return [(line, result(self._terminals[id].status)) for line, id in ready]

    def _path(self, line: WireLine) -> Path | None:
        path = at(line.params, "path")
        if not isinstance(path, str) or not Path(path).is_absolute():
            return None
        try:
            found = Path(path).resolve()
        except (OSError, ValueError, RuntimeError):  # an invalid path, or a loop of links
            return None
        return found if found.is_relative_to(self.folder.resolve()) else None

    def _read(self, line: WireLine) -> Reply:
        path = self._path(line)
        if path is None:
            return _NO_PATH
        try:
            if not _is_plain(path) or path.stat().st_size > _MAX_FILE_BYTES:
                return error(-32603, f"not a file, or over {_MAX_FILE_BYTES} bytes")
            text = path.read_text("utf-8")
        except FileNotFoundError:
            return error(-32002, "file not found")
        except (OSError, ValueError) as failure:
            return error(-32603, f"the file cannot be read as text: {_reason(failure)}")
        first, most = at(line.params, "line"), at(line.params, "limit")
        rows = text.splitlines(keepends=True)
        start = max(first, 1) - 1 if isinstance(first, int) else 0
        end = start + max(most, 0) if isinstance(most, int) else len(rows)
        return result({"content": "".join(rows[start:end])})

    def _write(self, line: WireLine) -> Reply:
        path, text = self._path(line), at(line.params, "content")
        if path is None or not isinstance(text, str):
            return _NO_PATH if path is None else error(-32602, "the content is not a string")
        try:
            if not _is_plain(path):
                return error(-32603, "not a regular file")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        except (OSError, ValueError) as failure:
            return error(-32603, f"the file cannot be written: {_reason(failure)}")
        return result({})

    def _create(self, line: WireLine) -> Reply:
        id = f"terminal-{len(self._terminals) + 1}"
        self._terminals[id] = _Terminal(running=self.keep_terminals_running)
        return result({"terminalId": id})

    def _terminal(self, line: WireLine) -> "tuple[str, _Terminal] | None":
        id = at(line.params, "terminalId")
        found = self._terminals.get(id) if isinstance(id, str) else None
        return None if found is None or found.released else (cast(str, id), found)

    def _output(self, line: WireLine) -> Reply:
        found = self._terminal(line)
        if found is None:
            return error(-32002, "terminal not found")
        status = {} if found[1].running else {"exitStatus": found[1].status}
        return result({"output": "" if found[1].running else self.output, "truncated": False, **status})

    def _wait(self, line: WireLine) -> Reply:
        found = self._terminal(line)
        if found is None:
            return error(-32002, "terminal not found")
        if not found[1].running:
            return result(found[1].status)
        self.waiting.append((line, found[0]))
        return HOLD

    def _kill(self, line: WireLine) -> Reply:
        found = self._terminal(line)
        if found is None:
            return error(-32002, "terminal not found")
        found[1].end()
        return result({})

    def _release(self, line: WireLine) -> Reply:
        found = self._terminal(line)
        if found is None:
            return error(-32002, "terminal not found")
        found[1].end()
        found[1].released = True
        return result({})

    def _elicit(self, line: WireLine) -> Reply:
        if at(line.params, "mode") == "url":
            return result({"action": "accept"})
        return result({"action": "accept", "content": filled_in(line, self.form_text)})


class _Terminal:
    def __init__(self, *, running: bool) -> None:
        self.running = running
        self.released = False
        self.status: Message = {"exitCode": 0}

    def end(self) -> None:
        if self.running:
            self.running = False
            self.status = {"exitCode": None, "signal": "SIGKILL"}


def filled_in(line: WireLine, text: str) -> Message:
    """Form content with a valid value for every field."""
    fields: Any = at(line.params, "requestedSchema", "properties")
    if not isinstance(fields, dict):
        return {}
    return {name: _value(field, text) for name, field in cast(Message, fields).items()}


def _value(field: Any, text: str) -> Any:
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


def _mcp(line: WireLine) -> Reply:
    method = at(line.params, "method")
    return result(
        {"result": mcp_result(method if isinstance(method, str) else "", at(line.params, "params"))}
    )
