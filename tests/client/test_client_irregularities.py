"""Irregular behavior of real agents: the client tolerates it without losing a turn."""

import asyncio

import pytest
from tests.client.raw_agent import YES_NO, EventCollector, both, connected, in_session, kinds

from accord.client import ClientHandlers, ClientOptions, allow_all, local_workspace
from accord.errors import AuthRequired
from accord.session import PermissionAsked, ToolCallChanged, TurnEnded
from accord.testing.fake_clock import settle
from accord.workspace.text_files import TextFiles
from accord.workspace.workspace import LocalWorkspace


def question(call_id="c1", session_id="s1"):
    return {"sessionId": session_id, "toolCall": {"toolCallId": call_id, "title": "Do it"}, "options": YES_NO}


YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}


async def start_turn(session, peer):
    turn = EventCollector(session.prompt("go"))
    return turn, await peer.next("session/prompt")


@pytest.mark.rule("framing.client-returns-id")
async def test_request_ids_of_any_kind_are_accepted():
    async with in_session(handlers=ClientHandlers(permissions=allow_all)) as (session, peer):
        turn, prompt = await start_turn(session, peer)
        for id in (0, "0", "9b2edc2b-1111-4222-8333-444455556666", "req:7", -1):
            assert await peer.result_of("session/request_permission", question(), id=id) == YES
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()


async def test_a_tool_call_announced_after_its_updates_keeps_its_status():
    async with in_session() as (session, peer):
        turn, prompt = await start_turn(session, peer)
        peer.update("s1", "tool_call_update", toolCallId="c1", status="in_progress")
        peer.update("s1", "tool_call_update", toolCallId="c1", status="completed")
        peer.update("s1", "tool_call", toolCallId="c1", title="Late title", kind="read", status="pending")
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
        call = session.state.tool_calls["c1"]
        assert (call.title, call.kind, call.status) == ("Late title", "read", "completed")
        assert [event.call.status for event in events if isinstance(event, ToolCallChanged)] == [
            "in_progress",
            "completed",
            "completed",
        ]


async def test_a_permission_request_may_name_an_unknown_tool_call():
    async with in_session(handlers=ClientHandlers(permissions=allow_all)) as (session, peer):
        turn, prompt = await start_turn(session, peer)
        peer.update("s1", "tool_call", toolCallId="call_1", title="Edit")
        assert await peer.result_of("session/request_permission", question("toolu_call_1")) == YES
        peer.reply(prompt, {"stopReason": "end_turn"})
        events = await turn.end()
        asked = next(event for event in events if isinstance(event, PermissionAsked))
        assert asked.call is not None
        assert asked.call.label == "Do it"


async def test_an_unfinished_tool_call_ends_with_its_turn():
    async with in_session() as (session, peer):
        turn, prompt = await start_turn(session, peer)
        peer.update("s1", "tool_call", toolCallId="c1", title="Forgotten", status="in_progress")
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()
        assert session.state.tool_calls["c1"].ended_without_result


async def test_a_rejection_may_end_the_turn_without_a_tool_call_update():
    for reason in ("cancelled", "end_turn"):
        async with in_session() as (session, peer):
            turn, prompt = await start_turn(session, peer)
            peer.update("s1", "tool_call", toolCallId="c1", title="Delete all", kind="delete")
            answer = await peer.result_of("session/request_permission", question())
            assert answer["outcome"]["optionId"] == "no"
            peer.reply(prompt, {"stopReason": reason})
            ended = (await turn.end())[-1]
            assert isinstance(ended, TurnEnded)
            assert ended.stop_reason == reason
            assert not session.state.tool_calls["c1"].open


@pytest.mark.rule("tool-call.default-kind-and-status")
async def test_omitted_status_and_kind_have_defaults():
    async with in_session() as (session, peer):
        peer.update("s1", "tool_call", toolCallId="c1", title="Bare")
        await settle()
        call = session.state.tool_calls["c1"]
        assert (call.status, call.kind) == ("pending", "other")


async def test_updates_after_the_prompt_response_are_applied():
    async with in_session() as (session, peer):
        turn, prompt = await start_turn(session, peer)
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()
        peer.update("s1", "usage_update", used=5, size=10)
        peer.update("s1", "session_info_update", title="After")
        peer.update("s1", "tool_call_update", toolCallId="c1", status="completed")
        await settle()
        assert session.state.usage is not None
        assert session.state.title == "After"


@pytest.mark.rule("prompt.updates-around-session-new")
async def test_updates_before_the_session_new_response_are_kept():
    async with connected() as (agent, peer):
        opening = asyncio.create_task(agent.new_session("/project"))
        asked = await peer.next("session/new")
        peer.update("early", "current_mode_update", currentModeId="code")
        peer.reply(asked, {"sessionId": "early"})
        session = await opening
        assert session.state.settings.current_mode_id == "code"


