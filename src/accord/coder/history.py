"""What the model remembers of a session: it grows, is sometimes replaced by less, and is logged as it does.

The log keeps every entry; what the model remembers is the fold of them. What the user saw is logged apart, as events.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from accord.coder.messages import Message, repair

KIND: Final = "model"
"""The kind of the records in a session's log."""

Why: TypeAlias = Literal["compacted", "refused"]


class Added(Struct, frozen=True, tag="added"):
    """These came after all others."""

    messages: tuple[Message, ...]


class Replaced(Struct, frozen=True, tag="replaced"):
    """From here on the model remembers these instead of all before."""

    messages: tuple[Message, ...]
    why: Why


Entry: TypeAlias = Added | Replaced

_DECODER: Final[msgspec.json.Decoder[Entry]] = msgspec.json.Decoder(Entry)


class Log(Protocol):
    """Where entries are written; a store's `Journal` is one."""

    def record(self, kind: str, *values: Any) -> None: ...


class History:
    """The messages of one run of the loop, logged where there is a log: a sub-agent's are not."""

    def __init__(self, log: Log | None = None, messages: Iterable[Message] = ()) -> None:
        self.messages: list[Message] = list(messages)
        self._log = log

    def add(self, *messages: Message) -> None:
        """Remember these too."""
        self.messages += messages
        if self._log is not None and messages:
            self._log.record(KIND, Added(messages))

    def replace(self, messages: Sequence[Message], why: Why) -> None:
        """Remember these, and nothing else."""
        self.messages = list(messages)
        if self._log is not None:
            self._log.record(KIND, Replaced(tuple(messages), why))

    def sound(self) -> list[Message]:
        """What a provider can be sent, whatever happened on the way."""
        return repair(self.messages)


def fold(messages: list[Message], data: bytes) -> None:
    """Make of what was remembered before an entry of the log what is remembered after it. Raises `MsgspecError`."""
    entry = _DECODER.decode(data)
    if isinstance(entry, Replaced):
        messages.clear()
    messages += entry.messages
