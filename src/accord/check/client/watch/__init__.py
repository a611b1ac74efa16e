"""The watch: what every line of every conversation with the client shows, whatever the scene was about."""

from typing import TYPE_CHECKING

from accord.check.ledger import Ledger

if TYPE_CHECKING:
    from accord.check.client.part import Part


def watch(part: "Part", ledger: Ledger) -> None:
    """Look over a conversation that is over."""
    from accord.check.client.watch import calls, envelope, gates, schema
    from accord.check.client.watch.record import ClientRecord

    record = ClientRecord(part)
    for each in (envelope, schema, gates, calls):
        try:
            each.look(record, ledger)
        except Exception as error:  # noqa: BLE001 - a message that nobody foresaw must not end the run
            ledger.broken("schema", f"a message that cannot be judged ({type(error).__name__})")
