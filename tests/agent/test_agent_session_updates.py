"""Updates of a session: plans, commands, titles, usage, notices, compaction, subagents, MCP over ACP."""

import asyncio
from typing import Any, cast

import pytest
from tests.agent.agent_client import EVERYTHING, connected_client, make_agent, silent

from accord.agent import AgentFeatures, AgentSession, Turn
from accord.errors import InternalError, NotOffered, RpcError, UsageError
from accord.schema import (
    AgentMessageChunk,
    AvailableCommand,
    CompactionUpdate,
    Cost,
    Notice,
    Plan,
    PlanEntry,
    SessionInfoUpdate,
    SessionUpdate,
    SubagentUpdate,
    Terminal,
    TextContent,
    ToolCall,
    ToolCallChange,
)
from accord.session import SessionOpened, SessionState, TurnStarted

UNSUPPORTED = [
    {},
    {"session": {}},
    {"session": {"notices": None, "compaction": None}},
    {"plan": None, "subagents": None},
]


async def updates_of(turn: Any, capabilities: Any = None) -> list[Any]:
    async with connected_client(make_agent(turn), capabilities=capabilities) as client:
        updates, _ = await client.turn(await client.new_session())
    return updates


@pytest.mark.rule("plan.complete", "plan.entry-members")
async def test_every_plan_update_contains_the_whole_plan() -> None:
    async def plans(turn: Turn) -> None:
        steps = [
            "Look",
            ("Edit", "in_progress"),
            ("Test", "pending", "high"),
            PlanEntry("Ship", "low", "completed"),
        ]
        await turn.plan(steps)  # type: ignore[arg-type]
        await turn.plan([])

    assert await updates_of(plans) == [
        {
            "sessionUpdate": "plan",
            "entries": [
                {"content": "Look", "priority": "medium", "status": "pending"},
                {"content": "Edit", "priority": "medium", "status": "in_progress"},
                {"content": "Test", "priority": "high", "status": "pending"},
                {"content": "Ship", "priority": "low", "status": "completed"},
            ],
        },
        {"sessionUpdate": "plan", "entries": []},
    ]


async def several_plans(turn: Turn) -> None:
    await turn.plan(["a"], id="items")
    await turn.plan_text("\n# The *big* plan\n- step", id="text")
    await turn.plan_file("file:///plan.md", id="file")
    await turn.remove_plan("items")
    await turn.remove_plan("nope")


@pytest.mark.rule("plan.update-needs-capability")
async def test_several_plans_are_sent_to_a_client_that_shows_them() -> None:
    assert await updates_of(several_plans, {"plan": {}}) == [
        {
            "sessionUpdate": "plan_update",
            "plan": {
                "type": "items",
                "planId": "items",
                "entries": [{"content": "a", "priority": "medium", "status": "pending"}],
            },
        },
        {
            "sessionUpdate": "plan_update",
            "plan": {"type": "markdown", "planId": "text", "content": "\n# The *big* plan\n- step"},
        },
        {
            "sessionUpdate": "plan_update",
            "plan": {"type": "file", "planId": "file", "uri": "file:///plan.md"},
        },
        {"sessionUpdate": "plan_removed", "planId": "items"},
    ]


@pytest.mark.rule("plan.update-needs-capability", "plan.fallback")
@pytest.mark.parametrize("capabilities", UNSUPPORTED)
async def test_several_plans_are_merged_for_a_client_that_shows_one(capabilities: Any) -> None:
    updates = await updates_of(several_plans, capabilities)
    assert {update["sessionUpdate"] for update in updates} == {"plan"}
    assert [[entry["content"] for entry in update["entries"]] for update in updates] == [
        ["a"],
        ["a", "The *big* plan"],
        ["a", "The *big* plan", "file:///plan.md"],
        ["The *big* plan", "file:///plan.md"],
    ]


