"""The strict walk over everything the client sends."""

from typing import Final

from accord.check.client.watch.record import ClientRecord
from accord.check.ledger import Ledger, Rule
from accord.check.verdict import SCHEMA
from accord.check.watch.messages import MOST_TOLD, Door, Sent, sent
from accord.schema.walk import violations

_SETUP: Final = ("session/new", "session/load", "session/resume", "session/fork")
_VOID: Final = ("fs/write_text_file=", "terminal/kill=", "terminal/release=")

DOORS: Final = (
    Door(("initialize",), r"protocolVersion", 59),
    Door(("initialize",), r"^\$\.capabilities: unknown member", 61),
    Door(("initialize",), r"clientInfo", 60),
    Door(_SETUP, r"mcpServers\[\d+\].*headers|mcpServers\[\d+\].*url", 101),
    Door(_SETUP, r"mcpServers\[", 100),
    Door(("session/new",), r"cwd|mcpServers", 90),
    Door(("session/set_config_option",), r"", 218),
    Door(("session/request_permission=",), r"", 197),
    Door(_VOID, r"^\$: expected object", 35),
    Door(("fs/read_text_file=",), r"", 239),
    Door(("terminal/output=",), r"", 250),
    Door(("terminal/wait_for_exit=",), r"", 252),
    Door(("elicitation/create=",), r"", 271),
    Door(("mcp/message=",), r"", 365),
)
_SHOWN_BY: Final[dict[str, Rule]] = {
    **dict.fromkeys(_VOID, 35),
    "initialize": 59,
    "session/new": 90,
    "fs/read_text_file=": 239,
    "elicitation/create=": 271,
    "session/set_config_option": 218,
}
"""The rule that a sound message of this kind shows to be kept."""


def look(record: ClientRecord, ledger: Ledger) -> None:
    """Walk over every message of the client."""
    for one in sent(record):
        _judge(one, ledger)


def _judge(one: Sent, ledger: Ledger) -> None:
    line, where = one.line, one.where
    blamed: set[Rule] = set()
    for violation in violations(one.type, one.value)[:MOST_TOLD]:
        doors: list[Rule] = [door.rule for door in DOORS if door.takes(where, str(violation))]
        unknown = violation.reason == "unknown member" and (not doors or doors[0] != 61)
        rule: Rule = 43 if unknown else doors[0] if doors else SCHEMA
        blamed.add(rule)
        ledger.broken(rule, f"{where.rstrip('=')}: {violation}", [line.shown], walked=True)
    if 43 not in blamed:
        ledger.kept(43, "no message has members of its own")
    if SCHEMA not in blamed:
        ledger.kept(SCHEMA, "every message fits")
    if where == "initialize" and 61 not in blamed:
        ledger.kept(61, "capabilities are where they belong", [line.shown])
    shown = _SHOWN_BY.get(where)
    if shown is not None and shown not in blamed:
        ledger.kept(shown, "as the schema has it", [line.shown])
