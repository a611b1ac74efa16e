"""Session updates as a client sees them: tool calls, plans, settings, commands, usage, notices, subagents."""

import asyncio

import pytest
from tests.client.raw_agent import EventCollector, in_session, kinds

from accord.client import ClientFeatures, ClientHandlers, ClientOptions, local_workspace
from accord.errors import NotOffered, RpcError, UsageError
from accord.session import ModeChanged, TurnEnded, text_of
from accord.testing.fake_clock import settle

MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
}


def select(id="model", current="a", values=("a", "b"), **more):
    choices = [{"value": value, "name": value.upper()} for value in values]
    return {
        "id": id,
        "name": id.title(),
        "type": "select",
        "currentValue": current,
        "options": choices,
        **more,
    }


def switch(id="auto", current=False):
    return {"id": id, "name": id.title(), "type": "boolean", "currentValue": current}


@pytest.mark.rule(
    "tool-call.default-kind-and-status",
    "tool-call.omitted-members-stay",
    "tool-call.arrays-replace",
    "tool-call.name-kept",
    "tool-call.name-optional",
)
async def test_tool_call_updates_change_members_and_replace_arrays():
    async with in_session() as (session, peer):
        text = {"type": "content", "content": {"type": "text", "text": "one"}}
        other = {"type": "content", "content": {"type": "text", "text": "two"}}
        peer.update("s1", "tool_call", toolCallId="c1", title="Look", name="grep", content=[text])
        await settle()
        call = session.state.tool_calls["c1"]
        assert (call.kind, call.status, call.label) == ("other", "pending", "Look")
        peer.update("s1", "tool_call_update", toolCallId="c1", status="in_progress", name=None, title=None)
        peer.update(
            "s1", "tool_call_update", toolCallId="c1", content=[other], locations=[{"path": "/a", "line": 1}]
        )
        await settle()
        assert (call.title, call.name, call.status) == ("Look", "grep", "in_progress")
        assert [text_of(item) for item in call.content] == ["two"]
        assert call.locations[0].line == 1


@pytest.mark.rule("tool-call.unknown-kind", "tool-call.invalid-content-item", "tool-call.unknown-id")
async def test_irregular_tool_calls_are_tolerated():
    async with in_session() as (session, peer):
        good = {"type": "content", "content": {"type": "text", "text": "kept"}}
        peer.update("s1", "tool_call", toolCallId="c1", title="T", kind="file", status="weird")
        peer.update("s1", "tool_call_update", toolCallId="c1", content=[{"type": "hologram"}, good, 5])
        peer.update("s1", "tool_call_update", toolCallId="unannounced", title="Surprise", status="completed")
        await settle()
        assert session.state.tool_calls["c1"].status == "pending"
        assert [item for item in session.state.tool_calls["c1"].content if hasattr(item, "content")]
        assert session.state.tool_calls["unannounced"].label == "Surprise"


@pytest.mark.rule("plan.replaced")
async def test_a_plan_replaces_the_previous_plan():
    async with in_session() as (session, peer):
        for number in (3, 2):
            entries = [{"content": f"{i}", "priority": "low", "status": "pending"} for i in range(number)]
            peer.update("s1", "plan", entries=entries)
            await settle()
            assert len(session.state.plan) == number


@pytest.mark.rule("plan.by-id")
async def test_plans_are_added_and_removed_by_id():
    async with in_session(options=ClientOptions(features=ClientFeatures(plans=True))) as (session, peer):
        entry = {"content": "x", "priority": "low", "status": "pending"}
        peer.update("s1", "plan_update", plan={"type": "items", "planId": "p1", "entries": [entry]})
        peer.update("s1", "plan_update", plan={"type": "markdown", "planId": "p2", "content": "# Plan"})
        peer.update("s1", "plan_removed", planId="p1")
        await settle()
        assert list(session.state.history.plans) == ["p2"]


@pytest.mark.rule("mode.only-listed", "option.modes-as-fallback")
async def test_a_session_with_only_modes_has_a_mode_picker():
    async with in_session(modes=MODES) as (session, peer):
        (picker,) = session.state.settings.pickers
        assert (picker.source, picker.current) == ("modes", "ask")
        with pytest.raises(UsageError, match="no mode 'nope'"):
            await session.set_mode("nope")
        watching = EventCollector(session.events())
        await settle()
        setting = asyncio.create_task(session.choose(picker, "code"))
        asked = await peer.next("session/set_mode")
        assert asked["params"] == {"sessionId": "s1", "modeId": "code"}
        peer.reply(asked, {"modeId": "code"})
        await setting
        assert session.state.settings.current_mode_id == "code"
        assert (await watching.until(ModeChanged)).mode_id == "code"
        await watching.cancel()
        assert len(peer.received) == 3


