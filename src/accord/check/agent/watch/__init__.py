"""The watch: what every line of every conversation shows, whatever the scene was about."""

from typing import TYPE_CHECKING

from accord.check.ledger import Ledger

if TYPE_CHECKING:
    from accord.check.agent.talk import Talk


def watch(talk: "Talk", ledger: Ledger) -> None:
    """Look over a conversation that is over."""
    from accord.check.agent.watch import asking, envelope, gates, schema, settings, toolcalls, turns, unstable
    from accord.check.agent.watch.record import Record

    record = Record(talk)
    for part in (envelope, schema, gates, turns, toolcalls, asking, settings, unstable):
        try:
            part.look(record, ledger)
        except Exception as error:  # noqa: BLE001 - a message that nobody foresaw must not end the run
            ledger.broken("schema", f"a message that cannot be judged ({type(error).__name__})")
