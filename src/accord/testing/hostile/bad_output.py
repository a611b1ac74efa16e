"""Agents that flood, print non-JSON, or send escape sequences."""

import json
import os
from typing import Final

from accord.testing.hostile.hostile_agent import HostileAgent, Json

# MERGED testing.hostile.floods: Agents that send more than anybody wants.

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


FLOODS = (Floods, FloodsForever, FloodsStderr, HugeMessage, DeepMessage)


# MERGED testing.hostile.noise: Agents that write to stdout what is no message, and into their messages what no terminal should see.

NOISE: tuple[bytes, ...] = (
    b"Welcome to hostile v1.0!",
    b"\x1b[32mINFO\x1b[0m listening",
    b"",
    b"   ",
    b"\xff\xfe\x00 not UTF-8",
    b"{oops",
    b"null",
    b"5",
    b'"text"',
    b"[]",
    b"{}",
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"1.0","method":"session/update"}',
    b'{"jsonrpc":"2.0","method":7}',
    b'{"jsonrpc":"2.0","method":"session/update"}',
    b'{"jsonrpc":"2.0","method":"session/update","params":[1,2]}',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"nobody","update":{}}}',
    b'[{"jsonrpc":"2.0","method":"_x/batch"}]',
    b'{"a":NaN}',
    b"Traceback (most recent call last):",
    b'  File "agent.py", line 1, in <module>',
)

ESCAPES = (
    "\x1b[2J\x1b[H"  # clears the screen
    "\x1b]0;owned\x07"  # sets the window's title
    "\x1b]52;c;aGk=\x07"  # fills the clipboard
    "\x1b[31mred\x9b1m"  # colours, also in eight bits
    "back\x08\x08\x08\x08fore\r"  # overwrites what was shown
    "\u202eesrever\u202c\u2066\u2069"  # turns the direction of text
    "\x00\x7f\u200b"
)


class Noise(HostileAgent):
    """Prints banners, log lines, broken JSON, batches and bytes that are no text before, between and after its messages."""

    habit = "noise"

    def make_noise(self) -> None:
        """All of it."""
        for line in NOISE:
            self.raw(line + b"\r\n")

    def start(self) -> None:
        """Before the handshake."""
        self.make_noise()

    def new_session(self, asked: Json) -> None:
        """Around the answer."""
        self.make_noise()
        super().new_session(asked)
        self.make_noise()

    def prompt(self, asked: Json) -> None:
        """In the middle of what it says."""
        self.say("One, ")
        self.make_noise()
        self.say("two.")
        self.finish(asked)
        self.make_noise()


class Escapes(HostileAgent):
    """Puts terminal escapes and bidirectional tricks into text, thoughts, titles, plans, paths, names and stderr."""

    habit = "escapes"

    def prompt(self, asked: Json) -> None:
        """Everywhere a client shows something."""
        text = {"type": "text", "text": f"<{ESCAPES}>"}
        self.update("session_info_update", title=f"<{ESCAPES}>")
        self.update("agent_thought_chunk", content=text)
        self.update("plan", entries=[{"content": f"<{ESCAPES}>", "priority": "high", "status": "pending"}])
        diff = {"type": "diff", "path": f"{self.cwd}/{ESCAPES}", "oldText": f"{ESCAPES}", "newText": "clean"}
        self.update(
            "tool_call",
            toolCallId=f"c{ESCAPES}",
            title=f"<{ESCAPES}>",
            kind="edit",
            status="completed",
            content=[{"type": "content", "content": text}, diff],
            locations=[{"path": f"{self.cwd}/{ESCAPES}"}],
        )
        self.update("agent_message_chunk", content=text)
        # A sequence that is cut in two must not come together again.
        self.say("\x1b")
        self.say("[31mcut")
        self.say(" The end.")
        self.finish(asked)


NON_JSON_OUTPUT = (Noise, Escapes)


BEHAVIORS: Final = (
    *FLOODS,
    *NON_JSON_OUTPUT,
)
