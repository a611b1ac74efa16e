"""Tokens and share links over the gateway: what they give, who may manage them, and when they end."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import ALL, GatewayHarness, gateway_harness, open_session

from accord.gateway.access.access_tokens import Token, TokenRights, TokenStore, new_token
from accord.gateway.access.audit_log import AuditLog

URL = {"url": "https://host/below"}
HOUR = {"expiresIn": 3600, **URL}


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "tokens")


@asynccontextmanager
async def harness_with(audit: AuditLog, tokens: TokenStore) -> AsyncGenerator[GatewayHarness]:
    """A gateway with two sessions of the owner, `s1` and `s2`."""
    async with gateway_harness({**ALL, "sessionCapabilities": {**ALL["sessionCapabilities"], "fork": {}}},
                               audit=audit) as harness:  # fmt: skip
        harness.gateway.tokens = tokens
        harness.rights = tokens.new("owner")[0].rights()
        client = await harness.client()
        for session in ("s1", "s2"):
            await open_session(harness, client, tokens.folder.parent, session)
        yield harness


def of_link(tokens: TokenStore, link: str) -> Token:
    token = tokens.find(link.partition("=")[2])
    assert token is not None
    return token


async def test_a_new_device_gets_a_link_and_a_code_and_can_be_revoked(
    audit: AuditLog, tokens: TokenStore
) -> None:
    async with harness_with(audit, tokens) as harness:
        client = await harness.client()
        made = await client.call("_accord/tokens/create", {"name": "phone", **URL})
        assert made["link"].startswith("https://host/below/#token=acc_")
        assert "localAddress" not in made
        assert {len(row) for row in made["qr"]} == {len(made["qr"])}
        assert set("".join(made["qr"])) == {"0", "1"}
        token = of_link(tokens, made["link"])
        shown = (await client.call("_accord/tokens"))["tokens"]
        assert [(one["name"], one.get("current", False)) for one in shown] == [
            ("owner", True),
            ("phone", False),
        ]
        assert token.sha256 not in str(shown)
        await client.call("_accord/tokens/revoke", {"id": token.id})
        assert tokens.get(token.id) is None
        lines = [json.loads(line) for line in audit.path.read_text().splitlines()]
        events = [(line["event"], line.get("made")) for line in lines]
        assert ("token made", token.id) in events
        assert ("token revoked", token.id) in events
        assert made["link"].partition("=")[2] not in audit.path.read_text()


async def test_a_link_to_this_computer_comes_with_its_address_in_the_network(
    audit: AuditLog, tokens: TokenStore
) -> None:
    async with harness_with(audit, tokens) as harness:
        client = await harness.client()
        made = await client.call("_accord/tokens/create", {"url": "http://127.0.0.1:8765/"})
        assert made["localAddress"].count(".") == 3


@pytest.mark.parametrize(
    "limits",
    [{"read_only": True}, {"agents": ["hand"]}, {"folders": ["/"]}, {"session": "s1", "agents": ["hand"]}],
)
async def test_only_a_token_without_limits_manages_tokens(
    audit: AuditLog, tokens: TokenStore, limits: dict[str, Any]
) -> None:
    async with harness_with(audit, tokens) as harness:
        owner = tokens.all()[0]
        client = await harness.client(tokens.new("guest", **limits)[0].rights())
        assert (await client.error("_accord/tokens/create", {"name": "more", **URL}))["code"] == -32003
        assert (await client.error("_accord/tokens/revoke", {"id": owner.id}))["code"] == -32003
        assert [token.name for token in tokens.all()] == ["owner", "guest"]
        if "read_only" not in limits and "session" not in limits:
            assert await client.call("_accord/tokens") == {"tokens": [], "manageable": False}


async def test_a_new_token_gives_no_more_and_ends_no_later_than_the_one_that_made_it(
    audit: AuditLog, tokens: TokenStore
) -> None:
    async with harness_with(audit, tokens) as harness:
        own, _ = tokens.new("short", expires=4_000_000_000, allow_mcp=False)
        client = await harness.client(own.rights())
        for seconds in (None, 3650 * 24 * 3600):
            made = await client.call("_accord/tokens/create", {"expiresIn": seconds, **URL})
            token = of_link(tokens, made["link"])
            assert token.expires is not None
            assert token.expires <= 4_000_000_000
            assert token.rights().may_add_mcp_servers is False
        limited = await client.call(
            "_accord/tokens/create", {"readOnly": True, "agents": ["hand"], "folders": ["/tmp"], **URL}
        )
        rights = of_link(tokens, limited["link"]).rights()
        assert (rights.read_only, rights.agents, rights.folders) == (True, {"hand"}, ("/tmp",))


@pytest.mark.parametrize(
    "params",
    [
        {"url": "javascript:alert(1)"},
        {"url": "https://host/#x"},
        {"url": ""},
        {},
        {"name": "x" * 65, **URL},
        {"name": "two\nlines", **URL},
        {"expiresIn": 1, **URL},
        {"expiresIn": True, **URL},
        {"folders": ["relative"], **URL},
        {"folders": [1], **URL},
    ],
)
async def test_a_wrong_parameter_creates_no_token(
    audit: AuditLog, tokens: TokenStore, params: dict[str, Any]
) -> None:
    async with harness_with(audit, tokens) as harness:
        client = await harness.client()
        assert (await client.error("_accord/tokens/create", params))["code"] == -32602
        assert len(tokens.all()) == 1


async def shared(harness: GatewayHarness, tokens: TokenStore, **params: Any) -> Token:
    client = await harness.client()
    made = await client.call("_accord/share", {"sessionId": "s1", **HOUR, **params})
    assert "/#share=acc_" in made["link"]
    return of_link(tokens, made["link"])


async def test_a_share_link_reads_its_session_and_nothing_else(audit: AuditLog, tokens: TokenStore) -> None:
    async with harness_with(audit, tokens) as harness:
        token = await shared(harness, tokens)
        assert (token.read_only, token.session, token.agents) == (True, "s1", ("hand",))
        reader, cwd = harness.connect(token.rights()), str(tokens.folder.parent)
        answer = await reader.initialize()
        assert answer["agentCapabilities"]["_meta"]["accord"]["gateway"]["session"] == "s1"
        assert [one["sessionId"] for one in (await reader.call("_accord/sessions"))["sessions"]] == ["s1"]
        await reader.load("s1", cwd)
        assert "text" in await reader.call("_accord/session/export", {"sessionId": "s1"})
        where = {"cwd": cwd, "mcpServers": []}
        for method in ("session/load", "session/resume", "_accord/session/export"):
            assert (await reader.error(method, {"sessionId": "s2", **where}))["code"] == -32002, method
        for method in REFUSED:
            error = await reader.error(method, {"sessionId": "s1", "id": token.id, **where})
            assert error["code"] == -32003, method


REFUSED = [
    *("session/prompt", "session/new", "session/fork", "session/list", "session/delete", "session/set_mode"),
    *("_accord/files", "_accord/folders", "_accord/folders/recent", "_accord/inbox", "_accord/inbox/answer"),
    *("_accord/review", "_accord/review/commit", "_accord/share", "_accord/tokens", "_accord/tokens/create"),
    *("_accord/tokens/revoke", "_accord/worktree", "_accord/worktree/create", "_accord/worktree/remove"),
    *("_accord/session/search", "_accord/session/rename", "_accord/session/archive", "vendor/method"),
]


async def test_a_share_link_hears_of_no_other_session(audit: AuditLog, tokens: TokenStore) -> None:
    async with harness_with(audit, tokens) as harness:
        token = await shared(harness, tokens)
        reader = await harness.client(token.rights())
        await reader.call("_accord/sessions", {"subscribe": True})
        owner = await harness.client()
        await open_session(harness, owner, tokens.folder.parent, "s3")
        await owner.call("_accord/session/rename", {"sessionId": "s1", "title": "seen"})
        changed = (await reader.until_method("_accord/sessions"))["params"]["changed"]
        assert changed["sessionId"] == "s1"


async def test_a_share_link_ends_with_its_time_its_maker_and_its_revocation(
    audit: AuditLog, tokens: TokenStore
) -> None:
    async with harness_with(audit, tokens) as harness:
        maker, _ = tokens.new("laptop", expires=4_000_000_000)
        client = await harness.client(maker.rights())
        ids: list[str] = []
        for _ in range(2):
            made = await client.call("_accord/share", {"sessionId": "s1", **HOUR})
            ids.append(of_link(tokens, made["link"]).id)
        await client.call("_accord/tokens/revoke", {"id": ids[0]})
        assert [tokens.is_valid(id) for id in ids] == [False, True]
        owner = await harness.client()
        await owner.call("_accord/tokens/revoke", {"id": maker.id})
        assert tokens.get(ids[1]) is None
        for seconds in (None, 59, 31 * 24 * 3600):
            error = await owner.error("_accord/share", {"sessionId": "s1", "expiresIn": seconds, **URL})
            assert error["code"] == -32602, seconds
        token, text = new_token(now=0.0, expires=10.0, session="s1", parent=tokens.all()[0].id)
        await tokens.add(token)
        assert tokens.find(text) is None


async def test_a_folder_bound_token_shares_its_sessions_and_manages_only_these_links(
    audit: AuditLog, tokens: TokenStore
) -> None:
    async with harness_with(audit, tokens) as harness:
        bound, _ = tokens.new("guest", folders=[str(tokens.folder.parent)])
        client = await harness.client(bound.rights())
        made = await client.call("_accord/share", {"sessionId": "s2", **HOUR})
        (listed,) = (await client.call("_accord/tokens"))["tokens"]
        assert (listed["session"], listed["agent"]) == ("s2", "hand")
        assert "may watch session s2 of hand" in listed["rights"]
        other = await shared(harness, tokens)
        assert (await client.error("_accord/tokens/revoke", {"id": other.id}))["code"] == -32003
        await client.call("_accord/tokens/revoke", {"id": listed["id"]})
        assert tokens.find(made["link"].partition("=")[2]) is None


async def test_the_rights_of_a_share_link_are_written_so_that_an_older_accord_refuses_it(
    tokens: TokenStore,
) -> None:
    shared_token, _ = tokens.new("", session="s1", agents=["hand"], read_only=True)
    plain, _ = tokens.new("plain")
    files = {path.stem: path.read_text() for path in tokens.folder.iterdir()}
    assert files[shared_token.id].startswith('{"version":2,')
    assert files[plain.id].startswith('{"version":1,')
    assert "session" not in files[plain.id]
    assert isinstance(shared_token.rights(), TokenRights)
