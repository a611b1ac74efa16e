"""The agent's desk: answers what a client asks for as a small but complete agent would, or as a scene wants it."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, TypeAlias

from accord.check.checked_connection import Message, WireLine
from accord.trace.trace_steps import at

Reply: TypeAlias = Message | None
"""`{"result": ...}` or `{"error": ...}`; None holds the answer back."""
Server: TypeAlias = Callable[[WireLine], Reply]

EVERYTHING: Final[dict[str, Any]] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {
        **{name: {} for name in ("list", "resume", "close", "delete", "fork", "archive", "status", "title")},
        "additionalDirectories": {},
        "systemPrompt": {"mode": {"override": {}}},
    },
    "auth": {"logout": {}, "status": {}},
    "providers": {},
}
"""The capabilities of an agent that can do all there is."""

MODES: Final = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}
OPTIONS: Final[list[dict[str, Any]]] = [
    {
        "id": "odd",
        "name": "Odd",
        "category": "_check_odd",
        "type": "select",
        "currentValue": "one",
        "options": [{"value": "one", "name": "One"}, {"value": "two", "name": "Two"}],
    },
    {"id": "flag", "name": "Flag", "type": "boolean", "currentValue": False},
]


class AgentExit(Exception):
    """Raised by a server: the agent dies instead of answering, with this code, or killed."""

    def __init__(self, code: int | None = None) -> None:
        super().__init__(code)
        self.code = code


def result(value: Any) -> Message:
    """An answer."""
    return {"result": value}


def error(code: int, message: str) -> Message:
    """An error answer."""
    return {"error": {"code": code, "message": message}}


def without(*paths: str) -> dict[str, Any]:
    """The capabilities of an agent that lacks some: `loadSession`, `sessionCapabilities.list`..."""
    copy = deepcopy(EVERYTHING)
    for path in paths:
        inner = copy
        *parents, last = path.split(".")
        for parent in parents:
            inner = inner[parent]
        inner.pop(last, None)
    return copy


class AgentResponder:
    """What the agent serves. A scene puts its own way to serve a method into `answers`."""

    def __init__(self) -> None:
        self.session = "check-1"
        self.initialized: dict[str, Any] = {
            "protocolVersion": 1,
            "agentCapabilities": deepcopy(EVERYTHING),
            "agentInfo": {"name": "accord-check", "version": "1"},
        }
        self.opened: dict[str, Any] = {}
        """What `session/new`, load and resume answer besides the id."""
        self.sessions: list[dict[str, Any]] = []
        self.answers: dict[str, Server] = {}
        self.before: dict[str, list[Message]] = {}
        """Notifications right before the answer to a method, once."""
        self.after: dict[str, list[Message]] = {}
        self.blamed: int | None = None
        """The rule that is broken by whatever is used without being advertised; None: the one that is closest."""
        self.stays = False
        """Whether the agent lives on when its input is closed."""
        self.options = deepcopy(OPTIONS)
        self._served: dict[str, Server] = {
            "initialize": lambda _: result(self.initialized),
            "session/new": lambda _: result({"sessionId": self.session, **self.opened}),
            "session/load": self._again,
            "session/resume": self._again,
            "session/fork": lambda _: result({"sessionId": f"{self.session}-fork"}),
            "session/list": lambda _: result({"sessions": self.sessions}),
            "session/prompt": lambda _: None,
            "session/set_config_option": self._set_option,
            "auth/status": lambda _: result({"state": "authenticated"}),
            "providers/list": lambda _: result({"providers": []}),
            "session/status": lambda _: result({"status": "open"}),
            "session/set_title": lambda line: result({"title": str(at(line.params, "title")).strip()}),
            **dict.fromkeys(
                (
                    *("authenticate", "logout", "session/close", "session/delete", "session/set_mode"),
                    *("session/archive", "session/unarchive", "providers/set", "providers/disable"),
                ),
                lambda _: result({}),
            ),
        }

    def serve(self, line: WireLine) -> Reply:
        """The answer to a request."""
        server = self.answers.get(line.method) or self._served.get(line.method)
        return error(-32601, f"Method not found: {line.method}") if server is None else server(line)

    def _again(self, line: WireLine) -> Reply:
        self.session = str(at(line.params, "sessionId"))
        return result(self.opened)

    def _set_option(self, line: WireLine) -> Reply:
        for option in self.options:
            if option["id"] == at(line.params, "configId"):
                option["currentValue"] = at(line.params, "value")
        return result({"configOptions": self.options})