@pytest.mark.rule("command.members", "command.recognized")
async def test_commands_are_listed_and_recognized_in_prompts() -> None:
    async def obeys(turn: Turn) -> None:
        if turn.text == "start":
            hidden = AvailableCommand("help", "What there is")
            await turn.commands([("test", "Run the tests", "filter"), hidden])
            with pytest.raises(UsageError, match="slash"):
                await turn.commands([("/bad", "With a slash")])
        await turn.say(str(turn.command))

    async with connected_client(make_agent(obeys)) as client:
        session = await client.new_session()
        prompts = ["start", "/test unit  tests ", "/help", "/nope", "test", "/testing"]
        answers = [(await client.turn(session, prompt))[0][-1]["content"]["text"] for prompt in prompts]
    assert client.updates_of("available_commands_update") == [
        {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [
                {"name": "test", "description": "Run the tests", "input": {"hint": "filter"}},
                {"name": "help", "description": "What there is"},
            ],
        }
    ]
    assert answers == ["None", "('test', 'unit  tests')", "('help', '')", "None", "None", "None"]


@pytest.mark.rule("session-info.members", "usage.members", "usage.size", "usage.cost")
async def test_title_and_usage_updates() -> None:
    async def reports(turn: Turn) -> None:
        await turn.title("Fix the bug")
        await turn.title(None)
        await turn.usage(1200, 200_000, cost=(0.01, "USD"))
        await turn.usage(900, 200_000, cost=Cost(3, "credits"))
        await turn.usage(900, 0)
        with pytest.raises(UsageError, match="cost=nan is no amount"):
            await turn.usage(900, 200_000, cost=(float("nan"), "USD"))

    assert await updates_of(reports) == [
        {"sessionUpdate": "session_info_update", "title": "Fix the bug"},
        {"sessionUpdate": "session_info_update", "title": None},
        {
            "sessionUpdate": "usage_update",
            "used": 1200,
            "size": 200_000,
            "cost": {"amount": 0.01, "currency": "USD"},
        },
        {
            "sessionUpdate": "usage_update",
            "used": 900,
            "size": 200_000,
            "cost": {"amount": 3, "currency": "credits"},
        },
    ]


async def warns(turn: Turn) -> None:
    await turn.say("Working")
    await turn.notice("MCP server down", "It will be tried again", severity="warning")
    await turn.notice("Saved")
    await turn.say(" on it")


@pytest.mark.rule("notice.members", "notice.optional", "notice.needs-capability")
async def test_a_notice_is_sent_to_a_client_that_shows_notices() -> None:
    updates = await updates_of(warns, EVERYTHING)
    assert updates[1:3] == [
        {
            "sessionUpdate": "notice",
            "severity": "warning",
            "title": "MCP server down",
            "description": "It will be tried again",
        },
        {"sessionUpdate": "notice", "severity": "info", "title": "Saved"},
    ]
    assert updates[0]["messageId"] == updates[3]["messageId"]


@pytest.mark.rule("notice.needs-capability", "notice.text-as-fallback")
@pytest.mark.parametrize("capabilities", UNSUPPORTED)
async def test_without_notice_support_a_notice_becomes_a_separate_message(capabilities: Any) -> None:
    updates = await updates_of(warns, capabilities)
    assert [(update["sessionUpdate"], update["content"]["text"]) for update in updates] == [
        ("agent_message_chunk", "Working"),
        ("agent_message_chunk", "\n\nMCP server down: It will be tried again\n\n"),
        ("agent_message_chunk", "Saved\n\n"),
        ("agent_message_chunk", " on it"),
    ]
    assert len({update["messageId"] for update in updates}) == 4


async def answers_then_warns(turn: Turn) -> None:
    sum(range(2_000_000))  # a long step, after which the next output lets the event loop run
    await asyncio.gather(turn.say("Working"), turn.session.notice("Saved"))
    await turn.say(" on it")


async def warns_then_answers(turn: Turn) -> None:
    sum(range(2_000_000))
    await asyncio.gather(turn.session.notice("Saved"), turn.say("Working"))
    await turn.say(" on it")


@pytest.mark.rule("notice.text-as-fallback")
@pytest.mark.parametrize("handler", [answers_then_warns, warns_then_answers])
async def test_a_notice_of_another_task_is_never_part_of_the_answer(handler: Any) -> None:
    updates = await updates_of(handler)
    [notice] = [update for update in updates if "Saved" in update["content"]["text"]]
    assert notice["messageId"] not in {update["messageId"] for update in updates if update is not notice}


