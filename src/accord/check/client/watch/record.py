"""A conversation with a client that is over, with what the watches ask of it."""

from functools import cached_property
from typing import TYPE_CHECKING

from accord.check.agent.lines import Line
from accord.check.agent.watch.record import Record
from accord.trace.exchange import at

if TYPE_CHECKING:
    from accord.check.client.part import Part


class ClientRecord(Record):
    """One conversation, as the agent had it."""

    def __init__(self, part: "Part") -> None:
        self.name = part.name
        self.lines = part.lines
        self.offered = part.offered
        self.initialized = part.initialized
        self.blamed = part.desk.blamed
        self.began = bool(part.lines)

    @cached_property
    def from_client(self) -> list[Line]:
        """The client's lines."""
        return [line for line in self.lines if line.sender == "client"]

    @cached_property
    def calls(self) -> list[Line]:
        """The client's requests and notifications."""
        return [line for line in self.from_client if line.method]

    def advertises(self, path: str) -> bool:
        """Whether the agent advertised a capability, by its path."""
        found = at(self.initialized, "agentCapabilities", *path.split("."))
        return found is True or isinstance(found, dict)
