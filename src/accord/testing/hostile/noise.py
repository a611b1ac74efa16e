"""Agents that write to stdout what is no message, and into their messages what no terminal should see."""

from accord.testing.hostile.agent import HostileAgent, Json

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


HABITS = (Noise, Escapes)
