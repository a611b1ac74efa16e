"""Forged messages and entries of another node: nothing is written elsewhere, and nothing foreign is shown."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cluster.nats_servers import RunningServer, documented_permissions, nats_server
from tests.cluster.test_many_nodes import prompt_and_answer, running_node
from tests.gateway.gateway_harness import GatewayHarness, open_session
from tests.patience import PATIENCE

from accord.cluster.cluster_node import ClusterNode, run_node
from accord.cluster.connection import NatsMessage, NatsRefused, NatsUnavailable
from accord.cluster.jetstream import BucketEntry
from accord.cluster.link_message import (
    AttachedLog,
    BadLinkMessage,
    OpenLink,
    OwnerFrame,
    OwnerFrames,
    ProbeLink,
    encode_link,
    read_from_client,
    read_from_owner,
)
from accord.cluster.nodes import NodeEntry, decoded_node
from accord.cluster.session_index import index_key
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.contracts import HIDDEN_FROM_ALL
from accord.gateway.gateway import Gateway
from accord.schema.codec import encode

_USERS = """
authorization {
  users: [
    { user: node, password: n }
    { user: front, password: f, permissions: %s }
  ]
}
"""
HOSTILE_TOKENS = ("*", ">", "a.b", "a b", "a\n", "a\r\nPUB x 0", "", "a" * 200, "ä")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    "subject",
    ["$KV.acc_nodes.a", "acc.log.00.x", "$JS.API.STREAM.DELETE.X", "acc.line.b.1.*", "acc.line.b.1.2\nPUB"],
)
def test_answers_go_to_lines_only(subject: str) -> None:
    with pytest.raises(BadLinkMessage):
        read_from_client(encode_link(OpenLink("1-a", subject, "line-1", "hand", "token")))


def test_no_client_writes_records_that_are_hidden_from_all_others() -> None:
    with pytest.raises(BadLinkMessage):
        read_from_client(encode_link(OpenLink("1-a", "acc.line.b.1.2", HIDDEN_FROM_ALL, "hand", "token")))


@pytest.mark.parametrize("token", HOSTILE_TOKENS)
def test_names_of_other_nodes_are_parts_of_a_subject(token: str) -> None:
    attached = AttachedLog(token, "ACC_LOG_00", 0, (0, 0))
    with pytest.raises(BadLinkMessage):
        read_from_owner(encode_link(OwnerFrames(1, [OwnerFrame(b"", "s1", attached=attached)])))
    assert decoded_node(BucketEntry("a", encode(NodeEntry(token, "i")), 1)) is None
    assert decoded_node(BucketEntry("a", encode(NodeEntry("a", token)), 1)) is None
    assert decoded_node(BucketEntry("a", encode(NodeEntry("b", "i")), 1)) is None


@pytest.mark.parametrize(
    "entry",
    [
        NodeEntry("f1", "i", agents=("hand",)),
        NodeEntry("f1", "i"),
        NodeEntry("f1", "i", agents=("hand",), front=True),
    ],
)
def test_a_front_offers_no_agents(entry: NodeEntry) -> None:
    """The NATS user of a front can write only this key. Clients would be sent to it with their tokens."""
    assert decoded_node(BucketEntry("front.f1", encode(entry), 1)) is None


async def test_entries_of_the_index_name_no_other_subjects(server: RunningServer, tmp_path: Path) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a:
        client = await a.harness.client()
        await open_session(a.harness, client, tmp_path)
        entry = a.node.book.index.find("hand", "s1")
        assert entry is not None
        bucket = a.node.streams.bucket("index")
        for number, changed in enumerate(
            (
                msgspec.structs.replace(entry, session_id="evil", log="*"),
                msgspec.structs.replace(entry, session_id="evil", stream="ACC.>"),
                msgspec.structs.replace(entry, session_id="s1"),  # under the key of another session
            )
        ):
            await bucket.put(index_key("hand", f"evil{number}"), encode(changed), 0)
        await a.node.book.index.refresh()
        assert [one.session_id for one in a.node.book.index] == ["s1"]


async def test_forged_link_messages_change_nothing(server: RunningServer, tmp_path: Path) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        owner, client = await a.harness.client(), await b.harness.client()
        await open_session(a.harness, owner, tmp_path)
        await client.load("s1", str(tmp_path))
        lease = a.node.fence.entry
        subject = a.node.streams.names.node_subject("a", lease.incarnation)
        connection = b.node.connection
        for data in (b"", b"\xff" * 100, encode_link(["open"]), encode_link(ProbeLink("unknown", 1, 1))):
            await connection.publish(subject, data, f"$KV.{settings.prefix}_nodes.a")
        (link,) = b.router.links._links.values()  # pyright: ignore[reportPrivateUsage]
        again: Any = link._request  # pyright: ignore[reportPrivateUsage]
        answer = await connection.request(subject, encode_link(again))
        assert b"there is a link with this id" in answer.data
        assert len(a.router.host) == 1
        known = a.node.registry.find("a")
        assert known is not None
        assert known.incarnation == lease.incarnation


async def test_a_node_cannot_show_the_log_of_another_session(server: RunningServer, tmp_path: Path) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        owner, client = await a.harness.client(), await b.harness.client(session={"notices": {}})
        await open_session(a.harness, owner, tmp_path)
        await open_session(a.harness, owner, tmp_path, "secret")
        await client.load("s1", str(tmp_path))
        secret = a.node.book.index.find("hand", "secret")
        assert secret is not None
        (link,) = b.router.links._links.values()  # pyright: ignore[reportPrivateUsage]
        forged = OwnerFrame(b"", "s1", attached=AttachedLog(secret.log, secret.stream, 0, (0, 0)))
        b.router.clients[0].on_owner_frame(link, forged)
        assert not link.alive
        notice = await asyncio.wait_for(client.update(), PATIENCE)
        assert notice["title"] == "Node a does not answer"


async def test_a_front_with_few_rights_serves_clients_and_writes_no_log(tmp_path: Path) -> None:
    for name in ("node", "front"):
        (tmp_path / name).write_text(name[0])
    with nats_server(tmp_path / "nats", more=_USERS % documented_permissions("front")) as server:
        settings = server.settings(prefix="acc", user="node", password_file=str(tmp_path / "node"))
        limited = msgspec.structs.replace(settings, user="front", password_file=str(tmp_path / "front"))
        async with running_node(settings, tmp_path, "a") as a:
            limited = msgspec.structs.replace(limited, node="f1", front=True)
            async with run_node(limited, []) as front, gateway_without_agents(front) as harness:
                router = await front.serve(harness.gateway)
                harness.opener, harness.rights = router, a.harness.rights
                client = await harness.client()
                asked = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
                await a.harness.agent.answer_new_session("s1")
                await client.answer_to(asked)
                assert await prompt_and_answer(a, client, ["one"]) == ["one"]
                for subject in FORBIDDEN_FOR_FRONTS:
                    with pytest.raises(NatsUnavailable):
                        await front.connection.request(subject, b"", seconds=0.2)
                with pytest.raises(NatsRefused, match="rollup not permitted"):
                    await front.streams.jetstream.append(
                        "$KV.acc_tokens.used.x", b"1", {"Nats-Rollup": "all"}
                    )
                await check_forged_logins(front, a.node, a.harness.rights)
                seen: list[NatsMessage] = []
                for subject in ("acc.node.a.>", "acc.line.a.>", "_INBOX.a.>", ">"):
                    await front.connection.subscribe(subject, seen.append)
                await front.connection.flush()
                subject = a.node.streams.names.node_subject("a", a.node.fence.entry.incarnation)
                await a.node.connection.request(subject, encode_link(ProbeLink("unknown", 1, 1)))
                await front.connection.flush()
                assert seen == []
                await front.stop_serving()
                await front.book.aclose()


FORBIDDEN_FOR_FRONTS = (
    "acc.log.00.x",
    "acc.line.a.b.c",
    "$KV.acc_index.x",
    "$KV.acc_tokens.x",
    "$KV.acc_nodes.a",
    "$KV.acc_nodes.f1",
)


async def check_forged_logins(front: ClusterNode, node: ClusterNode, rights: TokenRights) -> None:
    """A front may store logins and tickets, but has no rights by them: it knows the ids of tokens only."""
    assert front.access is not None
    assert node.access is not None
    assert rights.credential is not None
    for text in ("", "acc_unknown", rights.token, f"acc_{rights.token}_{'x' * 43}"):
        cookie = await front.access.browsers.log_in(rights.token, text)
        await node.access.browsers.refresh()
        assert node.access.browsers.token(cookie) is None
        with pytest.raises(RequestRefused, match="not valid at this node"):
            await node.access.rights_of(cookie, "192.0.2.1")
        ticket = await front.access.tickets.issue(rights.token, None, text)
        assert await node.access.tickets.redeem(ticket) is None
        ticket = await front.access.tickets.issue(rights.token, None, cookie)
        assert await node.access.tickets.redeem(ticket) is None
    cookie = await front.access.browsers.log_in(rights.token, rights.credential.text)
    assert (await node.access.rights_of(cookie, "192.0.2.1")).token == rights.token
    ticket = await front.access.tickets.issue(rights.token, None, cookie)
    assert await node.access.tickets.redeem(ticket) == (rights.token, cookie)


@asynccontextmanager
async def gateway_without_agents(node: ClusterNode) -> AsyncGenerator[GatewayHarness]:
    gateway = Gateway([], node.book, fence=node.fence)
    try:
        yield GatewayHarness(gateway, [], asyncio.Event())
    finally:
        await gateway.aclose()
