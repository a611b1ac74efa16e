"""A frame leaves after its record is committed, and an answer reaches the agent after its record is."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import (
    OWNER,
    DrivenClient,
    GatewayHarness,
    MemoryClientConnection,
    gateway_harness,
    open_session,
)
from tests.gateway.held_book import HeldBook
from tests.patience import PATIENCE

from accord.errors import AccordError, NotFound, StoreError
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.client_connection import LoggedFrame, OutgoingFrame
from accord.gateway.contracts import Fenced, RecordMark
from accord.gateway.gateway import Gateway
from accord.gateway.hosted_agent import AgentSource, HostedAgent
from accord.gateway.outbox import Outbox
from accord.gateway.session_log import FileBook
from accord.schema import AgentMessageChunk, TextContent
from accord.session import text_of
from accord.store import MemoryStore, SharedMemory
from accord.store.journal import PendingRecords
from accord.store.sqlite_store import SqliteStore
from accord.wire.memory_transport import memory_pair
from accord.wire.process import spawn

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
PERMISSION = {
    "sessionId": "s1",
    "toolCall": {"toolCallId": "c1", "title": "run", "rawInput": {"command": "make"}},
    "options": OPTIONS,
}
FORM = {
    "sessionId": "s1",
    "mode": "form",
    "message": "Name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


async def ask_permission(harness: GatewayHarness, client: DrivenClient) -> tuple[Any, Any]:
    """Ask for permission. Return the agent's request id and the request as the client got it."""
    asking = harness.agent.ask("session/request_permission", PERMISSION)
    return asking, await client.until_method("session/request_permission")


def answers_to(harness: GatewayHarness, id: Any) -> list[Any]:
    return [
        message for message in harness.agent.received if message.get("id") == id and "method" not in message
    ]


async def test_frames_wait_for_a_slow_commit_and_keep_their_order(audit: AuditLog, tmp_path: Path) -> None:
    book = HeldBook()
    async with gateway_harness(book=book, audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        prompt = client.prompt("s1")
        asked = await harness.agent.until_method("session/prompt")
        sent = len(client.connection.sent)
        book.hold()
        for text in ("one", "two", "three"):
            harness.agent.say("s1", text)
            await client.call("_accord/agents")  # depends on no log
        harness.agent.tell("s1", {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "run"})
        harness.agent.reply(asked, {"stopReason": "end_turn"})
        await client.call("_accord/agents")
        bodies = [frame.body for frame, _ in client.connection.sent[sent:]]
        assert len(bodies) == 4
        assert all(b"agents" in body for body in bodies)
        assert harness.gateway.outbox.waiting == 1
        book.release()
        updates, result = await client.updates_until(prompt)
        texts = [update.get("content", {}).get("text", update["sessionUpdate"]) for update in updates]
        assert texts == ["one", "two", "three", "tool_call"]
        assert result == {"stopReason": "end_turn"}
        assert harness.gateway.outbox.waiting == 0


async def test_the_history_of_a_loaded_session_waits_for_the_commit(audit: AuditLog, tmp_path: Path) -> None:
    book = HeldBook()
    async with gateway_harness(book=book, audit=audit) as harness:
        client, other = await harness.client(), await harness.client()
        await open_session(harness, client, tmp_path)
        client.prompt("s1")
        await harness.agent.until_method("session/prompt")
        book.hold()
        harness.agent.say("s1", "not yet committed")
        await client.call("_accord/agents")
        load = other.ask("session/load", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []})
        for _ in range(5):
            await other.call("_accord/agents")
        assert not any(b"not yet committed" in frame.body for frame, _ in other.connection.sent)
        book.release()
        updates, _ = await other.updates_until(load)
        texts = [update["content"]["text"] for update in updates if "chunk" in update["sessionUpdate"]]
        assert texts.count("not yet committed") == 1


async def test_a_new_session_is_shown_after_its_first_commit(audit: AuditLog, tmp_path: Path) -> None:
    book = HeldBook()
    async with gateway_harness(book=book, audit=audit) as harness:
        client = await harness.client()
        book.hold()
        opening = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await harness.agent.answer_new_session("s1")
        await client.call("_accord/agents")
        assert not any(message.get("id") == opening for message in client.received)
        book.release()
        assert (await client.answer_to(opening))["result"]["sessionId"] == "s1"