@pytest.mark.rule("mode.mode-id-spelling")
@pytest.mark.parametrize("member", ["currentModeId", "modeId"])
async def test_the_agent_can_change_the_mode(member):
    async with in_session(modes=MODES) as (session, peer):
        peer.update("s1", "current_mode_update", **{member: "code"})
        await settle()
        assert session.state.settings.current_mode_id == "code"


async def test_a_refused_mode_keeps_the_current_mode():
    async with in_session(modes=MODES) as (session, peer):
        setting = asyncio.create_task(session.set_mode("code"))
        peer.refuse(await peer.next("session/set_mode"), -32602, "Unknown mode")
        with pytest.raises(RpcError):
            await setting
        assert session.state.settings.current_mode_id == "ask"


@pytest.mark.rule("option.preferred-to-modes")
async def test_config_options_take_precedence_over_modes():
    mode = select("mode", "ask", ("ask", "code"), category="mode")
    async with in_session(modes=MODES, configOptions=[mode]) as (session, peer):
        assert [picker.source for picker in session.state.settings.pickers] == ["config"]
        setting = asyncio.create_task(session.set_mode("code"))
        asked = await peer.next("session/set_config_option")
        assert asked["params"] == {"sessionId": "s1", "configId": "mode", "value": "code"}
        peer.reply(asked, {"configOptions": [mode | {"currentValue": "code"}]})
        await setting
        assert session.state.settings.current_mode_id == "code"


@pytest.mark.rule(
    "option.boolean-value", "option.unknown-type", "option.unknown-category", "option.order-kept"
)
async def test_config_options_are_set_with_their_listed_type():
    offered = [select(category="_x"), {"id": "s", "name": "S", "type": "slider"}, switch(), select("plain")]
    async with in_session(configOptions=offered) as (session, peer):
        assert [option.id for option in session.state.settings.config_options] == ["model", "auto", "plain"]
        setting = asyncio.create_task(session.set_config_option("auto", True))
        asked = await peer.next("session/set_config_option")
        assert asked["params"] == {"sessionId": "s1", "configId": "auto", "type": "boolean", "value": True}
        peer.reply(asked, {"configOptions": [switch(current=True), select(current="b")]})
        await setting
        assert [option.current_value for option in session.state.settings.config_options] == [True, "b"]

        setting = asyncio.create_task(session.set_config_option("model", "a"))
        asked = await peer.next("session/set_config_option")
        assert asked["params"] == {"sessionId": "s1", "configId": "model", "value": "a"}
        peer.reply(asked, {"configOptions": [select()]})
        await setting
        for config_id, value in (("nope", "a"), ("model", "nope"), ("model", True), ("auto", "x")):
            with pytest.raises(UsageError):
                await session.set_config_option(config_id, value)
        assert len(peer.received) == 4


@pytest.mark.dialect(44)
@pytest.mark.parametrize("answer", [{}, None, {"configOptions": []}])
async def test_a_response_without_options_keeps_the_values_until_an_update(answer):
    async with in_session(configOptions=[select()]) as (session, peer):
        setting = asyncio.create_task(session.set_config_option("model", "b"))
        peer.reply(await peer.next("session/set_config_option"), answer)
        await setting
        assert [option.current_value for option in session.state.settings.config_options] == ["a"]
        peer.update("s1", "config_option_update", configOptions=[select(current="b")])
        await settle()
        assert [option.current_value for option in session.state.settings.config_options] == ["b"]


@pytest.mark.dialect(42)
async def test_a_legacy_model_list_becomes_a_picker():
    models = {
        "currentModelId": "m1",
        "availableModels": [{"modelId": "m1", "name": "One"}, {"modelId": "m2", "name": "Two"}],
    }
    async with in_session(models=models, checked=False) as (session, peer):
        (picker,) = session.state.settings.pickers
        assert (picker.current, [choice.value for choice in picker.choices]) == ("m1", ["m1", "m2"])
        setting = asyncio.create_task(session.choose(picker, "m2"))
        asked = await peer.next("session/set_model")
        assert asked["params"] == {"sessionId": "s1", "modelId": "m2"}
        peer.reply(asked, {})
        await setting
        assert session.state.settings.pickers[0].current == "m2"


