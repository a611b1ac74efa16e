"""Trace files for the tests: builds them by hand, and reads them back."""

from pathlib import Path
from typing import Any

import msgspec

from accord.trace.trace_format import (
    Sender,
    TraceEntry,
    TraceStart,
    entry_line,
    frame_entry,
    make_start,
    parse_line,
    start_line,
)


class TraceBuilder:
    """Builds one recorded run. Each message comes `after` seconds after the last, by default one."""

    def __init__(self, run: str = "aaaaaa", *, command: tuple[str, ...] = ("agent", "--acp")) -> None:
        self.run = run
        self.at = 0.0
        self.entries: list[TraceEntry] = []
        self._start = make_start(run, "2026-11-16T10:00:00.000Z", by="a test", command=command)
        self._ids = 0

    def frame(self, sender: Any, message: Any, *, after: float = 1.0) -> "TraceBuilder":
        self.at += after
        data = message if isinstance(message, bytes) else msgspec.json.encode({"jsonrpc": "2.0", **message})
        self.entries.append(frame_entry(self.at, sender, data, run=self.run))
        return self

    def call(
        self, sender: Any, method: str, params: Any = None, *, id: Any = None, after: float = 1.0
    ) -> Any:
        if id is None:
            self._ids += 1
            id = self._ids
        self.frame(
            sender, {"id": id, "method": method, "params": {} if params is None else params}, after=after
        )
        return id

    def answer(self, sender: Any, id: Any, result: Any, *, after: float = 1.0) -> "TraceBuilder":
        return self.frame(sender, {"id": id, "result": result}, after=after)

    def error(self, sender: Any, id: Any, code: int, message: str) -> "TraceBuilder":
        return self.frame(sender, {"id": id, "error": {"code": code, "message": message}})

    def notify(self, sender: Any, method: str, params: Any, *, after: float = 1.0) -> "TraceBuilder":
        return self.frame(sender, {"method": method, "params": params}, after=after)

    def update(self, session: str, after: float = 1.0, **update: Any) -> "TraceBuilder":
        return self.notify("agent", "session/update", {"sessionId": session, "update": update}, after=after)

    def say(self, session: str, text: str, after: float = 1.0) -> "TraceBuilder":
        return self.update(
            session, after, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}
        )

    def note(self, kind: Any, sender: Sender | None = None, **more: Any) -> "TraceBuilder":
        self.at += 1.0
        self.entries.append(TraceEntry(run=self.run, at=self.at, kind=kind, sender=sender, **more))
        return self

    def opened(self, session: str = "s1", **capabilities: Any) -> "TraceBuilder":
        """Add the handshake and one new session."""
        first = self.call(
            "client",
            "initialize",
            {"protocolVersion": 1, "clientCapabilities": capabilities.pop("client", {})},
        )
        self.answer("agent", first, {"protocolVersion": 1, "agentCapabilities": capabilities})
        return self.new(session)

    def new(self, session: str, cwd: str = "/project") -> "TraceBuilder":
        made = self.call("client", "session/new", {"cwd": cwd, "mcpServers": []})
        return self.answer("agent", made, {"sessionId": session})

    def prompt(self, session: str, text: str) -> Any:
        return self.call(
            "client", "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        )

    def write(self, path: Path) -> Path:
        with path.open("ab") as file:
            file.write(start_line(self._start))
            file.writelines(map(entry_line, self.entries))
        return path


def entries_in(file: Path) -> list[TraceEntry]:
    return [
        found for line in file.read_bytes().splitlines() if isinstance(found := parse_line(line), TraceEntry)
    ]


def starts_in(file: Path) -> list[TraceStart]:
    return [
        found for line in file.read_bytes().splitlines() if isinstance(found := parse_line(line), TraceStart)
    ]
