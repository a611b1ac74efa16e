"""Several nodes on one NATS server: a client of any node sees a session as its owner does."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cluster.nats_servers import RunningServer
from tests.gateway.breakable_proxy import breakable_proxy
from tests.gateway.gateway_harness import (
    ALL,
    DrivenAgent,
    DrivenClient,
    GatewayHarness,
    gateway_harness,
    open_session,
)
from tests.patience import PATIENCE

from accord.cluster import cluster_log, log_writer
from accord.cluster.cluster_node import ClusterNode, run_node
from accord.cluster.cluster_router import ClusterRouter
from accord.cluster.connection import NatsMessage, NatsSubscription
from accord.cluster.placement import MARKER, read_volumes
from accord.cluster.settings import ClusterSettings, LeaseTimes
from accord.errors import RpcError, UsageError
from accord.gateway.access.access_tokens import Credential, Token, TokenRights, new_token
from accord.gateway.access.audit_log import AuditLog
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Transport

ASK = {
    "toolCall": {"toolCallId": "c1", "title": "Touch it"},
    "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))


class RunningNode:
    """A node with a gateway, its agent and its clients in this process."""

    def __init__(self, node: ClusterNode, harness: GatewayHarness, router: ClusterRouter) -> None:
        self.node = node
        self.harness = harness
        self.router = router


@asynccontextmanager
async def running_node(
    settings: ClusterSettings,
    tmp_path: Path,
    name: str,
    *,
    start: Callable[[], Transport] | None = None,
    **changes: Any,
) -> AsyncGenerator[RunningNode]:
    settings = msgspec.structs.replace(settings, node=name, **changes)
    audit = AuditLog(tmp_path / f"{name}.jsonl")
    async with run_node(settings, ["hand"]) as node:
        async with gateway_harness(book=node.book, fence=node.fence, audit=audit, start=start) as harness:
            router = await node.serve(harness.gateway)
            harness.opener, harness.name = router, name
            harness.rights = await token_rights(node, settings.prefix)
            try:
                yield RunningNode(node, harness, router)
            finally:
                await node.stop_serving()
        await node.book.aclose()


_tokens: dict[str, tuple[Token, str]] = {}
"""By prefix: the token of the clients of a test, and its text."""


async def token_rights(node: ClusterNode, prefix: str) -> TokenRights:
    """The rights of a token that all nodes know."""
    token, text = _tokens.setdefault(prefix, new_token("test", now=time.time()))
    assert node.access is not None
    if node.access.tokens.get(token.id) is None:
        await node.access.tokens.add(token)
    return msgspec.structs.replace(token.rights("192.0.2.7"), credential=Credential(text))


def texts(updates: list[Any]) -> list[str]:
    return [update["content"]["text"] for update in updates if "content" in update]


async def prompt_and_answer(owner: RunningNode, client: DrivenClient, words: list[str]) -> list[str]:
    """Prompt at any node; return what the client saw before the end of the turn."""
    prompted = client.prompt("s1")
    request = await owner.harness.agent.until_method("session/prompt")
    for word in words:
        owner.harness.agent.say("s1", word)
    owner.harness.agent.reply(request, {"stopReason": "end_turn"})
    updates, _ = await asyncio.wait_for(client.updates_until(prompted), PATIENCE)
    return texts(updates)


async def test_a_client_of_another_node_prompts_answers_and_watches(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        owner = await a.harness.client()
        await open_session(a.harness, owner, tmp_path)
        assert await prompt_and_answer(a, owner, ["one"]) == ["one"]

        client = await b.harness.client()
        history, _ = await asyncio.wait_for(client.load("s1", str(tmp_path)), PATIENCE)
        assert texts(history) == ["go", "one"]
        words = [f"{number} " for number in range(200)]
        assert await prompt_and_answer(a, client, words) == words
        seen = [await owner.update() for _ in range(201)]
        assert texts(seen) == ["go", *words]

        prompted = client.prompt("s1")
        request = await a.harness.agent.until_method("session/prompt")
        a.harness.agent.say("s1", "before")
        asked = a.harness.agent.ask("session/request_permission", {"sessionId": "s1", **ASK})
        assert texts([await client.update()]) == ["before"]
        question = await client.until_method("session/request_permission")
        client.reply(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        answer = await a.harness.agent.answer_to(asked)
        assert answer["result"]["outcome"]["optionId"] == "yes"
        a.harness.agent.reply(request, {"stopReason": "end_turn"})
        await asyncio.wait_for(client.updates_until(prompted), PATIENCE)

        asked = client.ask("session/list", {"cwd": str(tmp_path)})
        b.harness.agent.reply(await b.harness.agent.until_method("session/list"), {"sessions": []})
        listed = (await client.answer_to(asked))["result"]["sessions"]
        assert [info["sessionId"] for info in listed] == ["s1"]
        assert len(a.router.host) == 1
        await client.call("session/close", {"sessionId": "s1"})


async def test_the_list_of_sessions_shows_what_they_do_at_other_nodes(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        owner, client = await a.harness.client(), await b.harness.client()
        await client.call("_accord/sessions", {"subscribe": True})
        await open_session(a.harness, owner, tmp_path)
        owner.prompt("s1")
        request = await a.harness.agent.until_method("session/prompt")
        states: list[str] = []
        while "running" not in states:
            states.append(await changed_state(client))
        (entry,) = (await client.call("_accord/sessions"))["sessions"]
        assert (entry["sessionId"], entry["node"], entry["state"], entry["live"]) == (
            "s1",
            "a",
            "running",
            True,
        )
        a.harness.agent.reply(request, {"stopReason": "end_turn"})
        while states[-1] != "idle":
            states.append(await changed_state(client))


async def changed_state(client: DrivenClient) -> str:
    return (await client.until_method("_accord/sessions"))["params"]["changed"]["state"]


async def test_a_client_that_joins_during_a_turn_sees_everything_once_although_messages_are_lost(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        drop_feed_messages(b, keep=3)
        owner, client = await a.harness.client(), await b.harness.client()
        await open_session(a.harness, owner, tmp_path)
        owner.prompt("s1")
        request = await a.harness.agent.until_method("session/prompt")
        words = [f"{number} " for number in range(60)]
        for word in words[:20]:
            a.harness.agent.say("s1", word)
        history, _ = await asyncio.wait_for(client.load("s1", str(tmp_path)), PATIENCE)
        for word in words[20:]:
            a.harness.agent.say("s1", word)
            await owner.update()  # one commit each, so that some of them are lost
        asked = a.harness.agent.ask("session/request_permission", {"sessionId": "s1", **ASK})
        seen = texts(history)
        while len(seen := [*seen, *texts([await client.update()])]) and seen[-1] != words[-1]:
            pass
        assert "".join(seen) == "go" + "".join(words)
        question = await client.until_method("session/request_permission")
        client.reply(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        assert "result" in await a.harness.agent.answer_to(asked)
        a.harness.agent.reply(request, {"stopReason": "end_turn"})
        assert b.router.feed_gaps > 0


async def test_the_last_record_is_shown_although_its_message_is_lost(
    server: RunningServer, tmp_path: Path
) -> None:
    """Nothing follows it that would show the gap: the node of the session says how long the log is."""
    settings = server.settings(times=LeaseTimes(renew=0.2, deadline=PATIENCE, lease=PATIENCE * 2))
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        drop_feed_messages(b, keep=0)
        owner, client = await a.harness.client(), await b.harness.client()
        await open_session(a.harness, owner, tmp_path)
        await client.load("s1", str(tmp_path))
        owner.prompt("s1")
        await a.harness.agent.until_method("session/prompt")
        seen = texts([await asyncio.wait_for(client.update(), PATIENCE)])
        words = ["one", "two", "three", "four"]
        for word in words:
            a.harness.agent.say("s1", word)
            seen += texts([await asyncio.wait_for(client.update(), PATIENCE)])
        assert seen == ["go", *words]


def drop_feed_messages(node: RunningNode, *, keep: int) -> None:
    """Lose the messages of the feeds of a node, but for every third, say. 0 loses all."""
    connection = node.node.connection
    subscribe = connection.subscribe
    numbers = count()

    async def lossy(subject: str, receive: Callable[[NatsMessage], None]) -> NatsSubscription:
        def receive_some(message: NatsMessage) -> None:
            if ".feed." not in subject or (keep and next(numbers) % keep == 0):
                receive(message)

        return await subscribe(subject, receive_some)

    connection.subscribe = lossy  # type: ignore[method-assign]


async def test_a_broken_connection_between_nodes_loses_nothing(server: RunningServer, tmp_path: Path) -> None:
    settings = server.settings(times=LeaseTimes(renew=0.2, deadline=PATIENCE, lease=PATIENCE * 2))
    async with breakable_proxy(server.port) as proxy:
        through_proxy = (f"nats://127.0.0.1:{proxy.port}",)
        async with (
            running_node(settings, tmp_path, "a") as a,
            running_node(settings, tmp_path, "b", servers=through_proxy) as b,
        ):
            owner, client = await a.harness.client(), await b.harness.client()
            await open_session(a.harness, owner, tmp_path)
            await client.load("s1", str(tmp_path))
            owner.prompt("s1")
            await a.harness.agent.until_method("session/prompt")
            a.harness.agent.say("s1", "before ")
            seen = [(await client.update())["content"]["text"] for _ in range(2)]
            proxy.cut()
            a.harness.agent.say("s1", "meanwhile ")
            await owner.update()
            a.harness.agent.ask("session/request_permission", {"sessionId": "s1", **ASK})
            seen.append((await client.update())["content"]["text"])
            assert seen == ["go", "before ", "meanwhile "]
            question = await client.until_method("session/request_permission")
            assert question["params"]["toolCall"]["toolCallId"] == "c1"


async def test_a_session_of_a_stopped_node_opens_elsewhere_if_its_folder_is_there(
    server: RunningServer, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / MARKER).write_text("v1")
    settings = server.settings(volumes={"team": str(project)}, homes={"hand": "h1"})
    async with running_node(settings, tmp_path, "b") as b:
        client = await b.harness.client()
        async with running_node(settings, tmp_path, "a") as a:
            owner = await a.harness.client()
            await open_session(a.harness, owner, project)
            await client.load("s1", str(project))
        prompted = client.prompt("s1")
        b.harness.agent.reply(await b.harness.agent.until_method("session/resume"), {})
        request = await b.harness.agent.until_method("session/prompt")
        b.harness.agent.say("s1", "here")
        b.harness.agent.reply(request, {"stopReason": "end_turn"})
        updates, _ = await asyncio.wait_for(client.updates_until(prompted), PATIENCE)
        assert texts(updates) == ["here"]
        entry = b.node.book.index.find("hand", "s1")
        assert entry is not None
        assert (entry.node, entry.epoch) == ("b", 2)


async def test_two_agents_that_count_their_sessions_are_told_apart(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        at_a, at_b = await a.harness.client(), await b.harness.client()
        await asyncio.gather(  # at the same time: one of them gets the id
            open_session(a.harness, at_a, tmp_path, "s0"), open_session(b.harness, at_b, tmp_path, "s0")
        )
        assert await open_session(a.harness, at_a, tmp_path) == "s1"
        asked = at_b.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        new = await b.harness.agent.until_method("session/new")
        b.harness.agent.tell("s1", {"sessionUpdate": "current_mode_update", "currentModeId": "early"})
        b.harness.agent.reply(new, {"sessionId": "s1"})
        b.harness.agent.tell("s1", {"sessionUpdate": "current_mode_update", "currentModeId": "late"})
        assert (await at_b.answer_to(asked))["result"]["sessionId"] == "s1~b"
        modes = [(await at_b.until_method("session/update"))["params"] for _ in range(2)]
        assert [mode["update"]["currentModeId"] for mode in modes] == ["early", "late"]
        assert {mode["sessionId"] for mode in modes} == {"s1~b"}

        client = await a.harness.client()  # at the other node
        await client.load("s1~b", str(tmp_path))
        prompted = client.prompt("s1~b")
        request = await b.harness.agent.until_method("session/prompt")
        assert request["params"]["sessionId"] == "s1"
        asked = b.harness.agent.ask("session/request_permission", {"sessionId": "s1", **ASK})
        question = await client.until_method("session/request_permission")
        assert question["params"]["sessionId"] == "s1~b"
        client.reply(question, {"outcome": {"outcome": "cancelled"}})
        assert "result" in await b.harness.agent.answer_to(asked)
        b.harness.agent.reply(request, {"stopReason": "end_turn"})
        await asyncio.wait_for(client.updates_until(prompted), PATIENCE)
        listing = at_b.ask("session/list", {})
        listed = [{"sessionId": "s1", "cwd": str(tmp_path), "updatedAt": "2999-01-01T00:00:00Z"}]
        b.harness.agent.reply(await b.harness.agent.until_method("session/list"), {"sessions": listed})
        sessions = (await at_b.answer_to(listing))["result"]["sessions"]
        newest = [session["sessionId"] for session in sessions if session["updatedAt"].startswith("2999")]
        assert newest == ["s1~b"]


async def test_a_client_of_another_node_gets_the_output_of_commands(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        await open_session(a.harness, await a.harness.client(), tmp_path)
        client = await b.harness.client()
        await client.load("s1", str(tmp_path))
        agent, params = a.harness.agent, {"sessionId": "s1"}
        created = await agent.call("terminal/create", {**params, "command": "echo", "args": ["hello"]})
        content = [{"type": "terminal", "terminalId": created["terminalId"]}]
        call = {"toolCallId": "c", "content": content}
        agent.tell("s1", {**call, "sessionUpdate": "tool_call", "title": "Run"})
        await agent.call("terminal/wait_for_exit", {**params, "terminalId": created["terminalId"]})
        agent.tell("s1", {**call, "sessionUpdate": "tool_call_update", "status": "completed"})
        shown = [await asyncio.wait_for(client.update(), PATIENCE) for _ in range(3)]
        texts_of = [[item["content"]["text"] for item in update.get("content", ())] for update in shown]
        assert texts_of == [[], ["```\nhello\n```"], []]  # without content it stays


async def test_clients_are_told_that_a_stream_is_full_and_read_on(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_UNWRITTEN", 25_000)  # the agent is paused meanwhile
    settings = server.settings(log_bytes=20_000)
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        owner = await a.harness.client(session={"notices": {}})
        await open_session(a.harness, owner, tmp_path)
        assert await prompt_and_answer(a, owner, ["short"]) == ["short"]
        prompted = owner.prompt("s1")
        request = await a.harness.agent.until_method("session/prompt")
        a.harness.agent.say("s1", "x" * 30_000)
        notice = await owner.update()
        assert notice["title"] == "The session cannot be written here"
        assert (
            f"{settings.prefix.upper()}_LOG_00 is full, so the session is read-only" in notice["description"]
        )
        await a.harness.agent.until_method("session/cancel")
        a.harness.agent.reply(request, {"stopReason": "cancelled"})
        assert "is full" in (await owner.answer_to(prompted))["error"]["message"]
        history, _ = await asyncio.wait_for((await b.harness.client()).load("s1", str(tmp_path)), PATIENCE)
        assert texts(history) == ["go", "short", "go"]


async def test_a_session_whose_node_is_gone_can_be_read_and_goes_on_when_it_is_back(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings(times=LeaseTimes(renew=0.2, deadline=PATIENCE, lease=PATIENCE * 2))
    async with running_node(settings, tmp_path, "b") as b:
        client = await b.harness.client()
        async with running_node(settings, tmp_path, "a") as a:
            owner = await a.harness.client()
            await open_session(a.harness, owner, tmp_path)
            await prompt_and_answer(a, owner, ["one"])
        history, _ = await asyncio.wait_for(client.load("s1", str(tmp_path)), PATIENCE)
        assert texts(history) == ["go", "one"]
        error = await client.answer_to(client.prompt("s1"))
        assert error["error"]["message"] == (
            f"session s1 can only be read now: node a, the only one with its folder {tmp_path}, is stopped; "
            "start a again"
        )
        async with running_node(settings, tmp_path, "a") as a:
            await asyncio.wait_for(a.harness.agent_started.wait(), PATIENCE)
            a.harness.agent.reply(await a.harness.agent.until_method("session/resume"), {})
            assert await prompt_and_answer(a, client, ["two"]) == ["two"]


async def test_a_call_for_a_node_that_looked_lost_for_a_moment_goes_to_it(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_log, "_RELEASE_SECONDS", 0)
    project = tmp_path / "project"
    project.mkdir()
    (project / MARKER).write_text("v1")
    settings = server.settings(volumes={"team": str(project)}, homes={"hand": "h1"})
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        owner = await a.harness.client()
        await open_session(a.harness, owner, project)
        await prompt_and_answer(a, owner, ["one"])

        async def owner_renews(node: str, incarnation: str) -> bool:
            return False

        monkeypatch.setattr(b.node.book, "may_claim", owner_renews)
        monkeypatch.setattr(b.node.registry, "is_alive", lambda node, _: node != "a")
        loading, resuming = await b.harness.client(), await b.harness.client()
        history, _ = await asyncio.wait_for(loading.load("s1", str(project)), PATIENCE)
        assert texts(history) == ["go", "one"]
        resume = {"sessionId": "s1", "cwd": str(project), "mcpServers": []}
        resumed = await asyncio.wait_for(resuming.call("session/resume", resume), PATIENCE)
        assert resumed["_meta"]["accord"]["node"] == "a"

        for link in tuple(b.router.links._links.values()):  # the clients of b lose their place at a
            link.lose(RpcError("lost"))
        assert await prompt_and_answer(a, loading, ["two"]) == ["two"]

        await a.router.stop()  # it renews its lease, and b cannot reach it
        late = await b.harness.client()
        error = await asyncio.wait_for(late.error("session/load", resume), PATIENCE)
        assert error["message"] == (
            "cannot read the session: session s1 is open at node a; try again in a few seconds, "
            "or connect to that node"
        )


def test_a_volume_without_its_marker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="volume 'team' has no marker"):
        read_volumes({"team": str(tmp_path)})


async def test_a_draining_node_gives_its_sessions_up_and_their_clients_go_on_elsewhere(
    server: RunningServer, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / MARKER).write_text("v1")
    settings = server.settings(volumes={"team": str(project)}, homes={"hand": "h1"})
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        at_a, at_b = await a.harness.client(), await b.harness.client()
        await open_session(a.harness, at_a, project)
        await at_b.load("s1", str(project))
        prompted = at_b.prompt("s1", "long work")
        running = await a.harness.agent.until_method("session/prompt")
        await a.node.drain()
        assert a.node.unready == "draining"
        a.harness.agent.say("s1", "done")
        a.harness.agent.reply(running, {"stopReason": "end_turn"})
        updates, _ = await asyncio.wait_for(at_b.updates_until(prompted), PATIENCE)
        assert texts(updates) == ["done"]  # the running turn ends where it is
        a.harness.agent.reply(await a.harness.agent.until_method("session/close"), {})
        assert await a.node.wait_until_drained(PATIENCE)

        assert texts([await at_a.update() for _ in range(2)]) == ["long work", "done"]
        refused = await at_a.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert refused["message"].startswith("node a takes no new sessions, because it is about to stop")
        asked = at_a.ask("session/new", {"cwd": str(project), "mcpServers": []})
        await b.harness.agent.answer_new_session("s2")
        assert (await at_a.answer_to(asked))["result"]["sessionId"] == "s2"

        prompted = at_a.prompt("s1", "more")  # of the client that is connected to the draining node
        b.harness.agent.reply(await b.harness.agent.until_method("session/resume"), {})
        request = await b.harness.agent.until_method("session/prompt")
        b.harness.agent.say("s1", "here")
        b.harness.agent.reply(request, {"stopReason": "end_turn"})
        updates, _ = await asyncio.wait_for(at_a.updates_until(prompted), PATIENCE)
        assert texts(updates) == ["here"]
        await a.node.drain(False)
        assert a.node.unready == ""


async def test_a_node_checks_the_credentials_of_the_clients_of_other_nodes(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        owner = await a.harness.client()
        await open_session(a.harness, owner, tmp_path)
        for credential in (None, Credential("acc_aaaaaaaa_" + "x" * 43), Credential("a cookie")):
            forged = msgspec.structs.replace(b.harness.rights, credential=credential)
            client = await b.harness.client(forged)
            error = await client.error(
                "session/load", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []}
            )
            assert error["message"] == "The credential of the client is not valid at this node."
        assert len(a.router.host) == 0

        narrow, text = new_token("narrow", now=time.time(), read_only=True)
        assert a.node.access is not None
        await a.node.access.tokens.add(narrow)
        claimed = msgspec.structs.replace(b.harness.rights, credential=Credential(text))
        client = await b.harness.client(claimed)  # a node that grants more rights than the token has
        await client.load("s1", str(tmp_path))
        error = await client.error("session/prompt", {"sessionId": "s1", "prompt": []})
        assert "read" in error["message"]


async def test_a_client_sees_a_session_that_was_deleted_and_created_again_with_its_id(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "b") as b:
        client = await b.harness.client()
        async with running_node(settings, tmp_path, "a") as a:
            owner = await a.harness.client()
            await open_session(a.harness, owner, tmp_path)
            await client.load("s1", str(tmp_path))
        await b.node.book.delete("hand", "s1")
        prompted = client.prompt("s1")
        b.harness.agent.reply(await b.harness.agent.until_method("session/resume"), {})
        request = await b.harness.agent.until_method("session/prompt")
        b.harness.agent.say("s1", "here")
        b.harness.agent.reply(request, {"stopReason": "end_turn"})
        updates, _ = await asyncio.wait_for(client.updates_until(prompted), PATIENCE)
        assert texts(updates) == ["here"]


async def test_a_node_whose_agent_did_not_start_once_can_be_used_by_the_same_connection_later(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    started: list[DrivenAgent] = []
    restarted = asyncio.Event()

    def start() -> Transport:
        ours, theirs = memory_pair()
        broken = {"protocolVersion": "none"} if len(started) == 1 else {}
        started.append(DrivenAgent(theirs, ALL, **broken))
        if len(started) == 3:
            restarted.set()
        return ours

    async with (
        running_node(settings, tmp_path, "a", start=start) as a,
        running_node(settings, tmp_path, "b") as b,
    ):
        owner, client = await a.harness.client(), await b.harness.client()
        opening = owner.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await started[0].answer_new_session("s1")
        await owner.answer_to(opening)
        await started[0].aclose()
        load = {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []}
        while "initialize" not in (await client.error("session/load", load))["message"]:
            pass  # the node has not noticed yet that its agent ended
        loading = client.ask("session/load", load)
        await restarted.wait()
        started[2].reply(await started[2].until_method("session/load"), {})
        assert "result" in await client.answer_to(loading)
