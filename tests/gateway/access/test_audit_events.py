"""The audit log of a running gateway: who requested what, the decisions, and no contents."""

import json
from pathlib import Path
from typing import Any

from tests.gateway.gateway_harness import gateway_harness, open_session

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.resource_limits import GatewayLimits
from accord.schema.methods import AGENTAO_ASK_USER

ALICE, BOB = TokenRights("tokena", "alice", peer="192.0.2.1"), TokenRights("tokenb", "bob", read_only=True)
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def audit_events(audit: AuditLog) -> list[tuple[Any, ...]]:
    lines = [json.loads(line) for line in audit.path.read_text().splitlines()]
    names = ("name", "event", "method", "session", "decision")
    return [tuple(line[name] for name in names if name in line) for line in lines]


async def test_requests_and_decisions_are_logged_but_contents_are_not(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    async with gateway_harness(audit=audit) as harness:
        alice = await harness.client(ALICE)
        new = alice.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await harness.agent.answer_new_session("s1")
        await alice.answer_to(new)
        turn = alice.prompt("s1", "the secret plan")
        prompt = await harness.agent.until_method("session/prompt")
        asked = harness.agent.ask(
            "session/request_permission",
            {
                "sessionId": "s1",
                "toolCall": {
                    "toolCallId": "t",
                    "title": "Remove",
                    "rawInput": {"command": "curl -H 'Authorization: Bearer abcdefghijkl'"},
                },
                "options": OPTIONS,
            },
        )
        question = await alice.until_method("session/request_permission")
        alice.reply(question, {"outcome": {"outcome": "selected", "optionId": "no"}})
        await harness.agent.answer_to(asked)
        written = {
            "toolCallId": "u",
            "title": "Write it",
            "kind": "edit",
            "locations": [{"path": "/w/a.txt"}],
        }
        harness.agent.tell("s1", {"sessionUpdate": "tool_call", **written})
        asked = harness.agent.ask(
            "session/request_permission",
            {"sessionId": "s1", "toolCall": {"toolCallId": "u"}, "options": OPTIONS},
        )
        await alice.until_method("session/request_permission")
        items = (await alice.call("_accord/inbox", {}))["items"]
        answer = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        await alice.call("_accord/inbox/answer", {"id": items[0]["id"], "result": answer})
        await harness.agent.answer_to(asked)
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        await alice.answer_to(turn)
        bob = await harness.client(BOB)
        await bob.call("_accord/sessions", {})
        assert (await bob.error("session/prompt", {"sessionId": "s1", "prompt": []}))["code"] == -32003
    assert audit_events(audit) == [
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
    text = audit.path.read_text()
    assert "secret" not in text
    assert "abcdefghijkl" not in text
    entries = [json.loads(line) for line in text.splitlines()]
    refused, allowed = [line for line in entries if line["event"] == "answer"]
    assert (refused["toolCall"], refused["command"]) == ("t", "curl -H 'Authorization: ***'")
    assert (allowed["toolCall"], allowed["kind"], allowed["path"]) == ("u", "edit", "/w/a.txt")
    assert next(line["path"] for line in entries if line.get("method") == "session/new") == str(tmp_path)


async def test_answers_to_forms_and_questions_are_logged_without_their_contents(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    form = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    async with gateway_harness(audit=audit) as harness:
        alice = await harness.client(ALICE, elicitation={"form": {}})
        await open_session(harness, alice, tmp_path)
        for method, params, answer in (
            ("elicitation/create", form, {"action": "accept", "content": {"name": "private"}}),
            ("elicitation/create", form, {"action": "decline"}),
            (AGENTAO_ASK_USER, {"question": "?"}, {"answer": "private"}),
        ):
            asked = harness.agent.ask(method, {"sessionId": "s1", **params})
            alice.reply(await alice.until_method(method), answer)
            await harness.agent.answer_to(asked)
    assert audit_events(audit)[3:] == [
        ("alice", "answer", "elicitation/create", "s1", "accept"),
        ("alice", "answer", "elicitation/create", "s1", "decline"),
        ("alice", "answer", AGENTAO_ASK_USER, "s1", "answered"),
    ]
    assert "private" not in audit.path.read_text()


async def test_what_the_gateway_does_for_an_agent_is_logged(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    (tmp_path / "notes").write_text("hello")
    async with gateway_harness(audit=audit) as harness:
        alice = await harness.client(ALICE)
        server = {"name": "x", "command": "npx", "args": ["-y", "it", "--token", "verysecret"], "env": []}
        params = {"cwd": str(tmp_path), "additionalDirectories": ["/"], "mcpServers": [server]}
        new = alice.ask("session/new", params)
        await harness.agent.answer_new_session("s1")
        await alice.answer_to(new)
        await harness.agent.call("fs/read_text_file", {"sessionId": "s1", "path": str(tmp_path / "notes")})
        command = {"command": "echo", "args": ["--password=verysecret", "hi"]}
        await harness.agent.call("terminal/create", {"sessionId": "s1", **command})
    text = audit.path.read_text()
    assert "verysecret" not in text
    entries = [json.loads(line) for line in text.splitlines()]
    assert [(line["command"], line["path"]) for line in entries if line.get("method") == "session/new"] == [
        ("npx -y it --token '[redacted]'", f"{tmp_path}, /")
    ]
    served = [line for line in entries if line["event"] == "agent request"]
    assert [(line["method"], line["path"]) for line in served] == [
        ("fs/read_text_file", str(tmp_path / "notes")),
        ("terminal/create", str(tmp_path)),
    ]
    assert served[1]["command"] == "echo '--password=[redacted]' hi"


async def test_a_request_rejected_by_a_limit_is_logged(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    async with gateway_harness(audit=audit, limits=GatewayLimits(sessions=1)) as harness:
        alice = await harness.client(ALICE)
        new = alice.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await harness.agent.answer_new_session("s1")
        await alice.answer_to(new)
        error = await alice.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert error["code"] == -32029
        assert error["data"] == {"limit": "sessions", "most": 1}
    assert audit_events(audit)[-1] == ("alice", "refused", "session/new")


async def test_a_folder_beyond_the_token_is_rejected_and_logged(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    (tmp_path / "mine").mkdir()
    bound = TokenRights("tokenc", "carol", folders=(str(tmp_path / "mine"),))
    async with gateway_harness(audit=audit) as harness:
        carol = await harness.client(bound)
        error = await carol.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert error["code"] == -32003
        assert (await carol.error("_accord/folders", {"path": str(tmp_path)}))["code"] == -32003
        assert harness.gateway.metrics.processes == 1
    assert audit_events(audit)[1:] == [
        ("carol", "request", "session/new"),
        ("carol", "refused", "session/new"),
        ("carol", "refused", "_accord/folders"),
    ]
    assert harness.gateway.metrics.processes == 0
