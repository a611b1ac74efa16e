"""The watch: what every line of every conversation shows, whatever the scene was about. What holds for both sides alike."""

import asyncio
from collections.abc import Sequence
from typing import Protocol, TypeVar

from accord.check.ledger import Ledger
from accord.check.verdict import SCHEMA
from accord.check.watch.record import Record

RecordT = TypeVar("RecordT", bound=Record, contravariant=True)


class Look(Protocol[RecordT]):
    """One part of a watch."""

    def __call__(self, record: RecordT, ledger: Ledger) -> None:
        """Judge a conversation."""
        ...


async def look_over(record: RecordT, ledger: Ledger, looks: "Sequence[Look[RecordT]]") -> None:
    """Let each part look over a conversation that is over; between them others have their turn."""
    for line in record.sent:
        if line.unread:
            ledger.unjudged(SCHEMA, f"not judged: {line.unread}", [line.shown])
    if record.flood:
        ledger.unjudged(SCHEMA, f"only the beginning was judged of {record.flood}")
    for look in looks:
        await asyncio.sleep(0)
        try:
            look(record, ledger)
        except Exception as error:  # noqa: BLE001 - a message that nobody foresaw must not end the run
            ledger.broken(SCHEMA, f"a message that cannot be judged ({type(error).__name__})")
