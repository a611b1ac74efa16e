"""A conversation that is over, with what the watches over either side ask of it."""

from functools import cached_property
from typing import Any

from accord.check.conversation import Conversation
from accord.check.lines import Exchange, Line, Message, Side, exchanges
from accord.trace.exchange import at


class Record:
    """One conversation."""

    def __init__(self, talk: Conversation, offered: Any, initialized: Message) -> None:
        self.name = talk.name
        self.lines = talk.lines
        self.side: Side = talk.peer
        """Who is under test."""
        self.flood = talk.flood
        self.offered: Any = offered
        """The client capabilities as sent: anything at all, or the mark for none."""
        self.initialized = initialized
        """The result of `initialize`."""

    @cached_property
    def sent(self) -> list[Line]:
        """The lines of the side under test."""
        return [line for line in self.lines if line.sender == self.side]

    @cached_property
    def calls(self) -> list[Line]:
        """Its requests and notifications."""
        return [line for line in self.sent if line.method]

    @cached_property
    def asked(self) -> list[Exchange]:
        """The client's requests with the agent's answers."""
        return list(exchanges(self.lines, "client"))

    @cached_property
    def asked_by_agent(self) -> list[Exchange]:
        """The agent's requests with the client's answers."""
        return list(exchanges(self.lines, "agent"))

    @property
    def owed(self) -> list[Exchange]:
        """The requests that the side under test had to answer."""
        return self.asked if self.side == "agent" else self.asked_by_agent

    def results(self, *methods: str) -> list[tuple[Line, Any]]:
        """The results of these methods of the agent, each with its line."""
        return [
            (answer, (answer.message or {}).get("result"))
            for exchange in self.asked
            if exchange.request.method in methods
            for answer in exchange.answers
            if "result" in (answer.message or {})
        ]

    def offers(self, path: str) -> bool:
        """Whether the client advertised a capability, by its path."""
        found = at(self.offered, *path.split("."))
        return found is True or isinstance(found, dict)

    def advertises(self, path: str) -> bool:
        """Whether the agent advertised a capability, by its path."""
        found = at(self.initialized, "agentCapabilities", *path.split("."))
        return found is True or isinstance(found, dict)
