"""What the gateway counts, and its Prometheus text. Counting is adding to an attribute: it costs nothing on the hot path."""

from collections import Counter
from typing import Final

_FAMILIES: Final = (
    ("connections", "gauge", "Lines that are open, those waiting for their client to come back included."),
    ("sockets", "gauge", "Sockets that are open."),
    ("streams", "gauge", "Event streams that are being read."),
    ("frames_in", "counter", "Messages received from clients."),
    ("frames_out", "counter", "Messages written to clients."),
    ("bytes_in", "counter", "Bytes of the messages received from clients."),
    ("bytes_out", "counter", "Bytes of the messages written to clients."),
    ("resumed", "counter", "Lines that a returning client took up again."),
    ("cut_off", "counter", "Sockets closed because their client did not read."),
    ("lost", "counter", "Lines given up because too much was waiting for an absent client."),
    ("processes", "gauge", "Agent processes that run."),
    ("pending_approvals", "gauge", "Approvals and questions that wait for an answer."),
)
_LABELLED: Final = (
    ("sessions", "state", "gauge", "Live sessions by state."),
    ("requests", "status", "counter", "HTTP requests by status code."),
    ("refused", "reason", "counter", "Requests refused, by reason."),
)


class Metrics:
    """The numbers of one gateway. The front counts what concerns sockets, the core the rest."""

    def __init__(self) -> None:
        self.connections = 0
        self.sockets = 0
        self.streams = 0
        self.frames_in = 0
        self.frames_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.resumed = 0
        self.cut_off = 0
        self.lost = 0
        self.processes = 0
        self.pending_approvals = 0
        self.sessions: Counter[str] = Counter()
        """By state: `running`, `waiting`, `idle`."""
        self.requests: Counter[str] = Counter()
        """By status code."""
        self.refused: Counter[str] = Counter()
        """By reason; few and fixed words, never what a peer sent."""

    def text(self) -> str:
        """All of it in the Prometheus text format."""
        lines: list[str] = []
        for name, kind, meaning in _FAMILIES:
            full = _full(name, kind)
            lines += _head(full, kind, meaning)
            lines.append(f"{full} {getattr(self, name)}")
        for name, label, kind, meaning in _LABELLED:
            full = _full(name, kind)
            lines += _head(full, kind, meaning)
            counts: Counter[str] = getattr(self, name)
            lines += [f'{full}{{{label}="{_escaped(value)}"}} {counts[value]}' for value in sorted(counts)]
        return "\n".join(lines) + "\n"


def _full(name: str, kind: str) -> str:
    return f"accord_{name}_total" if kind == "counter" else f"accord_{name}"


def _head(full: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
