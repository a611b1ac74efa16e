"""The session logs of a run: written to the folder of the histories, and read without Accord's own reader."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.nats_servers import jetstream_of
from tests.cluster_check.check_world import CheckWorld
from tests.cluster_check.history import History, read_history
from tests.cluster_check.marks import is_question, shown_marks

from accord.cluster.jetstream import JetStream, StoredMessage

OWNER = "gateway.owner"
TURN = "_accord/turn_started"


async def save_logs(world: CheckWorld) -> None:
    """Write all messages of all log streams to the folder."""
    history = History(world.folder, "log")
    async with jetstream_of(world.settings, "check") as jetstream:
        for shard in ("00", "01"):
            for message in await _messages(jetstream, shard):
                history.write(
                    "message",
                    subject=message.subject,
                    sequence=message.sequence,
                    head=message.headers.get("Acc", ""),
                    data=message.data.decode(),
                )
    history.close()


async def _messages(jetstream: JetStream, shard: str) -> list[StoredMessage]:
    """All messages of a stream, as its leader has them: a replica may be behind."""
    stream = f"CHECK_LOG_{shard}"
    while True:
        state = json.loads(await jetstream.api(f"STREAM.INFO.{stream}"))["state"]
        found = [message async for message in jetstream.messages(stream, f"check.log.{shard}.*")]
        if len(found) == state["messages"]:
            return found
        await asyncio.sleep(0.2)


@dataclass(frozen=True)
class StoredCommit:
    """One commit as it is stored."""

    sequence: int
    epoch: int
    first: int
    count: int
    writer: str
    records: list[tuple[str, Any]]


@dataclass
class StoredLog:
    """The log of one session."""

    subject: str
    session: str = ""
    heads: dict[int, str] = field(default_factory=dict)
    """By sequence: the headers of all messages, also of unfinished commits."""
    commits: list[StoredCommit] = field(default_factory=list)
    _parts: list[tuple[list[str], str]] = field(default_factory=list)

    def add(self, sequence: int, head: str, data: str) -> None:
        """Add the next message."""
        self.heads[sequence] = head
        _, epoch, first, count, parts, writer = fields = head.split(" ")
        part, total = map(int, parts.split("/"))
        if part == 1:
            self._parts = []
        self._parts.append((fields, data))
        if part < total or len(self._parts) != total:
            return
        runs = json.loads("".join(data for _, data in self._parts))["runs"]
        records = [(kind, payload) for kind, payloads in runs for payload in payloads]
        self.commits.append(StoredCommit(sequence, int(epoch), int(first), int(count), writer, records))
        for kind, payload in records:
            if kind == OWNER:
                self.session = payload.get("session_id", self.session)

    @property
    def events(self) -> Iterable[tuple[str, Any]]:
        """The kinds and payloads of all events."""
        for commit in self.commits:
            for kind, payload in commit.records:
                if kind == "event":
                    yield payload.get("sessionUpdate", ""), payload

    def marks(self) -> list[str]:
        """What its clients see, in order: a question counts when it is first seen."""
        found: list[str] = []
        for kind, payload in self.events:
            for mark in shown_marks(kind, payload):
                if not is_question(mark) or mark not in found:
                    found.append(mark)
        return found

    def has_turns(self, *, before: str) -> bool:
        """Whether it had a prompt of another client than this: sessions without any are not listed."""
        prompts = [
            mark for kind, payload in self.events if kind == TURN for mark in shown_marks(kind, payload)
        ]
        return any(not mark.startswith(before) for mark in prompts)


def read_logs(folder: Path) -> list[StoredLog]:
    """The saved logs."""
    logs: dict[str, StoredLog] = {}
    for entry in read_history(folder / "log.jsonl"):
        log = logs.setdefault(entry["subject"], StoredLog(entry["subject"]))
        log.add(entry["sequence"], entry["head"], entry["data"])
    return list(logs.values())
