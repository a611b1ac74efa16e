"""The seam between a script and one provider's wire format."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from accord.testing.models.script import Answer, Drop, Fault, Gate

Frame: TypeAlias = bytes | Gate | Drop
"""What the server does next: write this, wait here, break off here."""


class Format(Protocol):
    """How one provider says things."""

    def frames(self, answer: Answer, number: int, model: str) -> Iterator[Frame]:
        """The stream of an answer; `number` tells the answers of a server apart."""
        ...

    def error(self, fault: Fault) -> dict[str, Any]:
        """The body of an error."""
        ...

    def listing(self, models: Sequence[str]) -> dict[str, Any]:
        """The list of models."""
        ...


def event(data: Mapping[str, Any] | str, name: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
