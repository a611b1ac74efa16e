"""Conversations in memory with nobody on the other side: what it would have sent is put in by hand."""

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


class Nobody:
    """A launched agent that is only a wire."""

    def __init__(self) -> None:
        self.transport, self.other = memory_pair()
        self.stderr = ""

    async def leave(self) -> str:
        await self.transport.aclose()
        return ""


def talk_with_nobody(folder: Path) -> Talk:
    """A client's conversation with an agent."""
    return Talk("talk", Nobody(), Desk(folder), Ledger("scene"), Bounds(), SYSTEM_CLOCK)


class NoWire:
    """The end of an agent whose client is not there."""

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


def part_for_nobody() -> Part:
    """An agent's conversation with a client."""
    return Part("part", NoWire(), AgentDesk(), Ledger("scene"), Bounds(), SYSTEM_CLOCK)


def arrives(talk: Talk | Part, *messages: Any) -> None:
    """The other side sends these."""
    talk.frames([json.dumps(message).encode() for message in messages])
