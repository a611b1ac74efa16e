"""`CommitTransport`: a frame is sent only after the records logged before it are committed."""

import logging
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.store.store_contract import chunk, logged_texts
from tests.wire.links import MemoryLink
from tests.wire.transport_contract import CHECKS, Inbox, Link

from accord.agent import Agent, AgentSession, Turn
from accord.schema import AgentMessageChunk, TextContent
from accord.session import TurnEnded, TurnStarted, text_of
from accord.store import CommitTransport, Journal, MemoryStore, Store
from accord.store.sqlite_store import SqliteStore
from accord.testing.raw_peer import raw_pair
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Transport


class LoggingTransport:
    """A transport in front of `CommitTransport` that logs a record with every frame."""

    def __init__(self, gate: Transport, journal: Journal) -> None:
        self._gate = gate
        self._journal = journal

    def send(self, frame: bytes) -> None:
        self._journal.record("frame", len(frame))
        self._gate.send(frame)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)


@asynccontextmanager
async def commit_first_link() -> AsyncGenerator[Link]:
    link = MemoryLink()
    store = MemoryStore()
    store.create("s1", "/home/me")
    commit_first = CommitTransport(link.near, store)
    link.near = LoggingTransport(commit_first, store.journal("s1"))  # type: ignore[assignment]
    try:
        yield link
    finally:
        await link.near.aclose()
        await link.far.aclose()


@pytest.mark.parametrize("check", CHECKS)
async def test_commit_first_passes_the_transport_contract(check: str) -> None:
    await CHECKS[check](commit_first_link)


class FrameRecorder:
    """A transport behind `CommitTransport` that records, for each frame, what another process can read at
    that moment.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.sent: list[tuple[bytes, list[str]]] = []
        self.unsent = 0

    def send(self, frame: bytes) -> None:
        self.sent.append((frame, logged_texts(self.store, "s1")))

    async def drain(self) -> None: ...

    async def aclose(self) -> None: ...


async def test_frames_are_sent_after_the_commit_of_their_records(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as store, SqliteStore(tmp_path / "s.db") as other:
        store.create("s1", "/home/me")
        journal = store.journal("s1")
        recorder = FrameRecorder(other)
        gate = CommitTransport(recorder, store)  # type: ignore[arg-type]
        gate.send(b"nothing logged")
        assert recorder.sent == [(b"nothing logged", [])]
        journal.append(chunk("one"))
        gate.send(b"one")
        gate.send(b"no record of its own")
        journal.append(chunk("two"))
        gate.send(b"two")
        assert (len(recorder.sent), gate.unsent) == (1, len(b"onetwono record of its own"))
        await gate.drain()
        both = ["one", "two"]
        assert recorder.sent[1:] == [(b"one", both), (b"no record of its own", both), (b"two", both)]
        assert gate.unsent == 0
        journal.append(chunk("three"))
        for _ in range(10):
            gate.send(b"x" * 20_000)
        assert len(recorder.sent) > 4, "frames must not all wait when there are many"
        assert all(read == [*both, "three"] for _, read in recorder.sent[4:])
        await gate.aclose()
        assert len(recorder.sent) == 14


async def test_a_failed_commit_is_logged_and_frames_are_still_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "s.db"
    with SqliteStore(path, busy_seconds=0.01) as store:
        store.create("s1", "/home/me")
        journal = store.journal("s1")
        lock = sqlite3.connect(path, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        ours, theirs = memory_pair()
        inbox = Inbox()
        theirs.start(inbox)
        gate = CommitTransport(ours, store)
        journal.append(chunk("one"))
        with caplog.at_level(logging.ERROR, "accord.store"):
            gate.send(b"one")
            assert await inbox.count(1) == [b"one"]
        assert str(path) in caplog.text
        lock.execute("ROLLBACK")
        lock.close()
        journal.append(chunk("two"))
        journal.commit()
        assert logged_texts(store, "s1") == ["one", "two"]


async def test_every_update_that_the_client_receives_is_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    agent = Agent("logger", version="1")
    with SqliteStore(path) as store, SqliteStore(path) as other:

        @agent.new_session
        async def begin(session: AgentSession) -> None:
            store.create(session.id, session.cwd)
            session.data = store.journal(session.id)

        @agent.prompt
        async def reply(turn: Turn) -> None:
            journal: Journal = turn.session.data
            journal.append(TurnStarted(turn.blocks))
            for word in ("one", "two", "three"):
                update = AgentMessageChunk(TextContent(word), "m1")
                journal.append(update)
                await turn.update(update)
            journal.append(TurnEnded("end_turn", "end_turn"))

        ours, client = raw_pair(validate="agent")
        connection = agent.connect(CommitTransport(ours, store))
        await client.call("initialize", {"protocolVersion": 1})
        opened = await client.call("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        session_id = opened["sessionId"]
        asked = client.ask(
            "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "go"}]}
        )
        for seen in range(1, 4):
            message = await client.next("session/update")
            words = [text_of(event) for event in other.events(session_id)]
            assert message["params"]["update"]["content"]["text"] in words
            assert len(words) > seen
        answer = await client.answer_to(asked)
        assert answer["result"]["stopReason"] == "end_turn"
        assert isinstance(list(other.events(session_id))[-1], TurnEnded)
        await connection.aclose()
        await client.aclose()
