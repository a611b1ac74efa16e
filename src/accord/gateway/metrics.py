"""The gateway's counters, and their Prometheus text. Counting is adding to an attribute, so it is cheap."""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple


class Metric(NamedTuple):
    """One number of another part of the gateway."""

    name: str
    """With its prefix, and its labels if it has some."""
    kind: str
    help: str
    value: float


_METRICS: Final = (
    ("connections", "gauge", "Open client connections, including those waiting for their client to resume."),
    ("sockets", "gauge", "Open sockets."),
    ("streams", "gauge", "Open event streams."),
    ("frames_in", "counter", "Messages received from clients."),
    ("frames_out", "counter", "Messages written to clients."),
    ("bytes_in", "counter", "Bytes of the messages received from clients."),
    ("bytes_out", "counter", "Bytes of the messages written to clients."),
    ("resumed", "counter", "Connections resumed by their client."),
    ("cut_off", "counter", "Sockets closed because their client did not read."),
    ("lost", "counter", "Connections closed because too much was buffered for an absent client."),
    ("processes", "gauge", "Running agent processes."),
    ("pending_approvals", "gauge", "Permission requests and questions waiting for an answer."),
)
_LABELED_METRICS: Final = (
    ("sessions", "state", "gauge", "Live sessions by state."),
    ("requests", "status", "counter", "HTTP requests by status code."),
    ("refused", "reason", "counter", "Requests refused, by reason."),
)


class Metrics:
    """The numbers of one gateway. The HTTP server counts sockets and frames, the gateway the rest."""

    def __init__(self) -> None:
        self.connections: int = 0
        self.sockets: int = 0
        self.streams: int = 0
        self.frames_in: int = 0
        self.frames_out: int = 0
        self.bytes_in: int = 0
        self.bytes_out: int = 0
        self.resumed: int = 0
        self.cut_off: int = 0
        self.lost: int = 0
        self.processes: int = 0
        self.pending_approvals: int = 0
        self.sessions: Counter[str] = Counter()
        """By state: `running`, `waiting`, `idle`."""
        self.requests: Counter[str] = Counter()
        """By status code."""
        self.refused: Counter[str] = Counter()
        """By reason: a few fixed words, never text from a peer."""
        self.more: Callable[[], list[Metric]] = list
        """More numbers, of a cluster."""
        self.unready: Callable[[], str] = str
        """Why clients should use another gateway now; empty if there is no reason."""

    def text(self) -> str:
        """Return the Prometheus text format."""
        lines: list[str] = []
        for name, kind, help_text in _METRICS:
            metric = _metric_name(name, kind)
            lines += _header_lines(metric, kind, help_text)
            lines.append(f"{metric} {getattr(self, name)}")
        for name, label, kind, help_text in _LABELED_METRICS:
            metric = _metric_name(name, kind)
            lines += _header_lines(metric, kind, help_text)
            counts: Counter[str] = getattr(self, name)
            lines += [
                f'{metric}{{{label}="{_escape_label(value)}"}} {counts[value]}' for value in sorted(counts)
            ]
        for metric in self.more():
            name = metric.name.partition("{")[0]
            if not any(line.startswith(f"# HELP {name} ") for line in lines):
                lines += _header_lines(name, metric.kind, metric.help)
            lines.append(f"{metric.name} {metric.value:.12g}")
        return "\n".join(lines) + "\n"


def _metric_name(name: str, kind: str) -> str:
    return f"accord_{name}_total" if kind == "counter" else f"accord_{name}"


def _header_lines(metric: str, kind: str, help_text: str) -> list[str]:
    return [f"# HELP {metric} {help_text}", f"# TYPE {metric} {kind}"]


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
