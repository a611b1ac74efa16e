"""A tap on a connection: record, redact, read back, replay."""

from accord.trace.lines import Entry, Start
from accord.trace.ring import Ring, Seen
from accord.trace.tap import Sink, Tapped, tapped

__all__ = ["Entry", "Ring", "Seen", "Sink", "Start", "Tapped", "tapped"]
