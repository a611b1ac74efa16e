"""Agents that answer twice, without a request, with the wrong types, or with a refusal."""

from typing import Any, ClassVar, Final

from accord.testing.hostile.hostile_agent import HostileAgent, Json


class AnswersTwice(HostileAgent):
    """Answers every request twice, the second time differently."""

    name = "answers-twice"

    def initialize(self, request: Json) -> None:
        super().initialize(request)
        self.reply(request, {"protocolVersion": 9})

    def new_session(self, request: Json) -> None:
        super().new_session(request)
        self.reply(request, {"sessionId": "another"})

    def prompt(self, request: Json) -> None:
        self.say("Once and for all.")
        self.finish(request)
        self.finish(request, "refusal")
        self.refuse(request, -32603, "Changed my mind")


class AnswersUnasked(HostileAgent):
    """Answers unknown ids and ids of the wrong type before the real answer."""

    name = "answers-unasked"

    def prompt(self, request: Json) -> None:
        for id in (None, 99_999, "no-such-id", float(request["id"]) + 0.5, True, [request["id"]]):
            self.send({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "refusal"}})
        self.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
        self.say("That was not for you.")
        self.finish(request)


class WrongShapes(HostileAgent):
    """Answers a prompt with a list instead of an object."""

    name = "wrong-shapes"

    def prompt(self, request: Json) -> None:
        self.say("Here.")
        self.reply(request, ["end_turn"])


class NoSession(HostileAgent):
    """Answers `session/new` without a session id."""

    name = "no-session"

    def new_session(self, request: Json) -> None:
        self.reply(request, {})


class BothAnswers(HostileAgent):
    """Answers a prompt with a result and an error in one message."""

    name = "both-answers"

    def prompt(self, request: Json) -> None:
        self.say("Yes and no.")
        error = {"code": -32603, "message": "and failed"}
        self.send(
            {"jsonrpc": "2.0", "id": request["id"], "result": {"stopReason": "end_turn"}, "error": error}
        )


class StringError(HostileAgent):
    """Answers a prompt with an error that is a string, not an object."""

    name = "string-error"

    def prompt(self, request: Json) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": "it went wrong"})


class FailsTurn(HostileAgent):
    """Answers a prompt with an error."""

    name = "fails-turn"

    def prompt(self, request: Json) -> None:
        self.refuse(request, -32603, "The model is overloaded", data={"retry": True})


class RefusesInitialize(HostileAgent):
    """Answers `initialize` with an error."""

    name = "refuses-initialize"

    def initialize(self, request: Json) -> None:
        self.refuse(request, -32603, "Not today")


class WrongVersion(HostileAgent):
    """Answers `initialize` with protocol version 9."""

    name = "wrong-version"

    def initialize(self, request: Json) -> None:
        self.reply(request, {"protocolVersion": 9, "agentCapabilities": {}})


class WantsLogin(HostileAgent):
    """Answers `session/new` with `-32000` until sign-in; offers one method of each kind."""

    name = "wants-login"
    signed_in: bool = False

    def initialize(self, request: Json) -> None:
        methods: list[Json] = [
            {"id": "account", "name": "Account", "description": "Sign in with your account"},
            {
                "type": "terminal",
                "id": "tty",
                "name": "In the terminal",
                "args": ["--login"],
                "env": {"X": "1"},
            },
            {"type": "env_var", "id": "key", "name": "API key", "vars": [{"name": "HOSTILE_KEY"}]},
        ]
        self.reply(request, {"protocolVersion": 1, "authMethods": methods})

    def new_session(self, request: Json) -> None:
        if self.signed_in:
            super().new_session(request)
        else:
            self.refuse(request, -32000, "Authentication required")

    def other(self, request: Json) -> None:
        if request.get("method") == "authenticate":
            self.signed_in = True
            self.reply(request, {})
        else:
            super().other(request)


class Refuses(HostileAgent):
    """Ends the turn with `refusal`."""

    name = "refuses"
    reason: ClassVar[str] = "refusal"

    def prompt(self, request: Json) -> None:
        self.say("I would rather not.")
        self.finish(request, self.reason)


class RunsOut(Refuses):
    """Ends the turn with `max_tokens`."""

    name = "runs-out"
    reason = "max_tokens"


class UnknownStop(Refuses):
    """Ends the turn with an unknown stop reason."""

    name = "unknown-stop"
    reason = "moon_phase"


class UnknownUpdates(HostileAgent):
    """Sends unknown updates, notifications and requests, and known ones with wrong member types."""

    name = "unknown-updates"

    def prompt(self, request: Json) -> None:
        self.say("Before, ")
        self.update("hologram", data=[1, 2, 3])
        self.update("tool_call")
        self.update("tool_call", toolCallId=["c"], title=5)
        self.update("plan", entries="none")
        self.update("agent_message_chunk", content={"type": "smell", "data": "AAAA"})
        self.update("available_commands_update", availableCommands=[5, {"name": "ok", "description": "fine"}])
        self.update("usage_update", used="many", size=None)
        self.notify("session/vanish", {"sessionId": self.session})
        self.notify("_hostile/ping", None)
        self.notify("$/progress", {"token": 1})
        self.notify("$/cancel_request", {"requestId": "nothing"})
        requests: tuple[tuple[str, Any], ...] = (("hostile/ask", {}), ("_hostile/ask", {}), ("$/ask", {}))
        for method, params in requests:
            self.report(method, self.ask(method, params))
        self.say("after.")
        self.finish(request)


class EndlessList(HostileAgent):
    """Lists sessions with the same cursor on every page, and loads none of them."""

    name = "endless-list"
    capabilities: ClassVar[Json] = {"loadSession": True, "sessionCapabilities": {"list": {}}}

    def other(self, request: Json) -> None:
        if request.get("method") == "session/list":
            self.reply(request, {"sessions": [{"sessionId": "s1", "cwd": "/"}], "nextCursor": "more"})
        elif request.get("method") == "session/load":
            self.refuse(request, -32002, "Session not found")
        else:
            super().other(request)


BEHAVIORS: Final[tuple[type[HostileAgent], ...]] = (
    AnswersTwice, AnswersUnasked, BothAnswers, WrongShapes, NoSession, StringError, FailsTurn,
    RefusesInitialize, WrongVersion, WantsLogin, Refuses, RunsOut, UnknownStop, UnknownUpdates, EndlessList,
)  # fmt: skip
