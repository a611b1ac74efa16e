"""Cancels a long turn after each of its messages and checks that the session can continue."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import AgentHarness, ScriptedModel, use

from accord.coder.model_history import ThoughtPart, ToolResult, ToolUse, UserMessage, text_of, tool_uses_of
from accord.coder.models import ModelRequest
from accord.session import Event, SessionState, TurnEnded, TurnStarted
from accord.store import open_store
from accord.store.records import unfinished

CAPABILITIES: dict[str, Any] = {
    "session": {"compaction": {}, "notices": {}},
    "elicitation": {"form": {}},
    "plan": {},
}
STEP = 5
"""Each parameter covers every fifth message, so that no single test takes long."""


def long_turn_script() -> list[Any]:
    """Return a script with text, parallel reads, a plan, writes, a command, a question and a sub-agent."""
    return [
        [ThoughtPart("Hm. "), "I look.", use("read_file", path="a"), use("list_files", path=".")],
        [
            use("plan", entries=[{"content": "one", "status": "pending"}]),
            use("write_file", path="c", content="1"),
        ],
        ["Run.", use("bash", command="echo out; echo more >&2")],
        [use("ask_user", question="Which colour?")],
        [use("agent", prompt="look into it", description="Look")],
        [use("read_file", path="a")],
        [use("write_file", path="of-sub-agent", content="x")],
        ["Seen."],
        [use("no_such_tool", x=1), use("read_file", path="nope")],
        ["Done."],
    ]


@pytest.mark.parametrize("first", range(1, 1 + STEP))
async def test_turn_cancelled_after_any_message_ends_cleanly_and_next_turn_works(
    harness: AgentHarness, first: int
):
    (harness.home / "config").mkdir()
    (harness.home / "config" / "config.toml").write_text("[sandbox]\nenabled = false\n")
    (harness.project / "a").write_text("alpha\n")
    model = ScriptedModel()
    async with harness.client(model=model, capabilities=CAPABILITIES) as client:
        after, cancelled = first, True
        while cancelled:
            session = await client.new_session(harness.cwd)
            await client.update("notice")  # the last update a session sends by itself
            model.script[:] = long_turn_script()
            updates, cancelled, reason = await cancelled_turn(client, session, after)
            # The final update may cross the cancel; then the turn has already ended.
            done = updates[-1]["sessionUpdate"] == "usage_update"
            assert reason == "cancelled" or (reason == "end_turn" and done), f"after {after}"
            assert calls_left_open(updates) == [], f"after {after}"
            check_log(session, turns=1)
            model.script[:] = [["Next."]]
            _, result = await client.turn(session, "and now?")
            assert result["stopReason"] == "end_turn"
            check_request(model.requests[-1])
            check_log(session, turns=2)
            await client.call("session/close", {"sessionId": session})
            after += STEP
        assert after > 40  # the turn sent many messages


async def test_prompt_cancelled_before_any_message_leaves_session_unchanged(harness: AgentHarness):
    model = ScriptedModel(["Next."])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        _, cancelled, reason = await cancelled_turn(client, session, 0)
        assert (cancelled, reason) == (True, "cancelled")
        check_log(session, turns=0)
        await client.turn(session, "and now?")
        assert model.prompts == ["and now?"]


async def cancelled_turn(client: Client, session: str, after: int) -> tuple[list[Any], bool, str]:
    """Run a turn and cancel it after `after` messages.

    Returns its updates, whether the cancel was sent, and the stop reason.
    """
    turn = client.prompt(session, "go")
    updates: list[Any] = []
    number, cancelled = 0, False
    while True:
        if number == after:
            cancelled = True
            client.cancel(session)
        message = await client.raw.next()
        number += 1
        if message.get("method") == "session/update":
            updates.append(message["params"]["update"])
        elif "id" in message and "method" in message:
            client.raw.reply(message, answer_to(message, cancelled=cancelled))
        elif message.get("id") == turn:
            return updates, cancelled, message["result"]["stopReason"]


def answer_to(permission_request: Any, *, cancelled: bool) -> Any:
    if permission_request["method"] == "session/request_permission":
        chosen = {"outcome": "selected", "optionId": "allow_once"}
        return {"outcome": {"outcome": "cancelled"} if cancelled else chosen}
    assert permission_request["method"] == "elicitation/create", permission_request
    return {"action": "cancel"} if cancelled else {"action": "accept", "content": {"answer": "red"}}


def calls_left_open(updates: Iterable[Any]) -> list[str]:
    """Return the ids of tool calls that have started but not ended."""
    statuses: dict[str, str] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update") and "status" in update:
            statuses[update["toolCallId"]] = update["status"]
    return [id for id, status in statuses.items() if status not in ("completed", "failed")]


def check_log(session: str, *, turns: int) -> None:
    """Check that the log has `turns` started and ended turns, in order, and nothing unfinished."""
    store = open_store(None)
    events: list[Event] = list(store.events(session))
    store.close()
    frame = [type(event) for event in events if isinstance(event, TurnStarted | TurnEnded)]
    assert frame == [TurnStarted, TurnEnded] * turns
    state = SessionState()
    for event in events:
        state.apply(event)
    assert unfinished(state) == []


def check_request(request: ModelRequest) -> None:
    """Check that the request has both prompts, and each tool result directly after its call."""
    prompts = [text_of(message) for message in request.messages if isinstance(message, UserMessage)]
    assert (prompts[0], prompts[-1]) == ("go", "and now?")
    waiting: list[ToolUse] = []
    for message in request.messages:
        if isinstance(message, ToolResult):
            assert message.id == waiting.pop(0).id
        else:
            assert waiting == []
            waiting = tool_uses_of(message)
    assert waiting == []
