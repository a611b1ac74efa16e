"""The part of the agent in one connection: the checker is the agent that the client started, and sends what a scene wants."""

from typing import Any, ClassVar, cast

from accord.check.bounds import Bounds
from accord.check.client.desk import Death, Desk
from accord.check.client.wire import Wire
from accord.check.conversation import Conversation, Over
from accord.check.ledger import Ledger, Rule
from accord.check.lines import Line, Message, Side
from accord.clock import Clock
from accord.trace.exchange import at
from accord.wire.transport import End


class Part(Conversation):
    """One agent that the client started. Requests of the client are served by the desk as they come."""

    peer: ClassVar[Side] = "client"
    own: ClassVar[Side] = "agent"
    owed: ClassVar[Rule] = 12

    def __init__(
        self, name: str, wire: Wire, desk: Desk, ledger: Ledger, bounds: Bounds, clock: Clock
    ) -> None:
        super().__init__(name, ledger, bounds, clock)
        self.wire = wire
        self.desk = desk
        self.dead = False
        """Whether it died on our own stage: nothing is owed to it any more."""
        wire.start(self)

    def transmit(self, data: bytes) -> None:
        self.wire.write(data + b"\n")

    def hush(self) -> None:
        self.wire.hear(False)

    def serve(self, line: Line) -> None:
        if self.dead:
            return
        try:
            reply = self.desk.serve(line)
        except Death as death:
            self.die(death.code)
            return
        if reply is not None:
            self.reply(line, reply)

    def ended(self, end: End) -> None:
        """The client let go of us. An agent goes with its input."""
        super().ended(end)
        if not self.desk.stays:
            self.wire.die(0)

    def gone(self, end: End) -> str:
        return f"the client let go of the agent ({end.reason})"

    def fresh(self, number: int) -> str:
        return f"a-{number}"

    def reply(self, request: Line, reply: Message) -> Line:
        """Answer a request of the client; what the desk wants to be sent around it goes around it."""
        for message in self.desk.before.pop(request.method, []):
            self.send({"jsonrpc": "2.0", **message})
        line = super().reply(request, reply)
        for message in self.desk.after.pop(request.method, []):
            self.send({"jsonrpc": "2.0", **message})
        return line

    def update(self, kind: str, session: str | None = None, /, **members: Any) -> Line:
        """Send a session update."""
        return self.notify(
            "session/update",
            {
                "sessionId": self.desk.session if session is None else session,
                "update": {"sessionUpdate": kind, **members},
            },
        )

    def say(self, text: str, **more: Any) -> Line:
        """Say something to the user."""
        return self.update("agent_message_chunk", content={"type": "text", "text": text}, **more)

    def die(self, code: int | None = None) -> None:
        """End at once."""
        self.dead = True
        self.wire.die(code)

    async def hears(self, *methods: str, since: int = 0, bound: float | None = None) -> Line | None:
        """The client's next call of one of these methods."""
        return await self.until(
            lambda line: line.sender == "client" and line.method in methods, since=since, bound=bound
        )

    async def left(self, bound: float | None = None) -> bool:
        """Whether the client lets go of this agent in time."""
        await self.until(lambda _: False, since=len(self.lines), bound=bound)
        return self.end is not None

    # -- the usual phrases

    async def prompted(self, *, owes: Rule | None = None, since: int = 0) -> Line:
        """The client's prompt. Where none comes the scene is over, by this rule if one is named."""
        found = await self.hears("session/prompt", since=since)
        if found is None:
            told = self.flood or (self.end.reason if self.end is not None else "")
            why = f"no prompt came{told and f': {told}'}"
            if owes is not None:
                self.ledger.broken(owes, why, [line.shown for line in self.lines[-4:]])
            raise Over(why)
        return found

    def stop(self, prompt: Line, reason: Any = "end_turn", **more: Any) -> Line:
        """End the turn."""
        return self.reply(prompt, {"result": {"stopReason": reason, **more}})

    @property
    def offered(self) -> Any:
        """The client's capabilities as it sent them."""
        asked = next(
            (line for line in self.lines if line.sender == "client" and line.method == "initialize"), None
        )
        return None if asked is None else at(asked.params, "clientCapabilities")

    @property
    def initialized(self) -> Message:
        """What `initialize` was answered with here."""
        asked = next(
            (line for line in self.lines if line.sender == "client" and line.method == "initialize"), None
        )
        answers = [
            line
            for line in self.lines
            if asked is not None and line.sender == "agent" and line.is_answer and line.id == asked.id
        ]
        found = at(answers[0].message, "result") if answers else None
        return cast(Message, found) if isinstance(found, dict) else {}

    def has(self, path: str) -> bool:
        """Whether the client advertises a capability."""
        found = at(self.offered, *path.split("."))
        return found is True or isinstance(found, dict)

    def calls(self, *methods: str) -> list[Line]:
        """The client's calls of these methods so far."""
        return [line for line in self.lines if line.sender == "client" and line.method in methods]
