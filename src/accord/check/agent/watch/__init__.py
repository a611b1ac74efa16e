"""The watch over an agent: what every line of every conversation shows, whatever the scene was about."""

from typing import TYPE_CHECKING

from accord.check.ledger import Ledger

if TYPE_CHECKING:
    from accord.check.agent.talk import Talk


async def watch(talk: "Talk", ledger: Ledger) -> None:
    """Look over a conversation that is over."""
    from accord.check.agent.watch import asking, gates, lines, schema, settings, toolcalls, turns, unstable
    from accord.check.agent.watch.record import AgentRecord
    from accord.check.watch import look_over

    parts = (lines, schema, gates, turns, toolcalls, asking, settings, unstable)
    await look_over(AgentRecord(talk), ledger, [part.look for part in parts])
