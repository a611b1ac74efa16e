"""Connections in memory whose other side is silent: the tests insert its messages."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accord.check.agent.agent_under_test import AgentUnderTest
from accord.check.agent.client_responder import ClientResponder
from accord.check.checked_connection import CheckTimeouts
from accord.check.client.agent_responder import AgentResponder
from accord.check.client.client_under_test import ClientUnderTest
from accord.check.findings import RuleNotes
from accord.clock import SYSTEM_CLOCK
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Receiver


class SilentAgent:
    """A launched agent without a program: only a transport."""

    def __init__(self) -> None:
        self.transport, self.other = memory_pair()
        self.stderr = ""

    async def close(self) -> str:
        await self.transport.aclose()
        return ""


def silent_agent(folder: Path) -> AgentUnderTest:
    """A client's connection to a silent agent."""
    return AgentUnderTest(
        "agent", SilentAgent(), ClientResponder(folder), RuleNotes("case"), CheckTimeouts(), SYSTEM_CLOCK
    )


class SilentClientPipe:
    """The agent's end of a connection without a client."""

    arguments: Sequence[str] = ()
    login = ""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.reading = True

    def start(self, receiver: Receiver) -> None:
        del receiver

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def write_stderr(self, text: str) -> None:
        del text

    def set_reading(self, reading: bool) -> None:
        self.reading = reading

    def exit(self, code: int | None = None) -> None:
        del code


def silent_client() -> ClientUnderTest:
    """An agent's connection to a silent client."""
    return ClientUnderTest(
        "client", SilentClientPipe(), AgentResponder(), RuleNotes("case"), CheckTimeouts(), SYSTEM_CLOCK
    )


def receive(peer: AgentUnderTest | ClientUnderTest, *messages: Any) -> None:
    """Insert messages of the other side."""
    peer.frames([json.dumps(message).encode() for message in messages])
