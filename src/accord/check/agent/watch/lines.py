"""The agent's lines: the envelopes, and what only some lines can show."""

from accord.check.agent.watch.record import AgentRecord
from accord.check.ledger import Ledger
from accord.check.watch import envelope


def look(record: AgentRecord, ledger: Ledger) -> None:
    """Judge them."""
    envelope.look(record, ledger, envelope.OF_AGENTS)
    sound = [line for line in record.sent if line.message is not None]
    several = next((line for line in sound if b"\\n" in line.data), None)
    if several is not None:
        ledger.kept(3, "text of several lines came in one line", [several.shown])
    strange = next((line for line in sound if not line.data.isascii() or b"\\u" in line.data), None)
    if strange is not None:
        ledger.kept(5, "what is not ASCII came as UTF-8 or escaped", [strange.shown])
