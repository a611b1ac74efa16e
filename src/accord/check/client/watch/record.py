"""A conversation with a client that is over."""

from typing import TYPE_CHECKING

from accord.check.watch.record import Record

if TYPE_CHECKING:
    from accord.check.client.part import Part


class ClientRecord(Record):
    """One conversation, as the agent had it."""

    def __init__(self, part: "Part") -> None:
        super().__init__(part, part.offered, part.initialized)
        self.blamed = part.desk.blamed
        """The rule that is broken by whatever is used without being advertised; None: the one that is closest."""
