"""Traces of connections: tap, redact, record, read back, replay."""

from accord.trace.tap import FrameRing, FrameSink, RingEntry, TappedTransport, tapped
from accord.trace.trace_format import TraceEntry, TraceStart

__all__ = ["FrameRing", "FrameSink", "RingEntry", "TappedTransport", "TraceEntry", "TraceStart", "tapped"]
