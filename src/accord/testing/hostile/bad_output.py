"""Agents that flood, print non-JSON, or send escape sequences."""

import json
import os
from typing import Final

from accord.testing.hostile.hostile_agent import HostileAgent, Json

FLOOD_CHUNKS: Final = 20_000
"""The number of chunks that `floods` sends before its answer."""
HUGE_MESSAGE_BYTES: Final = 65 * 1024 * 1024
"""The size of the text of `huge-message`: over the limit of 64 MiB of Accord's clients."""


class Floods(HostileAgent):
    """Sends 20,000 numbered chunks at once, then answers."""

    name = "floods"

    def prompt(self, request: Json) -> None:
        self.write(b"".join(self._chunk(number) for number in range(FLOOD_CHUNKS)))
        self.finish(request)

    def _chunk(self, number: int) -> bytes:
        update = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": f"{number} {'x' * 80}\n"},
        }
        params = {"sessionId": self.session, "update": update}
        return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"


class FloodsForever(Floods):
    """Sends text without end and ignores cancel."""

    name = "floods-forever"

    def prompt(self, request: Json) -> None:
        number = 0
        while True:
            self.write(self._chunk(number))
            number += 1


class FloodsStderr(HostileAgent):
    """Writes 8 MiB with escape sequences to stderr before it answers."""

    name = "floods-stderr"

    def prompt(self, request: Json) -> None:
        line = b"\x1b[31mDEBUG\x1b[0m " + b"y" * 240 + b"\n"
        for _ in range(8 * 1024 * 1024 // len(line)):
            os.write(2, line)
        self.say("Did you read all that?")
        self.finish(request)


class HugeMessage(HostileAgent):
    """Sends an update of 65 MiB in one line, then continues."""

    name = "huge-message"

    def prompt(self, request: Json) -> None:
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
        self.write(head.encode())
        block = b"z" * (1024 * 1024)
        for _ in range(HUGE_MESSAGE_BYTES // len(block)):
            self.write(block)
        self.write(tail.encode() + b"\n")
        self.say("There it was.")
        self.finish(request)


class DeepMessage(HostileAgent):
    """Sends 100,000 opening brackets in a line, and a valid update nested as deeply, then continues."""

    name = "deep-message"

    def prompt(self, request: Json) -> None:
        deep = b"[" * 100_000
        self.write(deep + b"\n")
        self.write(
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
            + self.session.encode()
            + b'","update":{"sessionUpdate":"tool_call","toolCallId":"deep","title":"Deep","rawInput":'
            + deep
            + b"]" * 100_000
            + b"}}}\n"
        )
        self.say("Still there?")
        self.finish(request)


NOISE: Final[tuple[bytes, ...]] = (
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

ESCAPES: Final = (
    "\x1b[2J\x1b[H"  # clears the screen
    "\x1b]0;owned\x07"  # sets the window title
    "\x1b]52;c;aGk=\x07"  # fills the clipboard
    "\x1b[31mred\x9b1m"  # colors, also as 8-bit control characters
    "back\x08\x08\x08\x08fore\r"  # overwrites visible text
    "\u202eesrever\u202c\u2066\u2069"  # reverses the text direction
    "\x00\x7f\u200b"
)


class Noise(HostileAgent):
    """Prints banners, log lines, broken JSON, batches and binary data around its messages."""

    name = "noise"

    def print_noise(self) -> None:
        for line in NOISE:
            self.write(line + b"\r\n")

    def start(self) -> None:
        self.print_noise()

    def new_session(self, request: Json) -> None:
        self.print_noise()
        super().new_session(request)
        self.print_noise()

    def prompt(self, request: Json) -> None:
        self.say("One, ")
        self.print_noise()
        self.say("two.")
        self.finish(request)
        self.print_noise()


class Escapes(HostileAgent):
    """Puts terminal escapes and bidirectional characters into every text a client shows."""

    name = "escapes"

    def prompt(self, request: Json) -> None:
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
        # A client must not join the two halves of an escape sequence.
        self.say("\x1b")
        self.say("[31mcut")
        self.say(" The end.")
        self.finish(request)


BEHAVIORS: Final[tuple[type[HostileAgent], ...]] = (
    Floods, FloodsForever, FloodsStderr, HugeMessage, DeepMessage, Noise, Escapes,
)  # fmt: skip
