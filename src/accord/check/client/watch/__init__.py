"""The watch over a client: what every line of every conversation shows, whatever the scene was about."""

from typing import TYPE_CHECKING

from accord.check.ledger import Ledger

if TYPE_CHECKING:
    from accord.check.client.part import Part


async def watch(part: "Part", ledger: Ledger) -> None:
    """Look over a conversation that is over."""
    from accord.check.client.watch import calls, gates, lines, schema
    from accord.check.client.watch.record import ClientRecord
    from accord.check.watch import look_over

    parts = (lines, schema, gates, calls)
    await look_over(ClientRecord(part), ledger, [part.look for part in parts])