@pytest.mark.rule("command.list-replaced", "command.sent-as-text")
async def test_commands_are_replaced_and_sent_as_text():
    async with in_session() as (session, peer):
        peer.update(
            "s1", "available_commands_update", availableCommands=[{"name": "web", "description": "d"}]
        )
        peer.update(
            "s1", "available_commands_update", availableCommands=[{"name": "plan", "description": "d"}]
        )
        await settle()
        (command,) = session.state.commands
        turn = EventCollector(session.prompt(f"/{command.name} the release"))
        prompt = await peer.next("session/prompt")
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "/plan the release"}]
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()


@pytest.mark.rule("session-info.patch")
async def test_a_title_is_kept_unless_it_is_cleared():
    async with in_session() as (session, peer):
        for members, title in (({"title": "One"}, "One"), ({}, "One"), ({"title": None}, None)):
            peer.update("s1", "session_info_update", **members)
            await settle()
            assert session.state.title == title


@pytest.mark.rule("usage.unknown-unit")
async def test_a_cost_in_any_currency_is_kept():
    async with in_session() as (session, peer):
        peer.update("s1", "usage_update", used=1, size=2, cost={"amount": 3, "currency": "credits"})
        await settle()
        usage = session.state.usage
        assert usage is not None
        assert usage.cost
        assert usage.cost.currency == "credits"


@pytest.mark.rule("notice.unknown-severity", "notice.shown", "notice.not-stored", "notice.unadvertised")
@pytest.mark.parametrize("shown", [True, False])
async def test_notices_are_events_and_not_part_of_the_history(shown):
    options = ClientOptions(features=ClientFeatures(notices=shown))
    async with in_session(options=options) as (session, peer):
        peer.update("s1", "notice", severity="info", title="Idle")
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "notice", severity="_x", title="Odd", description=None)
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
        assert kinds(events) == ["TurnStarted", "Notice", "TurnEnded"]
        assert [notice.title for notice in session.state.notices] == ["Idle", "Odd"]
        assert session.state.timeline == session.state.messages
        assert all("method" in message for message in peer.received)


@pytest.mark.rule("compaction.patch", "compaction.chunk-creates", "compaction.unknown-status")
async def test_compaction_chunks_append_and_updates_replace():
    async with in_session() as (session, peer):
        for word in ("Kept: ", "this"):
            peer.update(
                "s1", "compaction_summary_chunk", compactionId="k1", content={"type": "text", "text": word}
            )
        await settle()
        compaction = session.state.history.compactions["k1"]
        assert (compaction.status, compaction.text) == ("in_progress", "Kept: this")
        peer.update("s1", "compaction_update", compactionId="k1", status="completed")
        await settle()
        assert (compaction.status, compaction.text) == ("completed", "Kept: this")
        peer.update("s1", "compaction_update", compactionId="k1", status="_x", summary=None, error="e")
        peer.update("s1", "compaction_update", compactionId="k2", status="completed")
        await settle()
        assert (compaction.status, compaction.text, compaction.error) == ("_x", "", "e")
        assert session.state.history.compactions["k2"].status == "completed"


@pytest.mark.rule(
    "subagent.patch", "subagent.updates-accepted", "subagent.unknown-state", "subagent.message-by-id"
)
async def test_subagent_sessions_are_followed_without_being_opened():
    async with in_session(options=ClientOptions(features=ClientFeatures(subagents=True))) as (session, peer):
        peer.update("s1", "subagent_update", sessionId="kid", title="Tests", state={"state": "running"})
        peer.say("child speaking", "kid")
        peer.update("kid", "session_message_chunk", messageId="y", content={"type": "text", "text": "Run"})
        peer.update("kid", "session_message", messageId="y", senderSessionId="s1")
        peer.update("kid", "session_message_chunk", messageId="y", content={"type": "text", "text": " it"})
        await settle()
        (child,) = session.children
        assert child.state.messages[0].text == "child speaking"
        assert child.state.history.session_messages["y"].text == "Run it"
        subagent = session.state.history.subagents["kid"]
        assert (subagent.title, subagent.activity) == ("Tests", "running")
        peer.update("s1", "subagent_update", sessionId="kid", state={"state": "unknown"})
        await settle()
        assert (subagent.title, subagent.activity) == ("Tests", "unknown")
        peer.update("s1", "subagent_update", sessionId="kid", state=None, title=None)
        await settle()
        assert (subagent.title, subagent.activity) == (None, "unknown")
        assert session.children[0].state.messages[0].text == "child speaking"
        assert len(peer.received) == 2, "the client sent nothing"


