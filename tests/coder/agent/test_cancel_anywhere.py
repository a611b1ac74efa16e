"""A rich turn, cancelled after each of its messages: it always ends the same way, and the session goes on."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.agent.scene import Client
from tests.coder.agent.desk import Desk, ScriptedModel, use

from accord.coder.messages import ThoughtPart, ToolResult, ToolUse, UserMessage, text_of, uses_of
from accord.coder.models import ModelRequest
from accord.session import Event, SessionState, TurnEnded, TurnStarted
from accord.store import open_store
from accord.store.repairing import unfinished

CAPABILITIES: dict[str, Any] = {
    "session": {"compaction": {}, "notices": {}},
    "elicitation": {"form": {}},
    "plan": {},
}
STEP = 5
"""Each test takes every fifth message, so that none takes long."""


def rich_turn() -> list[Any]:
    """Thoughts, text, reads side by side, a plan, a write, a command, a question, a sub-agent, and calls that fail."""
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
async def test_wherever_a_turn_is_cancelled_it_ends_whole_and_the_next_one_works(desk: Desk, first: int):
    (desk.home / "config").mkdir()
    (desk.home / "config" / "config.toml").write_text("[sandbox]\nenabled = false\n")
    (desk.project / "a").write_text("alpha\n")
    model = ScriptedModel()
    async with desk.client(model=model, capabilities=CAPABILITIES) as client:
        after, cancelled = first, True
        while cancelled:
            session = await client.new_session(desk.cwd)
            await client.update("notice")  # the last that a session says by itself
            model.script[:] = rich_turn()
            updates, cancelled, reason = await cancelled_turn(client, session, after)
            # The last words may cross the cancel; then the turn was done.
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
        assert after > 40  # it was a rich one


async def test_a_prompt_that_is_cancelled_in_the_same_breath_leaves_the_session_as_it_was(desk: Desk):
    model = ScriptedModel(["Next."])
    async with desk.client(model=model) as client:
        session = await client.new_session(desk.cwd)
        _, cancelled, reason = await cancelled_turn(client, session, 0)
        assert (cancelled, reason) == (True, "cancelled")
        check_log(session, turns=0)
        await client.turn(session, "and now?")
        assert model.prompts == ["and now?"]


async def cancelled_turn(client: Client, session: str, after: int) -> tuple[list[Any], bool, str]:
    """A turn that is cancelled once so many messages have come: its updates, whether it came to that, why it stopped."""
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


def answer_to(asked: Any, *, cancelled: bool) -> Any:
    if asked["method"] == "session/request_permission":
        chosen = {"outcome": "selected", "optionId": "allow_once"}
        return {"outcome": {"outcome": "cancelled"} if cancelled else chosen}
    assert asked["method"] == "elicitation/create", asked
    return {"action": "cancel"} if cancelled else {"action": "accept", "content": {"answer": "red"}}


def calls_left_open(updates: Iterable[Any]) -> list[str]:
    """Tool calls that were begun and not ended."""
    statuses: dict[str, str] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update") and "status" in update:
            statuses[update["toolCallId"]] = update["status"]
    return [id for id, status in statuses.items() if status not in ("completed", "failed")]


def check_log(session: str, *, turns: int) -> None:
    """Every turn has begun and ended once, in this order, and nothing is left open."""
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
    """The model is told both prompts, and has a result for each of its calls, right behind them."""
    said = [text_of(message) for message in request.messages if isinstance(message, UserMessage)]
    assert (said[0], said[-1]) == ("go", "and now?")
    waiting: list[ToolUse] = []
    for message in request.messages:
        if isinstance(message, ToolResult):
            assert message.id == waiting.pop(0).id
        else:
            assert waiting == []
            waiting = uses_of(message)
    assert waiting == []