@pytest.mark.rule(
    "framing.client-unknown-method", "framing.client-unknown-extension", "framing.client-unknown-notification"
)
async def test_custom_notifications_are_ignored_and_custom_requests_refused():
    async with in_session() as (session, peer):
        turn, prompt = await start_turn(session, peer)
        peer.notify("cursor/telemetry", {"x": 1})
        peer.notify("_vendor/thing", {})
        assert (await peer.error_of("cursor/ask", {}))["code"] == -32601
        assert (await peer.error_of("_vendor/ask", {}))["code"] == -32601
        peer.reply(prompt, {"stopReason": "end_turn"})
        assert kinds(await turn.end()) == ["TurnStarted", "TurnEnded"]


async def test_a_terminal_the_client_did_not_create_is_unavailable():
    async with in_session() as (session, peer):
        peer.update(
            "s1",
            "tool_call",
            toolCallId="c1",
            title="Run",
            content=[{"type": "terminal", "terminalId": "t9"}],
        )
        await settle()
        (terminal_id,) = session.state.tool_calls["c1"].terminal_ids
        assert terminal_id not in session.terminals


async def test_a_missing_file_is_an_error_or_optionally_an_empty_text(tmp_path):
    request = {"sessionId": "s1", "path": str(tmp_path / "new.py")}
    async with in_session(cwd=tmp_path, handlers=ClientHandlers(workspace=local_workspace)) as (_, peer):
        assert (await peer.error_of("fs/read_text_file", request))["code"] == -32002

    def lenient(session):
        return LocalWorkspace(session.roots, files=TextFiles(session.roots, missing_is_empty=True))

    async with in_session(cwd=tmp_path, handlers=ClientHandlers(workspace=lenient)) as (_, peer):
        assert await peer.result_of("fs/read_text_file", request) == {"content": ""}


async def test_a_picker_works_for_options_modes_and_models():
    choices = [{"value": "a", "name": "A"}, {"value": "b", "name": "B"}]
    option = {
        "id": "mode",
        "name": "Mode",
        "category": "mode",
        "type": "select",
        "currentValue": "a",
        "options": choices,
    }
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
    models = {
        "currentModelId": "a",
        "availableModels": [{"modelId": "a", "name": "A"}, {"modelId": "b", "name": "B"}],
    }
    for opened, method in (
        ({"configOptions": [option]}, "session/set_config_option"),
        ({"modes": modes}, "session/set_mode"),
        ({"models": models}, "session/set_model"),
    ):
        async with in_session(checked=False, **opened) as (session, peer):
            (picker,) = session.state.settings.pickers
            assert [choice.value for choice in picker.choices] == ["a", "b"]
            choosing = asyncio.create_task(session.choose(picker, "b"))
            peer.reply(await peer.next(method), {})
            await choosing


async def test_an_option_is_updated_by_a_later_update_when_the_response_is_empty():
    option = {"id": "x", "name": "X", "type": "boolean", "currentValue": False}
    async with in_session(configOptions=[option]) as (session, peer):
        setting = asyncio.create_task(session.set_config_option("x", True))
        peer.reply(await peer.next("session/set_config_option"), {})
        await setting
        assert session.state.settings.config_options[0].current_value is False
        peer.update("s1", "config_option_update", configOptions=[option | {"currentValue": True}])
        await settle()
        assert session.state.settings.config_options[0].current_value is True


@pytest.mark.rule("initialize.version-sent")
async def test_initialize_asks_for_protocol_version_1():
    async with connected() as (_, peer):
        version = peer.received[0]["params"]["protocolVersion"]
        assert version == 1
        assert type(version) is int


async def test_log_lines_on_stdout_are_reported_as_noise():
    reports: list[str] = []
    options = ClientOptions(observer=lambda report: reports.append(report.kind))
    async with in_session(options=options) as (session, peer):
        turn, prompt = await start_turn(session, peer)
        peer.send("\x1b[32mINFO\x1b[0m server started")
        peer.send("Traceback (most recent call last):")
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()
    assert reports == ["noise", "noise"]


@pytest.mark.rule("auth.offers-login")
async def test_auth_required_from_session_new_can_be_followed_by_sign_in():
    async with connected(authMethods=[{"id": "login", "name": "Log in"}]) as (agent, peer):
        opening = asyncio.create_task(agent.new_session("/project"))
        peer.refuse(await peer.next("session/new"), -32000, "Please log in", data={"reason": "expired"})
        with pytest.raises(AuthRequired) as caught:
            await opening
        signing_in = asyncio.create_task(agent.sign_in(caught.value.methods[0]))
        peer.reply(await peer.next("authenticate"), None)
        await signing_in
        await both(agent.new_session("/project"), peer.open())


async def test_malformed_error_responses_fail_the_turn():
    from accord.errors import RpcError

    async with in_session() as (session, peer):
        for error in ("boom", {"code": "x"}, {"message": 5}, [1], 7):
            turn, prompt = await start_turn(session, peer)
            peer.send({"jsonrpc": "2.0", "id": prompt["id"], "error": error})
            with pytest.raises(RpcError):
                await turn.end()
            assert kinds(turn.events)[-1] == "TurnEnded"
