"""A stopped turn does nothing more behind the gateway: it serves files and terminals for its agents."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.turn_scripts import STEPS, Step, TurnScript, random_turns
from tests.gateway.gateway_harness import DrivenClient, gateway_harness, open_session

from accord.gateway.access.audit_log import AuditLog
from accord.testing.fake_clock import settle


def answer_question(client: DrivenClient, answered: set[int], number: int, allowed: bool) -> None:
    """Answer one of the questions that the client was shown, if there is any, as a browser would."""
    asked = [
        message
        for message in client.received
        if message.get("method") == "session/request_permission" and message["id"] not in answered
    ]
    if asked:
        message = asked[number % len(asked)]
        answered.add(message["id"])
        option = "yes" if allowed else "no"
        client.reply(message, {"outcome": {"outcome": "selected", "optionId": option}})


async def play(script: TurnScript, client: DrivenClient, answered: set[int], steps: list[Step]) -> None:
    for what, number in steps:
        if what in ("yes", "no"):
            answer_question(client, answered, number, what == "yes")
        elif what == "wait":
            await settle(number * 3)
        else:
            script.ask(what, number)


async def stopped_turn(folder: Path, how: str, steps: list[Step], late: list[Step]) -> None:
    (folder / "seen.txt").write_text("seen")
    audit = AuditLog(folder.parent / "audit.jsonl")
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        session = await open_session(harness, client, folder)
        prompt_id = client.prompt(session)
        prompt = await harness.agent.until_method("session/prompt")
        script, answered = TurnScript(harness.agent, folder), set[int]()
        await play(script, client, answered, steps)
        agent = harness.agent
        if how == "lose":
            await agent.aclose()
            await client.answer_to(prompt_id)
            received, done = len(agent.received), script.done()
            await play(script, client, answered, [step for step in late if step[0] in ("yes", "wait")])
        else:
            stop = "$/cancel_request" if how == "cancel the request" else "session/cancel"
            client.notify(stop, {"requestId": prompt_id} if stop.startswith("$") else {"sessionId": session})
            await agent.until_method(stop)
            received = [message.get("method") for message in agent.received].index(stop)
            done = script.done()
            await play(script, client, answered, late)
            if how == "cancel and prompt":
                client.prompt(session, "next")  # the next prompt does not revive the canceled turn
                await agent.until_method("session/prompt")
                await play(script, client, answered, late)
            agent.reply(prompt, {"stopReason": "cancelled"})
            if how != "cancel and prompt":
                await client.answer_to(prompt_id)
                await play(script, client, answered, [step for step in late if step[0] != "read"])
            await script.all_answered()
        await harness.gateway.aclose()
    script.check_nothing_after(received, done)


@random_turns
@given(
    how=st.sampled_from(("cancel", "cancel and prompt", "cancel the request", "lose")),
    steps=STEPS,
    late=STEPS,
)
def test_after_a_turn_was_stopped_the_gateway_does_nothing_for_it(
    how: str, steps: list[Step], late: list[Step]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name).resolve() / "project"
        folder.mkdir()
        asyncio.run(stopped_turn(folder, how, steps, late))


async def test_a_question_is_withdrawn_from_every_client_when_its_turn_ends(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client(), await harness.client()
        session = await open_session(harness, first, tmp_path)
        await second.call("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        first.prompt(session)
        prompt = await harness.agent.until_method("session/prompt")
        script = TurnScript(harness.agent, tmp_path)
        asked = script.ask("permit", 0)
        shown = [await client.until_method("session/request_permission") for client in (first, second)]
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        for client, message in zip((first, second), shown, strict=True):
            withdrawn = await client.until_method("$/cancel_request")
            assert withdrawn["params"] == {"requestId": message["id"]}
        answer = await harness.agent.answer_to(asked)
        assert answer["result"] == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize("method", ["fs/write_text_file", "terminal/create"])
async def test_the_gateway_serves_the_agent_again_with_the_next_prompt(
    method: str, audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        session = await open_session(harness, client, tmp_path)
        client.prompt(session)
        prompt = await harness.agent.until_method("session/prompt")
        client.notify("session/cancel", {"sessionId": session})
        await harness.agent.until_method("session/cancel")
        harness.agent.reply(prompt, {"stopReason": "cancelled"})
        params = {"sessionId": session, "path": str(tmp_path / "a"), "content": "x", "command": "true"}
        refused = await harness.agent.answer_to(harness.agent.ask(method, params))
        assert refused["error"]["code"] == -32800
        client.prompt(session, "again")
        await harness.agent.until_method("session/prompt")
        assert "result" in await harness.agent.answer_to(harness.agent.ask(method, params))