@pytest.mark.rule("subagent.own-capabilities")
async def test_a_subagent_can_be_changed_only_as_its_capabilities_allow():
    async with in_session(options=ClientOptions(features=ClientFeatures(subagents=True))) as (session, peer):
        peer.update("s1", "subagent_update", sessionId="kid", state={"state": "running"})
        await settle()
        (child,) = session.children
        with pytest.raises(NotOffered, match="cannot be canceled"):
            child.cancel()
        with pytest.raises(NotOffered, match="only watch"):
            child.prompt("hello")
        peer.update("s1", "subagent_update", sessionId="kid", capabilities={"cancel": {}})
        await settle()
        child.cancel()
        assert (await peer.next("session/cancel"))["params"] == {"sessionId": "kid"}
        for call in (child.close(), child.set_mode("x"), child.ask("x")):
            with pytest.raises((NotOffered, UsageError)):
                await call
        peer.update("s1", "subagent_update", sessionId="kid", capabilities=None)
        await settle()
        with pytest.raises(NotOffered):
            child.cancel()


@pytest.mark.rule("subagent.inherited-roots", "accord.client-unknown-session")
async def test_a_subagent_is_limited_to_the_folders_of_its_parent(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("top")
    (tmp_path / "sub" / "b.txt").write_text("below")
    handlers = ClientHandlers(workspace=local_workspace)
    options = ClientOptions(features=ClientFeatures(subagents=True))
    async with in_session(cwd=tmp_path, handlers=handlers, options=options) as (_, peer):

        def read(session_id, name):
            return {"sessionId": session_id, "path": str(tmp_path / name)}

        error = await peer.error_of("fs/read_text_file", read("kid", "a.txt"))
        assert error["code"] == -32002
        peer.update("s1", "subagent_update", sessionId="kid")
        assert await peer.result_of("fs/read_text_file", read("kid", "a.txt")) == {"content": "top"}
        peer.update("s1", "subagent_update", sessionId="kid2", cwd=str(tmp_path / "sub"))
        assert await peer.result_of("fs/read_text_file", read("kid2", "sub/b.txt")) == {"content": "below"}
        assert (await peer.error_of("fs/read_text_file", read("kid2", "a.txt")))["code"] == -32602
        peer.update("s1", "subagent_update", sessionId="kid2", cwd=None)
        assert await peer.result_of("fs/read_text_file", read("kid2", "a.txt")) == {"content": "top"}
        # A child cannot get more folders than its parent.
        peer.update("s1", "subagent_update", sessionId="kid3", cwd="/", additionalDirectories=["/etc"])
        passwd = {"sessionId": "kid3", "path": "/etc/passwd"}
        assert (await peer.error_of("fs/read_text_file", passwd))["code"] == -32602


@pytest.mark.rule("accord.client-strict-mode")
async def test_strict_mode_drops_dialect_updates_and_continues():
    async with in_session(options=ClientOptions(strict=True)) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        text = {"type": "text", "text": "dialect"}
        peer.notify(
            "session/update", {"sessionId": "s1", "sessionUpdate": "agent_message_chunk", "content": text}
        )
        peer.notify(
            "session/update", {"sessionId": "s1", "update": {"type": "agent_message_chunk", "content": text}}
        )
        peer.update("s1", "agent_message_chunk", text="dialect")
        peer.update("s1", "agent_message_chunk", content="dialect")
        peer.say("official")
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
    assert kinds(events) == ["TurnStarted", "AgentMessageChunk", "TurnEnded"]


@pytest.mark.dialect(6, 7, 9)
async def test_tolerant_mode_accepts_dialect_updates_and_reports_each_once():
    reports: list[str] = []
    options = ClientOptions(observer=lambda report: reports.append(report.kind))
    async with in_session(options=options) as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        text = {"type": "text", "text": "a"}
        for _ in range(3):
            peer.notify(
                "session/update", {"sessionId": "s1", "sessionUpdate": "agent_message_chunk", "content": text}
            )
            peer.notify(
                "session/update",
                {"sessionId": "s1", "update": {"type": "agent_message_chunk", "content": text}},
            )
            peer.update("s1", "agent_message_chunk", text="b")
            peer.update("s1", "agent_message_chunk", content=["c", text])
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
        assert isinstance(events[-1], TurnEnded)
        assert session.state.messages[-1].text == "aabca" * 3
    assert reports == ["dialect"] * 3
