"""Agents that answer wrongly: twice, unasked, in the wrong shape, or with a refusal."""

from typing import Any, ClassVar

from accord.testing.hostile.hostile_agent import HostileAgent, Json


class AnswersTwice(HostileAgent):
    """Answers everything twice, the second time differently; the first answer counts."""

    habit = "answers-twice"

    def initialize(self, asked: Json) -> None:
        """Another version the second time."""
        super().initialize(asked)
        self.reply(asked, {"protocolVersion": 9})

    def new_session(self, asked: Json) -> None:
        """Another session the second time."""
        super().new_session(asked)
        self.reply(asked, {"sessionId": "another"})

    def prompt(self, asked: Json) -> None:
        """A refusal and an error behind a good end."""
        self.say("Once and for all.")
        self.finish(asked)
        self.finish(asked, "refusal")
        self.refuse(asked, -32603, "Changed my mind")


class AnswersUnasked(HostileAgent):
    """Answers requests that nobody made, and the right ones under ids of the wrong type, before the real answer."""

    habit = "answers-unasked"

    def prompt(self, asked: Json) -> None:
        """None of these is the answer."""
        for id in (
            None,
            99_999,
            "no-such-id",
            f"{asked['id']}",
            float(asked["id"]) + 0.5,
            True,
            [asked["id"]],
        ):
            self.send({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "refusal"}})
        self.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
        self.say("That was not for you.")
        self.finish(asked)


class WrongShapes(HostileAgent):
    """Answers a prompt with a list instead of an object."""

    habit = "wrong-shapes"

    def prompt(self, asked: Json) -> None:
        """No reading makes sense of it."""
        self.say("Here.")
        self.reply(asked, ["end_turn"])


class NoSession(HostileAgent):
    """Answers `session/new` without a session id."""

    habit = "no-session"

    def new_session(self, asked: Json) -> None:
        """There is nothing to prompt."""
        self.reply(asked, {})


class BothAnswers(HostileAgent):
    """Answers a prompt with a result and an error in one message."""

    habit = "both-answers"

    def prompt(self, asked: Json) -> None:
        """Which of them?"""
        self.say("Yes and no.")
        error = {"code": -32603, "message": "and failed"}
        self.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"stopReason": "end_turn"}, "error": error})


class StringError(HostileAgent):
    """Answers a prompt with an error that is a text, not an object."""

    habit = "string-error"

    def prompt(self, asked: Json) -> None:
        """Some do."""
        self.send({"jsonrpc": "2.0", "id": asked["id"], "error": "it went wrong"})


class FailsTurn(HostileAgent):
    """Answers a prompt with an error."""

    habit = "fails-turn"

    def prompt(self, asked: Json) -> None:
        """As it should, if it fails."""
        self.refuse(asked, -32603, "The model is overloaded", data={"retry": True})


class RefusesInitialize(HostileAgent):
    """Answers `initialize` with an error."""

    habit = "refuses-initialize"

    def initialize(self, asked: Json) -> None:
        """No."""
        self.refuse(asked, -32603, "Not today")


class WrongVersion(HostileAgent):
    """Answers `initialize` with version 9 of the protocol."""

    habit = "wrong-version"

    def initialize(self, asked: Json) -> None:
        """Nobody speaks that."""
        self.reply(asked, {"protocolVersion": 9, "agentCapabilities": {}})


class WantsLogin(HostileAgent):
    """Answers `session/new` with `-32000` until somebody signed in; offers one way of each kind."""

    habit = "wants-login"
    signed_in = False

    def initialize(self, asked: Json) -> None:
        """With the ways to sign in."""
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
        self.reply(asked, {"protocolVersion": 1, "authMethods": methods})

    def new_session(self, asked: Json) -> None:
        """Not before."""
        if self.signed_in:
            super().new_session(asked)
        else:
            self.refuse(asked, -32000, "Authentication required")

    def other(self, asked: Json) -> None:
        """Takes anybody."""
        if asked.get("method") == "authenticate":
            self.signed_in = True
            self.reply(asked, {})
        else:
            super().other(asked)


class Refuses(HostileAgent):
    """Ends the turn with `refusal`."""

    habit = "refuses"
    reason = "refusal"

    def prompt(self, asked: Json) -> None:
        """With some words before."""
        self.say("I would rather not.")
        self.finish(asked, self.reason)


class RunsOut(Refuses):
    """Ends the turn with `max_tokens`."""

    habit = "runs-out"
    reason = "max_tokens"


class UnknownStop(Refuses):
    """Ends the turn with a stop reason that nobody knows."""

    habit = "unknown-stop"
    reason = "moon_phase"


class UnknownUpdates(HostileAgent):
    """Sends updates, notifications and requests that no version knows, and known ones with members of the wrong type."""

    habit = "unknown-updates"

    def prompt(self, asked: Json) -> None:
        """Between pieces that have to arrive."""
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
        self.finish(asked)


class EndlessList(HostileAgent):
    """Offers a list of sessions whose every page has the same cursor, and loads none of them."""

    habit = "endless-list"
    capabilities: ClassVar[Json] = {"loadSession": True, "sessionCapabilities": {"list": {}}}

    def other(self, asked: Json) -> None:
        """Page after page."""
        if asked.get("method") == "session/list":
            self.reply(asked, {"sessions": [{"sessionId": "s1", "cwd": "/"}], "nextCursor": "more"})
        elif asked.get("method") == "session/load":
            self.refuse(asked, -32002, "Session not found")
        else:
            super().other(asked)


BEHAVIORS = (
    AnswersTwice,
    AnswersUnasked,
    BothAnswers,
    WrongShapes,
    NoSession,
    StringError,
    FailsTurn,
    RefusesInitialize,
    WrongVersion,
    WantsLogin,
    Refuses,
    RunsOut,
    UnknownStop,
    UnknownUpdates,
    EndlessList,
)
