"""A tap on a connection: record, redact, read back, replay."""

from accord.trace.lines import Entry, Start
from accord.trace.tap import Ring, Sink, Tapped, tapped

__all__ = ["Entry", "Ring", "Sink", "Start", "Tapped", "tapped"]
