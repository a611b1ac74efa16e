"""The client's lines: the envelopes, and what it answers where nobody asked."""

from typing import Final

from accord.check.client.watch.record import ClientRecord
from accord.check.ledger import Ledger
from accord.check.watch import envelope
from accord.trace.exchange import at

_UNREADABLE: Final = (-32700, -32600)


def look(record: ClientRecord, ledger: Ledger) -> None:
    """Judge them."""
    envelope.look(record, ledger, envelope.OF_CLIENTS)
    for line in record.sent:
        if line.method == "session/cancel":
            ledger.judge(160, not line.is_request, "without an id", "it is a request", [line.shown])
        unasked = line.is_answer and line.id is None
        if unasked and at(line.message, "error", "code") not in _UNREADABLE:
            ledger.broken(14, "an answer without an id, to something that was no request", [line.shown])
