"""Connections in memory whose other side is silent: the tests insert its messages."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accord.check.agent.desk import Desk
from accord.check.agent.talk import Talk
from accord.check.bounds import Bounds
from accord.check.client.desk import Desk as AgentDesk
from accord.check.client.part import Part
from accord.check.ledger import Ledger
from accord.clock import SYSTEM_CLOCK
from accord.wire.memory import memory_pair
from accord.wire.transport import Receiver


class SilentAgent:
    """A launched agent without a program: only a transport."""

    def __init__(self) -> None:
        self.transport, self.other = memory_pair()
        self.stderr = ""

    async def leave(self) -> str:
        await self.transport.aclose()
        return ""


def silent_agent(folder: Path) -> Talk:
    """A client's connection to a silent agent."""
    return Talk("talk", SilentAgent(), Desk(folder), Ledger("scene"), Bounds(), SYSTEM_CLOCK)


class SilentClientPipe:
    """The agent's end of a connection without a client."""

    words: Sequence[str] = ()
    login = ""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.hears = True

    def start(self, receiver: Receiver) -> None:
        del receiver

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def complain(self, text: str) -> None:
        del text

    def hear(self, hears: bool) -> None:
        self.hears = hears

    def mute(self) -> None:
        pass

    def die(self, code: int | None = None) -> None:
        del code


def silent_client() -> Part:
    """An agent's connection to a silent client."""
    return Part("part", SilentClientPipe(), AgentDesk(), Ledger("scene"), Bounds(), SYSTEM_CLOCK)


def receive(peer: Talk | Part, *messages: Any) -> None:
    """Insert messages of the other side."""
    peer.frames([json.dumps(message).encode() for message in messages])
