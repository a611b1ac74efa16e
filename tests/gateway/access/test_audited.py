"""What the audit log tells of a gateway at work: who asked for what, what was decided, and nothing of what was said."""

import json
from pathlib import Path
from typing import Any

from tests.gateway.core.house import house

from accord.gateway.access.audit import Audit
from accord.gateway.access.limits import Limits
from accord.gateway.access.passes import Pass

ALICE, BOB = Pass("tokena", "alice", peer="192.0.2.1"), Pass("tokenb", "bob", read_only=True)
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def told(audit: Audit) -> list[tuple[Any, ...]]:
    lines = [json.loads(line) for line in audit.path.read_text().splitlines()]
    names = ("name", "event", "method", "session", "decision")
    return [tuple(line[name] for name in names if name in line) for line in lines]


async def test_requests_and_decisions_are_told_and_contents_are_not(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    async with house(audit=audit) as home:
        alice = await home.client(ALICE)
        new = alice.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await home.agent.opened("s1")
        await alice.answer_to(new)
        turn = alice.prompt("s1", "the secret plan")
        prompt = await home.agent.until_method("session/prompt")
        asked = home.agent.ask(
            "session/request_permission",
            {"sessionId": "s1", "toolCall": {"toolCallId": "t", "title": "rm secret"}, "options": OPTIONS},
        )
        question = await alice.until_method("session/request_permission")
        alice.reply(question, {"outcome": {"outcome": "selected", "optionId": "no"}})
        await home.agent.answer_to(asked)
        asked = home.agent.ask(
            "session/request_permission",
            {"sessionId": "s1", "toolCall": {"toolCallId": "u", "title": "rm secret"}, "options": OPTIONS},
        )
        await alice.until_method("session/request_permission")
        items = (await alice.call("_accord/inbox", {}))["items"]
        answer = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        await alice.call("_accord/inbox/answer", {"id": items[0]["id"], "result": answer})
        await home.agent.answer_to(asked)
        home.agent.reply(prompt, {"stopReason": "end_turn"})
        await alice.answer_to(turn)
        bob = await home.client(BOB)
        await bob.call("_accord/sessions", {})
        assert (await bob.error("session/prompt", {"sessionId": "s1", "prompt": []}))["code"] == -32003
    assert told(audit) == [
        ("alice", "connect"),
        ("alice", "request", "session/new"),
        ("alice", "attach", "s1"),
        ("alice", "request", "session/prompt", "s1"),
        ("alice", "answer", "session/request_permission", "s1", "reject_once"),
        ("alice", "request", "_accord/inbox/answer"),
        ("alice", "answer", "session/request_permission", "s1", "allow_once"),
        ("bob", "connect"),
        ("bob", "refused", "session/prompt", "s1"),
    ]
    assert "secret" not in audit.path.read_text()


async def test_a_limit_that_refused_is_told(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    async with house(audit=audit, limits=Limits(sessions=1)) as home:
        alice = await home.client(ALICE)
        new = alice.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await home.agent.opened("s1")
        await alice.answer_to(new)
        error = await alice.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert error["code"] == -32029
        assert error["data"] == {"limit": "sessions", "most": 1}
    assert told(audit)[-1] == ("alice", "refused", "session/new")


async def test_a_folder_beyond_the_scope_is_refused_and_told(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    (tmp_path / "mine").mkdir()
    bound = Pass("tokenc", "carol", folders=(str(tmp_path / "mine"),))
    async with house(audit=audit) as home:
        carol = await home.client(bound)
        error = await carol.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert error["code"] == -32003
        assert (await carol.error("_accord/folders", {"path": str(tmp_path)}))["code"] == -32003
        assert home.gateway.metrics.processes == 1
    assert told(audit)[1:] == [
        ("carol", "request", "session/new"),
        ("carol", "refused", "session/new"),
        ("carol", "refused", "_accord/folders"),
    ]
    assert home.gateway.metrics.processes == 0