@pytest.mark.rule("notice.needs-capability", "notice.text-as-fallback")
async def test_a_notice_can_be_sent_between_turns() -> None:
    async with connected_client(make_agent(silent), capabilities=EVERYTHING) as client:
        session = await client.new_session()
        await client.connection.sessions[session].notice("Low battery")
        assert (await client.update("notice"))["title"] == "Low battery"


async def thinks_and_answers(turn: Turn) -> None:
    await turn.think("hm")
    await turn.say(f"answer to {turn.text}")


async def uses_a_tool(turn: Turn) -> None:
    async with turn.tool_call("look"):
        pass
    await turn.say(f"answer to {turn.text}")


@pytest.mark.rule("notice.needs-capability", "notice.text-as-fallback")
@pytest.mark.parametrize("handler", [thinks_and_answers, uses_a_tool])
async def test_without_notice_support_a_notice_between_turns_opens_the_next_turn(handler: Any) -> None:
    """Clients append what arrives between turns to the last answer, so it is held back."""
    async with connected_client(make_agent(handler)) as client:
        session = await client.new_session()
        await client.turn(session, "one")
        count = len(client.updates())
        agent_session = client.connection.sessions[session]
        for _ in range(2):
            await agent_session.notice("MCP server down", "it exited")
        await agent_session.title("a title")
        assert (await client.update("session_info_update"))["title"] == "a title"
        updates, _ = await client.turn(session, "two")
        between = client.updates()[count : -len(updates)]
        assert [update["sessionUpdate"] for update in between] == ["session_info_update"]
        notice, *others = updates
        assert notice["content"]["text"] == "MCP server down: it exited\n\n"
        assert notice["messageId"] not in {update.get("messageId") for update in others}
        again, _ = await client.turn(session, "three")
        assert "MCP server down" not in str(again), "it is said once"


async def compacts(turn: Turn) -> None:
    async with turn.compaction() as compaction:
        await compaction.summary("Kept: ")
        await compaction.summary(TextContent("the bug"))
    with pytest.raises(UsageError, match="ended"):
        await compaction.summary("more")
    with pytest.raises(ValueError, match="no room"):
        async with turn.compaction():
            raise ValueError("no room")
    with pytest.raises(asyncio.CancelledError):
        async with turn.compaction():
            raise asyncio.CancelledError


@pytest.mark.rule("compaction.needs-capability", "compaction.ends-once")
async def test_a_compaction_reports_its_start_summary_and_one_end() -> None:
    updates = await updates_of(compacts, EVERYTHING)
    reported = [(update["sessionUpdate"], update.get("status"), update.get("error")) for update in updates]
    assert reported == [
        ("compaction_update", "in_progress", None),
        ("compaction_summary_chunk", None, None),
        ("compaction_summary_chunk", None, None),
        ("compaction_update", "completed", None),
        ("compaction_update", "in_progress", None),
        ("compaction_update", "failed", "no room"),
        ("compaction_update", "in_progress", None),
        ("compaction_update", "cancelled", None),
    ]
    assert len({update["compactionId"] for update in updates}) == 3


@pytest.mark.rule("compaction.needs-capability")
@pytest.mark.parametrize("capabilities", UNSUPPORTED)
async def test_without_compaction_support_no_compaction_update_is_sent(capabilities: Any) -> None:
    assert await updates_of(compacts, capabilities) == []


@pytest.mark.rule(
    "plan.update-needs-capability",
    "compaction.needs-capability",
    "notice.needs-capability",
    "subagent.needs-capability",
)
@pytest.mark.parametrize(
    "update", [Notice("info", "x"), CompactionUpdate("c", "completed"), SubagentUpdate("child")]
)
async def test_an_update_the_client_does_not_support_is_refused(update: Any) -> None:
    async def forces(turn: Turn) -> None:
        with pytest.raises(NotOffered, match="capability"):
            await turn.update(update)

    assert await updates_of(forces, {}) == []
    assert len(await updates_of(lambda turn: turn.update(update), EVERYTHING)) == 1


