"""Agents that send more than anybody wants."""

import json
import os

from accord.testing.hostile.agent import HostileAgent, Json

PIECES = 20_000
"""How many pieces `floods` sends; the last one is followed by its answer."""
HUGE = 65 * 1024 * 1024
"""The bytes of one message of `huge-message`: more than the 64 MiB that a client of Accord takes."""


class Floods(HostileAgent):
    """Sends 20 000 numbered pieces of text at once, then answers."""

    habit = "floods"

    def prompt(self, asked: Json) -> None:
        """All at once: the client may pause us, not lose a piece."""
        self.raw(b"".join(self._piece(number) for number in range(PIECES)))
        self.finish(asked)

    def _piece(self, number: int) -> bytes:
        update = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": f"{number} {'x' * 80}\n"},
        }
        params = {"sessionId": self.session, "update": update}
        return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"


class FloodsForever(Floods):
    """Sends text without an end; it hears no cancel, and only a deadline or Ctrl-C ends it."""

    habit = "floods-forever"

    def prompt(self, asked: Json) -> None:
        """Until somebody ends it."""
        number = 0
        while True:
            self.raw(self._piece(number))
            number += 1


class FloodsStderr(HostileAgent):
    """Writes 8 MiB to stderr, escapes included, before it answers."""

    habit = "floods-stderr"

    def prompt(self, asked: Json) -> None:
        """A client that does not read stderr stands still here."""
        line = b"\x1b[31mDEBUG\x1b[0m " + b"y" * 240 + b"\n"
        for _ in range(8 * 1024 * 1024 // len(line)):
            os.write(2, line)
        self.say("Did you read all that?")
        self.finish(asked)


class HugeMessage(HostileAgent):
    """Sends one update of 65 MiB in a single line, then goes on."""

    habit = "huge-message"

    def prompt(self, asked: Json) -> None:
        """In pieces, so that this side does not need the memory."""
        head, tail = json.dumps(
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {
                    "sessionId": self.session,
                    "update": {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": "%"},
                    },
                },
            }
        ).split("%")
        self.say("Here it comes. ")
        self.raw(head.encode())
        block = b"z" * (1024 * 1024)
        for _ in range(HUGE // len(block)):
            self.raw(block)
        self.raw(tail.encode() + b"\n")
        self.say("There it was.")
        self.finish(asked)


class DeepMessage(HostileAgent):
    """Sends a line of 100 000 opening brackets, and a valid update nested as deep, then goes on."""

    habit = "deep-message"

    def prompt(self, asked: Json) -> None:
        """No reader may fall over that."""
        deep = b"[" * 100_000
        self.raw(deep + b"\n")
        self.raw(
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
            + self.session.encode()
            + b'","update":{"sessionUpdate":"tool_call","toolCallId":"deep","title":"Deep","rawInput":'
            + deep
            + b"]" * 100_000
            + b"}}}\n"
        )
        self.say("Still there?")
        self.finish(asked)


HABITS = (Floods, FloodsForever, FloodsStderr, HugeMessage, DeepMessage)
