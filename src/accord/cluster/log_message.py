"""The messages of a session log: one commit of records is one message, or several parts if it is large.

Records are numbered from 1 without gaps. The sequence of a message in its stream is only its address: other
sessions share the stream. Nothing here does I/O.
"""

import os
import time
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import MsgspecError, Raw, Struct, json

from accord.cluster.jetstream import MESSAGE_ID, StoredMessage
from accord.cluster.placement import Placement
from accord.cluster.streams import LOG_FORMAT, LOG_ID_ALPHABET
from accord.errors import StoreError
from accord.store.records import RecordGroup, json_array

HEADER: Final = "Acc"
PART_BYTES: Final = 512 * 1024
MAX_PARTS: Final = 512
"""Of one commit, so that a damaged log cannot fill the memory."""
OWNER: Final = "gateway.owner"
"""The kind of the record with which a node becomes the writer of a session."""
RELEASED: Final = "gateway.released"
"""The kind of the record with which the writer gives a session up: any node may claim it at once."""


def new_log_id() -> str:
    """A new log id: a ULID, which sorts by its time."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join([LOG_ID_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5)])


class OwnerRecord(Struct, frozen=True, omit_defaults=True):
    """The payload of `OWNER` and `RELEASED` records. The index can be rebuilt from it."""

    node: str
    incarnation: str
    epoch: int
    agent: str = ""
    session_id: str = ""
    placement: Placement = Placement()
    agent_id: str = ""
    """The agent's own id of the session, if it is another one."""


class CommitHead(Struct, frozen=True, gc=False):
    """The header of a message: which records it holds, and who wrote them."""

    epoch: int
    """Counts the writers of the session. A writer of an earlier epoch can add nothing."""
    first: int
    count: int
    part: int
    parts: int
    writer: str
    """`<node>:<incarnation>`"""

    @property
    def text(self) -> str:
        """The value of the header."""
        return f"{LOG_FORMAT} {self.epoch} {self.first} {self.count} {self.part}/{self.parts} {self.writer}"

    @property
    def last(self) -> int:
        """The number of the last record so far: those of an unfinished commit do not count."""
        return self.first + self.count - 1 if self.part == self.parts else self.first - 1

    def message_id(self, log: str) -> str:
        """The id by which servers recognize a repeated message.

        It names the writer: two nodes that claim a session at once use the same epoch and number, and a
        server would tell the second one that its message is stored.
        """
        return f"{log}.{self.epoch}.{self.first}.{self.part}.{self.writer}"


class Commit(Struct, frozen=True):
    """Records that were committed together."""

    head: CommitHead
    sequence: int
    """Of its last message in the stream."""
    groups: list[RecordGroup]
    authors: dict[int, str]
    """The client line that caused a record and must not get it back, by record number."""


class _Body(Struct, frozen=True, omit_defaults=True):
    t: int
    runs: list[tuple[str, list[Raw]]]
    by: dict[str, str] = {}


def read_head(message: StoredMessage) -> CommitHead:
    """The head of a message. Raises StoreError."""
    text = message.headers.get(HEADER, "")
    fields = text.split(" ")
    try:
        if int(fields[0]) != LOG_FORMAT:
            raise StoreError(
                f"message {message.sequence} of {message.subject} has log format {fields[0]}; this version "
                f"reads {LOG_FORMAT}: use a newer version of Accord"
            )
        _, epoch, first, count, parts, writer = fields
        part, _, total = parts.partition("/")
        head = CommitHead(int(epoch), int(first), int(count), int(part), int(total), writer)
    except ValueError:
        raise _damaged(message) from None
    if not (
        head.epoch >= 1 and head.first >= 1 and head.count >= 1 and 1 <= head.part <= head.parts <= MAX_PARTS
    ):
        raise _damaged(message)
    return head


