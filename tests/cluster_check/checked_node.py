"""A node of a cluster check: `accord serve` that writes down what it appended, and misses some feed messages.

`python -m tests.cluster_check.checked_node HISTORIES NAME BUG WORDS...`. With a BUG it breaks one of the
promises, to show that the check notices. Nothing in Accord itself knows of any of this.
"""

import re
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.cluster_check.history import History

from accord.cli import main
from accord.cluster import cluster_node
from accord.cluster.connection import REQUEST_SECONDS, NatsConnection, NatsMessage, NatsSubscription, connect
from accord.cluster.jetstream import EXPECTED, JetStream, StoredMessage, read_message
from accord.cluster.log_message import HEADER
from accord.cluster.nodes import NodeLease
from accord.cluster.session_feed import SessionFeed
from accord.gateway.pending_requests import PendingRequests

_SESSION: Final = re.compile(rb'"gateway.owner".*?"session_id":"([^"]*)"')
_MISSED: Final = 10
"""Every so-manieth message of the feeds is lost."""


class RecordedJetStream(JetStream):
    """Writes each acknowledged append to a session log into the history."""

    history: History
    fenced = True

    async def append(
        self, subject: str, data: bytes, headers: dict[str, str], seconds: float = REQUEST_SECONDS
    ) -> int:
        if HEADER not in headers:
            return await super().append(subject, data, headers, seconds)
        if not self.fenced:
            headers = {name: value for name, value in headers.items() if name != EXPECTED}
        sequence = await super().append(subject, data, headers, seconds)
        opened = _SESSION.search(data)
        self.history.write(
            "appended",
            subject=subject,
            sequence=sequence,
            head=headers[HEADER],
            session=None if opened is None else opened[1].decode(),
        )
        return sequence


async def _lossy_connect(*arguments: Any, **options: Any) -> NatsConnection:
    connection = await connect(*arguments, **options)
    subscribe, numbers = connection.subscribe, count(1)

    async def lossy(subject: str, receive: Callable[[NatsMessage], None]) -> NatsSubscription:
        def receive_most(message: NatsMessage) -> None:
            if ".feed." not in subject or next(numbers) % _MISSED:
                receive(message)

        return await subscribe(subject, receive_most)

    connection.subscribe = lossy  # type: ignore[method-assign]
    return connection


def _no_fence() -> None:
    """Appends expect nothing, and a lease that another node broke is taken back."""

    async def take_back(lease: NodeLease) -> bool:
        current = await lease._read()
        lease._revision = 0 if current is None else current.revision
        return True

    RecordedJetStream.fenced = False
    NodeLease.check = lambda self: None  # type: ignore[method-assign]
    NodeLease._fence = lambda self, reason: None  # type: ignore[method-assign]
    NodeLease._is_ours = take_back  # type: ignore[method-assign]


def _answer_before_commit() -> None:
    """The agent gets an answer at once, before its record is committed."""
    answer = PendingRequests.answer

    def answer_at_once(
        self: PendingRequests, pending: Any, raw_result: bytes, option: Any, **more: Any
    ) -> None:
        pending.upstream.answer(pending.agent_request_id, raw_result)
        answer(self, pending, raw_result, option, **more)

    PendingRequests.answer = answer_at_once  # type: ignore[method-assign,assignment]
    PendingRequests._deliver = lambda *arguments: None  # type: ignore[method-assign,assignment]


def _feed_without_gap_rule() -> None:
    """A feed shows each message that arrives, whatever was before it."""

    def take_anything(self: SessionFeed, message: NatsMessage) -> None:
        stored: StoredMessage = read_message(message)
        commits = self._reader._commits
        if not self._closed and stored.sequence > commits.sequence:
            commits.last = int(stored.headers[HEADER].split(" ")[2]) - 1
            self._take([stored])

    SessionFeed._on_message = take_anything  # type: ignore[method-assign]


BUGS: Final[dict[str, Callable[[], None]]] = {
    "no-fence": _no_fence,
    "answer-before-commit": _answer_before_commit,
    "feed-without-gap-rule": _feed_without_gap_rule,
}


def run() -> int:
    folder, name, bug, *words = sys.argv[1:]
    RecordedJetStream.history = History(Path(folder), f"node-{name}")
    RecordedJetStream.history.write("started", bug=bug)
    cluster_node.JetStream = RecordedJetStream  # type: ignore[misc]
    cluster_node.connect = _lossy_connect  # type: ignore[assignment]
    if bug != "none":
        BUGS[bug]()
    return main(words)


if __name__ == "__main__":
    sys.exit(run())
