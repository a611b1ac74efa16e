"""The strict walk over everything that one side sends: each violation is laid at the door of the rule that says it closest."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from accord.check.ledger import Rule
from accord.check.lines import Line, Side
from accord.check.watch.record import Record
from accord.schema.methods import notification, request

MOST_TOLD: Final = 100
"""The violations in one message that are told of; one with a thousand is no worse."""


class Door(NamedTuple):
    """Where a violation belongs: `where` is a kind of update, a method, or a method with `=` for its result."""

    where: tuple[str, ...]
    pattern: str
    rule: Rule

    def takes(self, where: str, text: str) -> bool:
        """Whether this is its place."""
        return where in self.where and re.search(self.pattern, text) is not None


class Sent(NamedTuple):
    """Params or a result that the schema knows: the line, where it belongs, the type, and the value."""

    line: Line
    where: str
    type: Any
    value: Any


def sent(record: Record) -> Iterator[Sent]:
    """All that the side under test sent and the schema has a type for."""
    other: Side = "client" if record.side == "agent" else "agent"
    for line in record.calls:
        find = request if line.is_request else notification
        entry = find(other, line.method)
        if entry is not None:
            params: Any = {} if line.params is None else line.params
            yield Sent(line, line.kind or line.method, entry.params, params)
    for exchange in record.owed:
        entry = request(record.side, exchange.request.method)
        for answer in exchange.answers[:1]:
            message = answer.message or {}
            if entry is not None and "result" in message:
                yield Sent(answer, f"{exchange.request.method}=", entry.result, message["result"])
