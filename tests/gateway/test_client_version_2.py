"""Clients of version 2 at the gateway, beside clients of version 1 and before an agent of version 1."""

from pathlib import Path
from typing import Any

import pytest
from tests.accord_command import run_accord
from tests.cli.serve.gateway_process import running_gateway
from tests.gateway.gateway_harness import DrivenClient, gateway_harness, open_session

from accord.gateway.access.audit_log import AuditLog

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


async def state(client: DrivenClient, *states: str) -> dict[str, Any]:
    """The next of these states."""
    while True:
        update = await client.update()
        if update["sessionUpdate"] == "state_update" and update["state"] in states:
            return update


async def test_a_client_of_version_2_runs_a_turn_that_one_of_version_1_sees(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        new, old = await harness.client_v2(), await harness.client()
        assert new.initialize_result["protocolVersion"] == 2
        asked = new.ask("session/new", {"cwd": str(tmp_path)})
        await harness.agent.answer_new_session("s1")
        assert (await new.answer_to(asked))["result"]["sessionId"] == "s1"
        await old.load("s1", str(tmp_path))
        turn = new.ask("session/prompt", {"sessionId": "s1", "prompt": [{"type": "text", "text": "hello"}]})
        prompt = await harness.agent.until_method("session/prompt")
        harness.agent.say("s1", "hi")
        shown = [await old.update() for _ in range(2)]
        assert [one["content"]["text"] for one in shown] == ["hello", "hi"]
        answer = await new.answer_to(turn)
        assert answer["result"] == {"messageId": shown[0]["messageId"]}
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await state(new, "idle"))["stopReason"] == "end_turn"


async def test_a_turn_of_another_client_is_a_state_of_the_session(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        old, new = await harness.client(), await harness.client_v2()
        await open_session(harness, old, tmp_path)
        resumed = await new.call("session/resume", {"sessionId": "s1", "cwd": str(tmp_path)})
        assert "modes" not in resumed
        old.prompt("s1", "hello")
        prompt = await harness.agent.until_method("session/prompt")
        await state(new, "running")
        harness.agent.say("s1", "hi")
        harness.agent.reply(prompt, {"stopReason": "max_tokens"})
        assert (await state(new, "idle"))["stopReason"] == "max_tokens"


async def test_one_answer_of_either_version_decides_and_withdraws_the_other_question(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        old, new = await harness.client(), await harness.client_v2()
        await open_session(harness, old, tmp_path)
        await new.call("session/resume", {"sessionId": "s1", "cwd": str(tmp_path)})
        old.prompt("s1", "hello")
        await harness.agent.until_method("session/prompt")
        call = {"toolCallId": "c1", "title": "Run it", "kind": "execute"}
        params = {"sessionId": "s1", "toolCall": call, "options": OPTIONS}
        asked = harness.agent.ask("session/request_permission", params)
        question = await new.until_method("session/request_permission")
        assert question["params"]["title"] == "Run it"
        assert question["params"]["subject"]["toolCall"]["toolCallId"] == "c1"
        await old.until_method("session/request_permission")
        new.reply(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        answer = await harness.agent.answer_to(asked)
        assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}
        await old.until_method("$/cancel_request")


async def test_a_replay_keeps_the_ids_of_messages(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client_v2(), await harness.client_v2()
        asked = first.ask("session/new", {"cwd": str(tmp_path)})
        await harness.agent.answer_new_session("s1")
        await first.answer_to(asked)
        turn = first.ask("session/prompt", {"sessionId": "s1", "prompt": [{"type": "text", "text": "hello"}]})
        prompt = await harness.agent.until_method("session/prompt")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        message_id = (await first.answer_to(turn))["result"]["messageId"]
        replay = {"sessionId": "s1", "cwd": str(tmp_path), "replayFrom": {"type": "start"}}
        updates, _ = await second.updates_until(second.ask("session/resume", replay))
        assert {"user_message", "user_message_chunk", "state_update"} <= {
            one["sessionUpdate"] for one in updates
        }
        assert {one["messageId"] for one in updates if "user" in one["sessionUpdate"]} == {message_id}


async def test_a_client_that_comes_during_a_turn_gets_its_state_and_its_question(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        old, new = await harness.client(), await harness.client_v2()
        await open_session(harness, old, tmp_path)
        old.prompt("s1", "hello")
        prompt = await harness.agent.until_method("session/prompt")
        harness.agent.say("s1", "hi ")
        params = {"sessionId": "s1", "toolCall": {"toolCallId": "c1", "title": "Run"}, "options": OPTIONS}
        asked = harness.agent.ask("session/request_permission", params)
        await old.until_method("session/request_permission")
        replay = {"sessionId": "s1", "cwd": str(tmp_path), "replayFrom": {"type": "start"}}
        updates, result = await new.updates_until(new.ask("session/resume", replay))
        assert updates[-1] == {"sessionUpdate": "state_update", "state": "running"}
        assert result == {}
        waiting = new.ask("session/prompt", {"sessionId": "s1", "prompt": [{"type": "text", "text": "next"}]})
        question = await new.until_method("session/request_permission")
        new.reply(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        assert (await harness.agent.answer_to(asked))["result"]["outcome"]["optionId"] == "yes"
        harness.agent.say("s1", "there")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await state(new, "idle"))["stopReason"] == "end_turn"
        prompt = await harness.agent.until_method("session/prompt")
        harness.agent.reply(prompt, {"stopReason": "refusal"})
        assert (await new.answer_to(waiting))["result"]["messageId"]
        assert (await state(new, "idle"))["stopReason"] == "refusal"


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_the_rules_of_version_2_hold_at_a_gateway(scheme: str, tmp_path: Path) -> None:
    """The whole list of rules holds; here one case for each kind of message."""
    rules = "v2-framing.agent-returns-id,v2-session.replay-ids,v2-prompt.message-id,v2-cancel.stop-reason"
    with running_gateway(tmp_path / "home", "accord", ACCORD_MODEL="rehearsal") as gateway:
        address = f"{scheme}://127.0.0.1:{gateway.port}/acp#token={gateway.token}"
        options = ["--protocol", "2", "--quiet", "--slow", "5", "--only", rules, "--script", "accord"]
        ran = run_accord("check", "agent", *options, "--", address, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "4 pass, 0 fail" in ran.stdout
