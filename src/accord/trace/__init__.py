"""Traces of connections: tap, redact, record, read back, replay. Names are imported on first use."""

from typing import TYPE_CHECKING

from accord.lazy_names import lazy_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.trace.frame_buffer import FrameRing, RingEntry
    from accord.trace.tap import FrameSink, TappedTransport, record_to_file
    from accord.trace.trace_format import TraceEntry, TraceStart

__all__ = [
    "FrameRing", "FrameSink", "RingEntry", "TappedTransport", "TraceEntry", "TraceStart", "record_to_file",
]  # fmt: skip

__getattr__: "Callable[[str], object]" = lazy_names(
    __name__,
    {
        "accord.trace.frame_buffer": "FrameRing RingEntry",
        "accord.trace.tap": "FrameSink TappedTransport record_to_file",
        "accord.trace.trace_format": "TraceEntry TraceStart",
    },
)