async def test_frames_of_a_failed_commit_are_never_sent(audit: AuditLog, tmp_path: Path) -> None:
    book = HeldBook()
    async with gateway_harness(book=book, audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        prompt = client.prompt("s1")
        asked = await harness.agent.until_method("session/prompt")
        book.hold()
        harness.agent.say("s1", "lost")
        harness.agent.reply(asked, {"stopReason": "end_turn"})
        await client.call("_accord/agents")
        book.fail("the stream is full")
        answer = await client.answer_to(prompt)
        assert answer["error"]["message"] == "the session cannot be logged: the stream is full"
        assert not any(b"lost" in frame.body for frame, _ in client.connection.sent)
        book.release()


@pytest.mark.parametrize("by_inbox", [False, True])
async def test_an_approval_reaches_the_agent_after_its_commit(
    audit: AuditLog, tmp_path: Path, by_inbox: bool
) -> None:
    book = HeldBook()
    async with gateway_harness(book=book, audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        asking, asked = await ask_permission(harness, client)
        id = await client.inbox_id()
        book.hold()
        answering: Any = None
        if by_inbox:
            answering = client.ask("_accord/inbox/answer", {"id": id, "result": YES})
        else:
            client.reply(asked, YES)
        await client.call("_accord/agents")
        assert answers_to(harness, asking) == []
        book.release()
        assert (await harness.agent.answer_to(asking))["result"] == YES
        if by_inbox:
            assert (await client.answer_to(answering))["result"] == {}


async def test_a_form_reaches_the_agent_after_its_commit(audit: AuditLog, tmp_path: Path) -> None:
    book = HeldBook()
    async with gateway_harness(book=book, audit=audit) as harness:
        client = await harness.client(elicitation={"form": {}})
        await open_session(harness, client, tmp_path)
        asking = harness.agent.ask("elicitation/create", FORM)
        asked = await client.until_method("elicitation/create")
        book.hold()
        client.reply(asked, {"action": "accept", "content": {"name": "secret"}})
        await client.call("_accord/agents")
        assert answers_to(harness, asking) == []
        book.release()
        assert (await harness.agent.answer_to(asking))["result"]["content"] == {"name": "secret"}
        records = list(book.store.read("hand/s1"))
        assert [record.kind for record in records if record.kind.startswith("gateway.")] == [
            "gateway.asked",
            "gateway.answered",
        ]
        assert not any(b"secret" in record.data for record in records)


async def test_an_approval_that_cannot_be_logged_is_refused(audit: AuditLog, tmp_path: Path) -> None:
    book = HeldBook()
    async with gateway_harness(book=book, audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        asking, _ = await ask_permission(harness, client)
        id = await client.inbox_id()
        book.hold()
        answering = client.ask("_accord/inbox/answer", {"id": id, "result": YES})
        await client.call("_accord/agents")
        book.fail("the stream is full")
        assert (await harness.agent.answer_to(asking))["result"] == CANCELLED
        error = (await client.answer_to(answering))["error"]
        assert error["message"] == "the answer was not given to the agent: the stream is full"
        book.release()
        assert len(answers_to(harness, asking)) == 1


async def test_a_cancelled_turn_overtakes_an_approval_that_waits(audit: AuditLog, tmp_path: Path) -> None:
    book = HeldBook()
    async with gateway_harness(book=book, audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        prompt = client.prompt("s1")
        turn = await harness.agent.until_method("session/prompt")
        asking, asked = await ask_permission(harness, client)
        book.hold()
        client.reply(asked, YES)
        client.notify("session/cancel", {"sessionId": "s1"})
        assert (await harness.agent.answer_to(asking))["result"] == CANCELLED
        book.release()
        harness.agent.reply(turn, {"stopReason": "cancelled"})
        await client.answer_to(prompt)
        assert len(answers_to(harness, asking)) == 1


async def test_a_prompt_waits_until_what_a_dead_agent_left_is_closed(audit: AuditLog, tmp_path: Path) -> None:
    book = HeldBook()
    async with gateway_harness(book=book, audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        first = client.prompt("s1")
        await harness.agent.until_method("session/prompt")
        harness.agent.tell("s1", {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "run"})
        await client.update()
        book.may_read.clear()
        await harness.agent.aclose()
        assert "error" in await client.answer_to(first)
        second = client.prompt("s1", "again")
        await client.call("_accord/agents")
        assert len(harness.agents) == 1, "the agent is not started before the log is closed"
        book.may_read.set()
        closed = await client.update()
        assert (closed["toolCallId"], closed["status"]) == ("c1", "failed")
        while len(harness.agents) < 2:
            await harness.gateway.agents["hand"].ensure_started()
        harness.agent.reply(await harness.agent.until_method("session/resume"), {})
        harness.agent.reply(await harness.agent.until_method("session/prompt"), {"stopReason": "end_turn"})
        assert (await client.answer_to(second))["result"] == {"stopReason": "end_turn"}


class FullDisk(MemoryStore):
    """A store that can be made unwritable."""

    is_full = False

    def _write(self, batch: dict[str, list[PendingRecords]]) -> None:
        if self.is_full:
            raise StoreError("no space left on the device")
        super()._write(batch)


async def test_a_full_disk_stops_no_turn_but_every_approval(audit: AuditLog, tmp_path: Path) -> None:
    store = FullDisk()
    async with gateway_harness(store=store, audit=audit) as harness:
        client = await harness.client(session={"notices": {}})
        await open_session(harness, client, tmp_path)
        prompt = client.prompt("s1")
        turn = await harness.agent.until_method("session/prompt")
        asking, asked = await ask_permission(harness, client)
        store.is_full = True
        harness.agent.say("s1", "still shown")
        assert (await client.update())["content"]["text"] == "still shown"
        client.reply(asked, YES)
        assert (await harness.agent.answer_to(asking))["result"] == CANCELLED
        notice = await client.update()
        assert notice["title"] == "The answer was not given to the agent."
        assert "no space left" in notice["description"]
        store.is_full = False
        harness.agent.reply(turn, {"stopReason": "end_turn"})
        await client.answer_to(prompt)
        updates, _ = await (await harness.client()).load("s1", str(tmp_path))
        chunks = [update for update in updates if update["sessionUpdate"].endswith("_chunk")]
        assert [chunk["content"]["text"] for chunk in chunks] == ["go", "still shown"]
        answers = [
            record.value.get("option")
            for record in store.read("hand/s1")
            if b"permission_answered" in record.data
        ]
        assert len(answers) == 2
        assert not answers[-1], "the log ends with what the agent heard"


async def test_a_gateway_killed_before_it_sends_has_committed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.gateway.killed_before_send", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[2])
    assert await asyncio.wait_for(process.wait(), PATIENCE) == -signal.SIGKILL
    with SqliteStore(tmp_path / "gateway.db") as store:
        log = FileBook(store).open_log("hand", "s1", str(tmp_path))
        reader = log.reader()
        assert [text_of(event) for event in await reader.page()] == ["go", "committed"]
        assert [type(event).__name__ for event in await log.claim()] == ["TurnEnded"]


async def test_frames_say_which_record_they_follow(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client, other = await harness.client(), await harness.client()
        await open_session(harness, client, tmp_path)
        await other.load("s1", str(tmp_path))
        sent = len(other.connection.sent)
        prompt = client.prompt("s1")
        asked = await harness.agent.until_method("session/prompt")
        harness.agent.say("s1", "hi")
        harness.agent.reply(asked, {"stopReason": "end_turn"})
        await client.answer_to(prompt)
        log = next(iter(harness.gateway.sessions)).log
        response = next(
            mark
            for (frame, _), mark in zip(client.connection.sent, client.connection.marks, strict=True)
            if b"end_turn" in frame.body
        )
        assert response is not None
        assert (response.log, response.number) == (log, log.noted)
        shown = [frame for frame, _ in other.connection.sent[sent:] if b"session/update" in frame.body]
        assert len(shown) == 2
        assert all(isinstance(frame, LoggedFrame) for frame in shown)


async def test_an_inbox_id_of_an_earlier_gateway_is_not_accepted(audit: AuditLog, tmp_path: Path) -> None:
    memory = SharedMemory()
    ids: list[str] = []
    for _ in range(2):
        async with gateway_harness(store=MemoryStore(memory), audit=audit) as harness:
            client = await harness.client()
            if not ids:
                await open_session(harness, client, tmp_path)
            else:
                loading = client.ask(
                    "session/load", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []}
                )
                harness.agent.reply(await harness.agent.until_method("session/load"), {})
                await client.answer_to(loading)
            asking, _ = await ask_permission(harness, client)
            ids.append(await client.inbox_id())
            if len(ids) == 2:
                error = await client.error("_accord/inbox/answer", {"id": ids[0], "result": YES})
                assert error["code"] == -32002
                assert answers_to(harness, asking) == []
    log, epoch, number = ids[1].split(".")
    assert ids[0].split(".")[0] == log
    assert int(epoch) > int(ids[0].split(".")[1])
    assert number.isdecimal()


class LostLease:
    """The fence of a node that has lost its lease."""

    is_lost = False

    def check(self) -> None:
        if self.is_lost:
            raise Fenced("this node has lost its lease")


async def test_a_fenced_gateway_neither_calls_nor_answers_its_agents(audit: AuditLog, tmp_path: Path) -> None:
    fence = LostLease()
    async with gateway_harness(audit=audit, fence=fence) as harness:
        fence.is_lost = True
        refused = await harness.connect().error("initialize", {"protocolVersion": 1})
        assert refused["message"] == "this node has lost its lease"
        assert not harness.agent_started.is_set()
        fence.is_lost = False
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        asking, asked = await ask_permission(harness, client)
        fence.is_lost = True
        client.reply(asked, YES)
        failed = await client.answer_to(client.prompt("s1"))
        assert failed["error"]["message"] == "this node has lost its lease"
        assert answers_to(harness, asking) == []
        assert not any(message.get("method") == "session/prompt" for message in harness.agent.received)
        fence.is_lost = False


async def test_a_gateway_without_agents_says_so(audit: AuditLog) -> None:
    gateway = Gateway([], FileBook(MemoryStore()), audit=audit)
    with pytest.raises(NotFound, match="covers no agent"):
        gateway.open(MemoryClientConnection(memory_pair()[0], "line-1"), OWNER, None)
    await gateway.aclose()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a FIFO and a shell")
async def test_kill_ends_the_whole_process_group_at_once(audit: AuditLog, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)

    async def start(_stderr: Any) -> Any:
        return await spawn(["sh", "-c", f"exec 3>'{alive}'; sleep 1000 & echo started >&3; wait"])

    gateway = Gateway([AgentSource(name="sleeper", start=start)], FileBook(MemoryStore()), audit=audit)
    agent: HostedAgent = gateway.agents["sleeper"]
    starting = asyncio.create_task(agent.ensure_started())
    with await asyncio.to_thread(alive.open, "rb") as pipe:
        assert await asyncio.to_thread(pipe.readline) == b"started\n"
        agent.kill()
        assert await asyncio.to_thread(pipe.read) == b"", "both processes have ended"
    with pytest.raises(AccordError):
        await starting
    await gateway.aclose()


class EchoingClient:
    """Posts one more frame for each of the first frames that it is sent."""

    connected = True

    def __init__(self, book: HeldBook, more: int) -> None:
        self.connection = self
        self.outbox = Outbox(book)
        self.log = book.open_log("a", "s1", "/project", new=True)
        self.sent: list[bytes] = []
        self._more = more

    def post(self, body: bytes) -> None:
        self.outbox.post([self], OutgoingFrame(body), "s1", self.log)  # type: ignore[list-item]
        self.outbox.flush()

    def send(self, frames: list[OutgoingFrame], stream: str | None, mark: RecordMark | None) -> None:
        self.sent += [frame.body for frame in frames]
        if self._more:
            self._more -= 1
            self.post(b"more %d" % self._more)


async def test_a_frame_that_is_posted_while_another_is_sent_follows_it() -> None:
    book = HeldBook()
    client = EchoingClient(book, more=2)
    for body in (b"first", b"second"):
        book.hold()
        client.log.append(AgentMessageChunk(TextContent("hello")))
        client.post(body)
        assert client.outbox.waiting == 1
        book.release()
        assert client.outbox.waiting == 0
    assert client.sent == [b"first", b"more 1", b"more 0", b"second"]
