"""What a client may only do where the agent advertises it."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from accord.check.client.watch.record import ClientRecord
from accord.check.ledger import Ledger
from accord.check.lines import Line
from accord.trace.exchange import at, listed


class Gate(NamedTuple):
    """A method, the capability it needs, and the rule that says so."""

    method: str
    capability: str
    rule: int


GATES: Final = (
    Gate("logout", "auth.logout", 86),
    Gate("session/load", "loadSession", 103),
    Gate("session/resume", "sessionCapabilities.resume", 109),
    Gate("session/close", "sessionCapabilities.close", 113),
    Gate("session/list", "sessionCapabilities.list", 116),
    Gate("session/delete", "sessionCapabilities.delete", 126),
    Gate("session/fork", "sessionCapabilities.fork", 282),
    Gate("providers/list", "providers", 295),
    Gate("providers/set", "providers", 295),
    Gate("providers/disable", "providers", 295),
    Gate("session/archive", "sessionCapabilities.archive", 330),
    Gate("session/unarchive", "sessionCapabilities.archive", 330),
    Gate("session/status", "sessionCapabilities.status", 341),
    Gate("session/set_title", "sessionCapabilities.title", 346),
    Gate("auth/status", "auth.status", 357),
)
_BLOCKS: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
_SERVERS: Final = {"http": 98, "sse": 99, "acp": 301}


def look(record: ClientRecord, ledger: Ledger) -> None:
    """Judge every call that needs something of the agent."""
    for line in record.calls:
        for rule, capability, what in _needs(line):
            offered = record.advertises(capability)
            bad = f"{what} is used, and the agent does not advertise {capability}"
            blamed = rule if offered or record.blamed is None else record.blamed
            ledger.judge(blamed, offered, f"{what} is advertised", bad, [line.shown])


def _needs(line: Line) -> Iterator[tuple[int, str, str]]:
    for gate in GATES:
        if gate.method == line.method:
            yield gate.rule, gate.capability, line.method
    if listed(line.params, "additionalDirectories"):
        yield 129, "sessionCapabilities.additionalDirectories", "additionalDirectories"
    for server in listed(line.params, "mcpServers"):
        kind = at(server, "type")
        if isinstance(kind, str) and kind in _SERVERS:
            yield _SERVERS[kind], f"mcpCapabilities.{kind}", f"an MCP server over {kind}"
    for block in listed(line.params, "prompt"):
        kind = at(block, "type")
        if isinstance(kind, str) and kind in _BLOCKS:
            yield 141, f"promptCapabilities.{_BLOCKS[kind]}", f"a block of type {kind}"
    if line.method == "session/list" and at(line.params, "archived") is not None:
        yield 330, "sessionCapabilities.archive", "the filter `archived`"
    prompt: Any = at(line.params, "systemPrompt")
    if isinstance(prompt, dict):
        yield 351, "sessionCapabilities.systemPrompt", "systemPrompt"
        if cast("dict[str, Any]", prompt).get("mode") == "override":
            yield 351, "sessionCapabilities.systemPrompt.mode.override", "the mode override"
