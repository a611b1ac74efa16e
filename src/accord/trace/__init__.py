"""Traces of connections: tap, redact, record, read back, replay."""

from accord.trace.frame_buffer import FrameRing, RingEntry
from accord.trace.tap import FrameSink, TappedTransport, record_to_file
from accord.trace.trace_format import TraceEntry, TraceStart

__all__ = [
    "FrameRing",
    "FrameSink",
    "RingEntry",
    "TappedTransport",
    "TraceEntry",
    "TraceStart",
    "record_to_file",
]
