"""Accord's client as an application uses it, with agents on the official SDKs."""

from contextlib import aclosing
from pathlib import Path

import pytest
from tests.interop.conversation import SCRIPT, command_of

import accord
from accord.schema import Diff

official_agents = pytest.mark.parametrize("peer", ["python", "typescript"])


def approve(request: accord.PermissionRequest) -> str | None:
    """Select `allow_once`, as a user would."""
    assert request.call.label == SCRIPT["danger"]["title"]
    allow = request.option("allow_once")
    return allow and allow.option_id


@official_agents
async def test_a_turn_is_followed_by_typed_events(peer: str, tmp_path: Path) -> None:
    handlers = accord.ClientHandlers(permissions=approve)
    async with accord.connect(*command_of("agent", peer), handlers=handlers) as agent:
        assert agent.info is not None
        assert (agent.info.name, agent.info.version) == (SCRIPT["agent"]["name"], SCRIPT["agent"]["version"])
        session = await agent.new_session(tmp_path)

        calls = [event async for event in session.prompt("tool") if isinstance(event, accord.ToolCallChanged)]
        assert [event.patch.status for event in calls if event.patch.status] == [
            "pending",
            "in_progress",
            "completed",
        ]
        assert [event.new for event in calls] == [True, False, False, False]
        [diff] = session.state.tool_calls[calls[0].call.tool_call_id].content
        assert isinstance(diff, Diff)
        assert (diff.old_text, diff.new_text) == (SCRIPT["edit"]["old"], SCRIPT["edit"]["new"])

        events = [event async for event in session.prompt("permission")]
        asked = [
            type(event)
            for event in events
            if isinstance(event, accord.PermissionAsked | accord.PermissionAnswered)
        ]
        assert asked == [accord.PermissionAsked, accord.PermissionAnswered]
        assert isinstance(events[0], accord.TurnStarted)
        assert isinstance(events[-1], accord.TurnEnded)
        assert events[-1].stop_reason == "end_turn"

        answer = await session.ask("text")
        assert answer.text == "".join(SCRIPT["pieces"])
        assert answer.stop_reason == "end_turn"


@official_agents
async def test_leaving_a_turn_cancels_it_and_the_next_one_waits(peer: str, tmp_path: Path) -> None:
    async with accord.connect(*command_of("agent", peer)) as agent:
        session = await agent.new_session(tmp_path)
        async with aclosing(session.prompt("cancel-me")) as events:
            async for event in events:
                if isinstance(event, accord.AgentMessageChunk) and event.text == "waiting":
                    break
        answer = await session.ask("echo after that")
        assert answer.text == "after that"
        assert [call.status for call in session.state.tool_calls.values()] == ["failed"]


@official_agents
@pytest.mark.rule("file.unadvertised-method")
async def test_unsupported_client_methods_are_refused(peer: str, tmp_path: Path) -> None:
    async with accord.connect(*command_of("agent", peer)) as agent:
        session = await agent.new_session(tmp_path)
        for word in ("files", "terminal", "form"):  # these agents ignore the client's capabilities
            with pytest.raises(accord.RpcError):
                await session.ask(word)
        assert (await session.ask("echo still here")).text == "still here"


@official_agents
async def test_an_agent_that_crashes_is_restarted(peer: str, tmp_path: Path) -> None:
    options = accord.ClientOptions(restart=accord.RestartPolicy(max_restarts=1, pause=0))
    async with accord.connect(*command_of("agent", peer), options=options) as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(accord.Crashed) as crash:
            await session.ask("crash")
        assert crash.value.exit_code == SCRIPT["exit_code"]
        assert SCRIPT["stderr_text"] in crash.value.stderr

        new_session = await agent.new_session(tmp_path)
        assert (await new_session.ask("echo back again")).text == "back again"
        assert session.lost is not None, "the agent keeps its sessions in memory, so the old one is lost"
        with pytest.raises(accord.UsageError, match="was lost"):
            await session.ask("echo hello?")
