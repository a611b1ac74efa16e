"""The client's desk: answers what an agent asks for, as a small but complete client would, or as a scene wants it.

Files are real ones below the scene's folder. Terminals are only played: nothing an agent asks for is run here.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from accord.check.checked_connection import Message, WireLine
from accord.check.mcp_server_program import mcp_result
from accord.trace.trace_steps import at, listed

Reply: TypeAlias = Message | None
"""`{"result": ...}` or `{"error": ...}`; None holds the answer back."""
Server: TypeAlias = Callable[[WireLine], Reply]

HOLD: Final[Reply] = None

EFFECTS: Final = ("fs/write_text_file", "terminal/create")
"""The requests by which something is done in the world."""


def result(value: Any) -> Message:
    """An answer."""
    return {"result": value}


def error(code: int, message: str) -> Message:
    """An error answer."""
    return {"error": {"code": code, "message": message}}


def selected(option_id: Any) -> Message:
    """A permission answer that selects this option."""
    return result({"outcome": {"outcome": "selected", "optionId": option_id}})


CANCELLED: Final = result({"outcome": {"outcome": "cancelled"}})


def option(line: WireLine, *kinds: str) -> str | None:
    """The id of the first option of one of these kinds, in this order."""
    for kind in kinds:
        for one in listed(line.params, "options"):
            if at(one, "kind") == kind and isinstance(at(one, "optionId"), str):
                return at(one, "optionId")
    return None


def allow(line: WireLine) -> Reply:
    """Yes, once."""
    chosen = option(line, "allow_once", "allow_always")
    return CANCELLED if chosen is None else selected(chosen)


def reject(line: WireLine) -> Reply:
    """No."""
    chosen = option(line, "reject_once", "reject_always")
    return CANCELLED if chosen is None else selected(chosen)


_NO_PATH: Final = error(-32602, "the path is not one of this session")
_MOST_BYTES: Final = 8 * 1024 * 1024


def _said(failure: Exception) -> str:
    return getattr(failure, "strerror", None) or type(failure).__name__


def _is_plain(path: Path) -> bool:
    """Whether it is a file, or could become one. A pipe would be waited for, a folder cannot be written."""
    return path.is_file() or not path.exists()


class ClientResponder:
    """What the client serves. `answers` may hold another way to serve a method, for as long as a scene wants it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers: dict[str, Server] = {}
        self.stay = False
        """Whether terminals run on until they are killed."""
        self.output = "checked\n"
        self.form_text = "turquoise"
        self._terminals: dict[str, _Terminal] = {}
        self.waiting: list[tuple[WireLine, str]] = []
        """Requests that wait for the end of a terminal."""
        self._served: dict[str, Server] = {
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
        server = self.answers.get(line.method) or self._served.get(line.method)
        return error(-32601, f"Method not found: {line.method}") if server is None else server(line)

    def due(self) -> list[tuple[WireLine, Message]]:
        """Held answers that can be given now."""
        ready = [(line, id) for line, id in self.waiting if not self._terminals[id].running]
        self.waiting = [(line, id) for line, id in self.waiting if self._terminals[id].running]
        return [(line, result(self._terminals[id].status)) for line, id in ready]

    def _path(self, line: WireLine) -> Path | None:
        path = at(line.params, "path")
        if not isinstance(path, str) or not Path(path).is_absolute():
            return None
        try:
            found = Path(path).resolve()
        except (OSError, ValueError, RuntimeError):  # no path at all: a NUL in it, a loop of links
            return None
        return found if found.is_relative_to(self.folder.resolve()) else None

    def _read(self, line: WireLine) -> Reply:
        path = self._path(line)
        if path is None:
            return _NO_PATH
        try:
            if not _is_plain(path) or path.stat().st_size > _MOST_BYTES:
                return error(-32603, f"no file, or one of more than {_MOST_BYTES} bytes")
            text = path.read_text("utf-8")
        except FileNotFoundError:
            return error(-32002, "there is no such file")
        except (OSError, ValueError) as failure:
            return error(-32603, f"the file cannot be read as text: {_said(failure)}")
        first, most = at(line.params, "line"), at(line.params, "limit")
        rows = text.splitlines(keepends=True)
        start = max(first, 1) - 1 if isinstance(first, int) else 0
        end = start + max(most, 0) if isinstance(most, int) else len(rows)
        return result({"content": "".join(rows[start:end])})

    def _write(self, line: WireLine) -> Reply:
        path, text = self._path(line), at(line.params, "content")
        if path is None or not isinstance(text, str):
            return _NO_PATH if path is None else error(-32602, "the content is no text")
        try:
            if not _is_plain(path):
                return error(-32603, "no file is at this path")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        except (OSError, ValueError) as failure:
            return error(-32603, f"the file cannot be written: {_said(failure)}")
        return result({})

    def _create(self, line: WireLine) -> Reply:
        id = f"terminal-{len(self._terminals) + 1}"
        self._terminals[id] = _Terminal(running=self.stay)
        return result({"terminalId": id})

    def _terminal(self, line: WireLine) -> "tuple[str, _Terminal] | None":
        id = at(line.params, "terminalId")
        found = self._terminals.get(id) if isinstance(id, str) else None
        return None if found is None or found.released else (cast(str, id), found)

    def _output(self, line: WireLine) -> Reply:
        found = self._terminal(line)
        if found is None:
            return error(-32002, "there is no such terminal")
        status = {} if found[1].running else {"exitStatus": found[1].status}
        return result({"output": "" if found[1].running else self.output, "truncated": False, **status})

    def _wait(self, line: WireLine) -> Reply:
        found = self._terminal(line)
        if found is None:
            return error(-32002, "there is no such terminal")
        if not found[1].running:
            return result(found[1].status)
        self.waiting.append((line, found[0]))
        return HOLD

    def _kill(self, line: WireLine) -> Reply:
        found = self._terminal(line)
        if found is None:
            return error(-32002, "there is no such terminal")
        found[1].end()
        return result({})

    def _release(self, line: WireLine) -> Reply:
        found = self._terminal(line)
        if found is None:
            return error(-32002, "there is no such terminal")
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
    """A form with something sensible in every field."""
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
