"""Answers the client's requests as a small but complete agent, or as a case overrides it."""

from copy import deepcopy
from typing import Any, Final

from accord.check.checked_connection import Handler, Reply, Responder, remove_capabilities, result_reply
from accord.check.findings import RuleId
from accord.trace.trace_steps import at
from accord.trace.wire_line import WireLine
from accord.wire.envelope import Message

ALL_CAPABILITIES: Final[dict[str, Any]] = {
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
"""The capabilities of an agent that supports everything."""

MODES: Final[dict[str, Any]] = {
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
    """Raised by a handler: the agent exits instead of answering, with this code, or is killed."""

    def __init__(self, code: int | None = None) -> None:
        super().__init__(code)
        self.code = code


def capabilities_without(*paths: str) -> dict[str, Any]:
    """All agent capabilities without these: `loadSession`, `sessionCapabilities.list`..."""
    return remove_capabilities(ALL_CAPABILITIES, paths)


class AgentResponder(Responder):
    """The agent side of a case."""

    def __init__(self) -> None:
        super().__init__()
        self.session: str = "check-1"
        self.initialize_result: dict[str, Any] = {
            "protocolVersion": 1,
            "agentCapabilities": deepcopy(ALL_CAPABILITIES),
            "agentInfo": {"name": "accord-check", "version": "1"},
        }
        self.session_result: dict[str, Any] = {}
        """The members of the `session/new`, load and resume results besides the id."""
        self.sessions: list[dict[str, Any]] = []
        self.before_answer: dict[str, list[Message]] = {}
        """Notifications to send once, right before the answer to a method, by method."""
        self.after_answer: dict[str, list[Message]] = {}
        self.unadvertised_rule: RuleId | None = None
        """The rule that the use of an unadvertised feature breaks; None: the rule of the feature."""
        self.ignores_eof = False
        """Whether the agent keeps running when its input is closed."""
        self.options: list[dict[str, Any]] = deepcopy(OPTIONS)
        self.handlers: dict[str, Handler] = {
            "initialize": lambda _: result_reply(self.initialize_result),
            "session/new": lambda _: result_reply({"sessionId": self.session, **self.session_result}),
            "session/load": self._reopen,
            "session/resume": self._reopen,
            "session/fork": lambda _: result_reply({"sessionId": f"{self.session}-fork"}),
            "session/list": lambda _: result_reply({"sessions": self.sessions}),
            "session/prompt": lambda _: None,
            "session/set_config_option": self._set_option,
            "auth/status": lambda _: result_reply({"state": "authenticated"}),
            "providers/list": lambda _: result_reply({"providers": []}),
            "session/status": lambda _: result_reply({"status": "open"}),
            "session/set_title": lambda line: result_reply({"title": str(at(line.params, "title")).strip()}),
            **dict.fromkeys(
                (
                    *("authenticate", "logout", "session/close", "session/delete", "session/set_mode"),
                    *("session/archive", "session/unarchive", "providers/set", "providers/disable"),
                ),
                lambda _: result_reply({}),
            ),
        }

    def _reopen(self, line: WireLine) -> Reply:
        self.session = str(at(line.params, "sessionId"))
        return result_reply(self.session_result)

    def _set_option(self, line: WireLine) -> Reply:
        for option in self.options:
            if option["id"] == at(line.params, "configId"):
                option["currentValue"] = at(line.params, "value")
        return result_reply({"configOptions": self.options})