async def delegates(turn: Turn) -> None:
    stopped = asyncio.Event()
    child = turn.subagent("Tests", cancel=stopped.set)
    await child.set_directories("/home/me/app/tests", "/home/me/lib")
    await child.set_description("Runs the tests")
    await child.add_message("Run the tests")
    await child.update(AgentMessageChunk(TextContent("running"), "m1"))
    if child.shown:
        await turn.session.title("waiting")
        await stopped.wait()
    await child.set_requires_action()
    await child.set_running()
    await child.set_failed(InternalError("model failed", "x"))
    await child.set_idle()
    with pytest.raises(UsageError, match="absolute"):
        await child.set_directories("tests")


@pytest.mark.rule("subagent.needs-capability", "subagent.announced", "subagent.absolute-paths")
async def test_a_subagent_is_announced_reports_and_can_be_cancelled() -> None:
    async with connected_client(make_agent(delegates), capabilities=EVERYTHING) as client:
        session = await client.new_session()
        id = client.prompt(session)
        await client.update("session_info_update")
        announced = client.raw.received[2]["params"]
        child = announced["update"]["sessionId"]
        client.cancel(child)
        _, result = await client.turn_of(id)
    assert announced == {
        "sessionId": session,
        "update": {
            "sessionUpdate": "subagent_update",
            "sessionId": child,
            "title": "Tests",
            "capabilities": {"cancel": {}},
            "state": {"state": "running"},
        },
    }
    own = [
        m["params"]["update"] for m in client.raw.received if m.get("params", {}).get("sessionId") == child
    ]
    assert [update["content"]["text"] for update in own] == ["running"]
    message = client.updates_of("session_message")[0]
    assert (message["senderSessionId"], message["recipientSessionId"]) == (session, child)
    states = [update["state"] for update in client.updates_of("subagent_update") if "state" in update]
    assert [state["state"] for state in states] == ["running", "requires_action", "running", "idle", "idle"]
    assert states[3]["error"] == {"code": -32603, "message": "model failed", "data": "x"}
    assert result == {"stopReason": "end_turn"}


@pytest.mark.rule("subagent.needs-capability")
@pytest.mark.parametrize("capabilities", UNSUPPORTED)
async def test_without_subagent_support_no_subagent_update_is_sent(capabilities: Any) -> None:
    assert await updates_of(delegates, capabilities) == []


ACP = {"type": "acp", "name": "ide", "serverId": "srv"}


@pytest.mark.rule("mcp.declared-server", "mcp.result-counts")
async def test_mcp_requests_go_through_the_client() -> None:
    notifications: list[Any] = []

    async def uses(turn: Turn) -> None:
        session = turn.session
        with pytest.raises(UsageError, match="nope"):
            await session.mcp_request("nope", "tools/list")

        def on_progress(method: str, params: Any) -> None:
            notifications.append((method, params))

        result = await session.mcp_request("srv", "tools/call", {"name": "open"}, on_notification=on_progress)
        await turn.say(str(result))
        with pytest.raises(RpcError, match="Method not found") as failed:
            await session.mcp_request("srv", "no/such")
        assert failed.value.code == -32601
        assert await session.mcp_request("srv", "ping") is None

    agent = make_agent(uses, accepts=AgentFeatures(mcp_acp=True))
    async with connected_client(agent, capabilities=EVERYTHING) as client:
        session = (await client.call("session/new", {"cwd": "/a", "mcpServers": [ACP]}))["sessionId"]
        id = client.prompt(session)
        first = await client.asked("mcp/message")
        about = {"serverId": "srv", "requestId": first["params"]["requestId"]}
        client.raw.notify(
            "mcp/message", {**about, "method": "notifications/progress", "params": {"progress": 1}}
        )
        client.raw.notify("mcp/message", {**about, "requestId": "other", "method": "x"})
        both = {"result": {"ok": 1}, "error": {"code": -1, "message": "no"}}
        client.raw.reply(first, both)
        second = await client.asked("mcp/message")
        client.raw.notify("mcp/message", {**about, "method": "late"})
        client.raw.reply(second, {"error": {"code": -32601, "message": "Method not found"}})
        client.raw.reply(await client.asked("mcp/message"), {"result": None})
        await client.turn_of(id)
    assert first["params"]["requestId"] != second["params"]["requestId"]
    version = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    meta = {**version, "io.modelcontextprotocol/clientCapabilities": {}}
    assert first["params"]["params"] == {"name": "open", "_meta": meta}
    assert notifications == [("notifications/progress", {"progress": 1})]
    assert client.updates_of("agent_message_chunk")[0]["content"]["text"] == "{'ok': 1}"