def is_released(last: StoredMessage | None) -> bool:
    """Whether the last record of a log gives the session up."""
    if last is None:
        return True
    head = read_head(last)
    if head.parts != 1:
        return False
    try:
        runs = json.decode(last.data)["runs"]
        return runs[-1][0] == RELEASED
    except (MsgspecError, KeyError, IndexError, TypeError):
        return False


def is_same_message(message: StoredMessage | None, log: str, head: CommitHead) -> bool:
    """Whether a message of the stream is the one that we sent."""
    return (
        message is not None
        and message.headers.get(MESSAGE_ID) == head.message_id(log)
        and message.headers.get(HEADER) == head.text
    )


def encode_commit(
    epoch: int,
    first: int,
    writer: str,
    records: Sequence[tuple[str, bytes]],
    time: int,
    authors: dict[int, str] | None = None,
) -> list[tuple[CommitHead, bytes]]:
    """The messages of one commit: the heads and bodies of its parts. `records` are kinds and payloads."""
    runs: list[tuple[str, list[Raw]]] = []
    for kind, payload in records:
        if not runs or runs[-1][0] != kind:
            runs.append((kind, []))
        runs[-1][1].append(Raw(payload))
    by = {str(number): line for number, line in (authors or {}).items()}
    body = json.encode(_Body(time, runs, by))
    pieces = [body[start : start + PART_BYTES] for start in range(0, len(body), PART_BYTES)]
    return [
        (CommitHead(epoch, first, len(records), part, len(pieces), writer), piece)
        for part, piece in enumerate(pieces, 1)
    ]


class CommitReader:
    """Puts the messages of a log together and checks that no record is missing."""

    def __init__(self, last: int = 0, epoch: int = 0, sequence: int = 0) -> None:
        self.last: int = last
        """The number of the last record."""
        self.epoch: int = epoch
        self.sequence: int = sequence
        """Of the last message read."""
        self._parts: list[bytes] = []
        self._open: CommitHead | None = None

    def feed(self, messages: Iterable[StoredMessage]) -> list[Commit]:
        """Read the next messages; return the commits that they complete. Raises StoreError.

        A message that was read before is ignored.
        """
        commits: list[Commit] = []
        for message in messages:
            if message.sequence > self.sequence:
                commit = self._read(message)
                if commit is not None:
                    commits.append(commit)
        return commits

    def _read(self, message: StoredMessage) -> Commit | None:
        head = read_head(message)
        if head.part == 1:
            self._parts = []  # a commit that its writer could not finish ends here
        elif self._open is None or self._open != _part_before(head):
            raise _damaged(message)
        if head.first != self.last + 1 or head.epoch < self.epoch:
            raise _damaged(message)
        self.sequence = message.sequence
        self._parts.append(message.data)
        self._open = head
        if head.part < head.parts:
            return None
        body, self._parts, self._open = b"".join(self._parts), [], None
        groups, authors = _groups(head, body, message)
        self.last, self.epoch = head.last, head.epoch
        return Commit(head, message.sequence, groups, authors)


def _part_before(head: CommitHead) -> CommitHead:
    return CommitHead(head.epoch, head.first, head.count, head.part - 1, head.parts, head.writer)


def _groups(
    head: CommitHead, body: bytes, message: StoredMessage
) -> tuple[list[RecordGroup], dict[int, str]]:
    try:
        decoded = json.decode(body, type=_Body)
        authors = {int(number): line for number, line in decoded.by.items()}
    except (MsgspecError, ValueError):
        raise _damaged(message) from None
    groups: list[RecordGroup] = []
    number = head.first
    for kind, payloads in decoded.runs:
        groups.append(RecordGroup(number, len(payloads), decoded.t, kind, json_array(payloads)))
        number += len(payloads)
    if number != head.first + head.count:
        raise _damaged(message)
    return groups, authors


def _damaged(message: StoredMessage) -> StoreError:
    return StoreError(
        f"the session log {message.subject} is damaged at message {message.sequence} and cannot be read"
    )