async def test_updates_can_be_sent_at_any_time() -> None:
    agent = make_agent(silent)
    kept: list[AgentSession] = []
    agent.new_session(kept.append)
    async with connected_client(agent) as client:
        await client.new_session()
        await kept[0].usage(1, 2)
        kept[0].push(AgentMessageChunk(TextContent("psst"), "m"))
        await client.update("usage_update")
        assert (await client.update("agent_message_chunk"))["content"]["text"] == "psst"


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (("a", "doing"), "status: expected one of pending, in_progress, completed, got 'doing'"),
        (("a", "pending", "urgent"), "priority: expected one of high, medium, low, got 'urgent'"),
        (PlanEntry("a", "medium", cast(Any, "done")), "got 'done'"),
    ],
)
async def test_a_plan_with_an_unknown_value_is_refused_before_it_is_sent(step: Any, problem: str) -> None:
    refused: list[str] = []

    async def handler(turn: Turn) -> None:
        with pytest.raises(UsageError) as error:
            await turn.plan([step])
        refused.append(str(error.value))

    async with connected_client(make_agent(handler)) as client:
        updates, _ = await client.turn(await client.new_session())
    assert updates == []
    assert refused[0].endswith(problem)


@pytest.mark.parametrize(
    ("update", "problem"),
    [
        (Plan([PlanEntry("a", cast(Any, "urgent"), "pending")]), "got 'urgent'"),
        (ToolCall("c", "Read", cast(Any, "reading")), "kind: expected one of read, edit,.* got 'reading'"),
        (ToolCallChange("c", status=cast(Any, "done")), "status: expected one of pending,.* got 'done'"),
    ],
)
async def test_an_update_with_an_unknown_value_is_refused_before_it_is_sent(
    update: SessionUpdate, problem: str
) -> None:
    async def handler(turn: Turn) -> None:
        with pytest.raises(UsageError, match=problem):
            await turn.update(update)

    async with connected_client(make_agent(handler)) as client:
        updates, result = await client.turn(await client.new_session())
    assert (updates, result["stopReason"]) == ([], "end_turn")


async def test_an_event_of_a_log_is_refused_as_an_update() -> None:
    async def handler(turn: Turn) -> None:
        with pytest.raises(UsageError, match="cannot send SessionOpened; pass a session update"):
            await turn.session.update(cast(Any, SessionOpened("s1")))

    async with connected_client(make_agent(handler)) as client:
        updates, result = await client.turn(await client.new_session())
    assert (updates, result["stopReason"]) == ([], "end_turn")


async def test_replay_leaves_out_what_the_client_cannot_receive() -> None:
    state = SessionState("s1", "/project")
    state.apply(TurnStarted([TextContent("Hi")]))
    state.apply(CompactionUpdate("c1", "completed"))
    state.apply(ToolCall("t1", "Run", content=[Terminal("x1")], raw_output={"output": "ok"}))
    state.apply(SessionInfoUpdate("A title"))

    async def handler(turn: Turn) -> None:
        await turn.session.replay(state.updates())

    async with connected_client(make_agent(handler)) as client:
        updates, _ = await client.turn(await client.new_session())
    kinds = [update["sessionUpdate"] for update in updates]
    assert kinds == ["user_message_chunk", "tool_call", "session_info_update"]
    assert "ok" in updates[1]["content"][0]["content"]["text"]
