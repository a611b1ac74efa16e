"""Modes and config options of a session: validated, complete, and consistent with each other."""

from typing import Any

import pytest
from tests.agent.agent_client import EVERYTHING, STRICT, connected_client, make_agent, silent

from accord.agent import Agent, AgentSession, Turn
from accord.errors import InvalidParams, UsageError
from accord.schema import (
    ConfigOptionUpdate,
    LoadSessionResponse,
    SessionConfigBoolean,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

MODES = SessionModeState("ask", [SessionMode("ask", "Ask"), SessionMode("code", "Code")])
MODE = SessionConfigSelect(
    "how",
    "Mode",
    "ask",
    [SessionConfigSelectOption("ask", "Ask"), SessionConfigSelectOption("code", "Code")],
    category="mode",
)
MODEL = SessionConfigSelect(
    "llm",
    "Model",
    "m1",
    [
        SessionConfigSelectGroup(
            "g", "Group", [SessionConfigSelectOption("m1", "M1"), SessionConfigSelectOption("m2", "M2")]
        )
    ],
    category="model",
)
AUTO = SessionConfigBoolean("auto", "Auto", False)


def agent_with(*options: Any, modes: SessionModeState | None = None, prompts: Any = silent) -> Agent:
    agent = make_agent(prompts)

    @agent.new_session
    @agent.load_session
    @agent.resume_session
    async def begin(session: AgentSession) -> None:
        session.modes = modes
        session.config_options = list(options)

    return agent


def values(options: list[Any]) -> dict[str, Any]:
    return {option["id"]: option["currentValue"] for option in options}


@pytest.mark.rule(
    "mode.current-is-available",
    "option.current-value",
    "option.current-value-listed",
    "option.flat-or-grouped",
)
async def test_a_new_session_shows_its_modes_and_options() -> None:
    async with connected_client(
        agent_with(MODE, MODEL, AUTO, modes=MODES), capabilities=EVERYTHING
    ) as client:
        result = await client.call("session/new", {"cwd": "/a", "mcpServers": []})
    assert result["modes"] == {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
    }
    assert values(result["configOptions"]) == {"how": "ask", "llm": "m1", "auto": False}


@pytest.mark.rule("prompt.requests-during-turn", "mode.set", "option.follows-mode")
async def test_set_mode_also_updates_the_mode_option() -> None:
    async with connected_client(agent_with(MODE, MODEL, modes=MODES)) as client:
        session = await client.new_session()
        id = client.raw.ask("session/set_mode", {"sessionId": session, "modeId": "code"})
        answer = await client.raw.next()
        mode = await client.update("current_mode_update")
        option = await client.update("config_option_update")
        assert client.connection.sessions[session].mode == "code"
        assert client.connection.sessions[session].option("how") == "code"
    assert (answer["id"], answer["result"]) == (id, {})
    assert mode["currentModeId"] == "code"
    assert values(option["configOptions"]) == {"how": "code", "llm": "m1"}


async def test_modes_of_an_open_session_can_be_replaced() -> None:
    more = SessionModeState("ask", [*MODES.available_modes, SessionMode("plan", "Plan")])
    async with connected_client(agent_with(MODEL, modes=MODES)) as client:
        session = await client.new_session()
        await client.connection.sessions[session].change_modes(more)
        update = await client.update("config_option_update")
        [mode] = [option for option in update["configOptions"] if option["category"] == "mode"]
        assert [value["value"] for value in mode["options"]] == ["ask", "code", "plan"]
        assert await client.call("session/set_mode", {"sessionId": session, "modeId": "plan"}) == {}
        with pytest.raises(UsageError, match="not an available mode"):
            await client.connection.sessions[session].change_modes(SessionModeState("gone", []))


@pytest.mark.rule("prompt.requests-during-turn", "option.set-returns-all", "option.follows-mode")
async def test_setting_the_mode_option_returns_all_options_and_updates_the_mode() -> None:
    async with connected_client(agent_with(MODE, MODEL, modes=MODES)) as client:
        session = await client.new_session()
        set_model = {"sessionId": session, "configId": "llm", "value": "m2"}
        first = await client.call("session/set_config_option", set_model)
        second = await client.call(
            "session/set_config_option", {**set_model, "configId": "how", "value": "code"}
        )
        mode = await client.update("current_mode_update")
    assert values(first["configOptions"]) == {"how": "ask", "llm": "m2"}
    assert values(second["configOptions"]) == {"how": "code", "llm": "m2"}
    assert mode["currentModeId"] == "code"
    assert MODEL.current_value == "m1"


@pytest.mark.rule("mode.unknown-refused", "option.unknown-refused", "accord.unknown-value")
async def test_unknown_modes_options_and_values_are_refused() -> None:
    async with connected_client(
        agent_with(MODE, MODEL, AUTO, modes=MODES), capabilities=EVERYTHING
    ) as client:
        session = await client.new_session()
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("session/set_mode", {"modeId": "nope"}),
            ("session/set_config_option", {"configId": "nope", "value": "m2"}),
            ("session/set_config_option", {"configId": "llm", "value": "nope"}),
            ("session/set_config_option", {"configId": "llm", "type": "boolean", "value": True}),
            ("session/set_config_option", {"configId": "auto", "value": "true"}),
            ("session/set_config_option", {"configId": "auto", "value": 5}),
        ]
        for method, params in wrong:
            error = await client.error(method, {"sessionId": session, **params})
            assert error["code"] == -32602, params
        result = await client.call(
            "session/set_config_option", {"sessionId": session, "configId": "llm", "value": "m1"}
        )
    assert values(result["configOptions"]) == {"how": "ask", "llm": "m1", "auto": False}
    assert client.updates() == []


@pytest.mark.rule("initialize.unadvertised-methods")
async def test_a_session_without_modes_or_options_does_not_serve_their_methods() -> None:
    async with connected_client(make_agent(silent)) as client:
        session = await client.new_session()
        modes = await client.error("session/set_mode", {"sessionId": session, "modeId": "a"})
        options = await client.error(
            "session/set_config_option", {"sessionId": session, "configId": "a", "value": "b"}
        )
    assert modes["code"] == options["code"] == -32601


@pytest.mark.rule("option.boolean-needs-capability")
async def test_without_boolean_support_a_boolean_option_is_sent_as_a_select() -> None:
    calls: list[Any] = []

    async def flips(turn: Turn) -> None:
        await turn.set_option("auto", False)
        await turn.update(ConfigOptionUpdate(turn.session.config_options))

    agent = agent_with(AUTO, prompts=flips)

    @agent.set_config_option
    async def changed(session: AgentSession, config_id: str, value: str | bool) -> None:
        calls.append((config_id, value))

    here = {"cwd": "/a", "mcpServers": []}
    shown: list[Any] = []
    async with connected_client(agent) as client:
        opened = await client.call("session/new", here)
        session = opened["sessionId"]
        loaded = await client.call("session/load", {"sessionId": session, **here})
        resumed = await client.call("session/resume", {"sessionId": session, **here})
        shown += [opened, loaded, resumed]
        switched = {"sessionId": session, "configId": "auto", "value": "true"}
        shown.append(await client.call("session/set_config_option", switched))
        updates, _ = await client.turn(session)
        shown += updates
        assert (await client.error("session/set_config_option", {**switched, "value": "on"}))[
            "code"
        ] == -32602
    assert all(option["type"] == "select" for result in shown for option in result["configOptions"])
    assert [result["configOptions"][0]["currentValue"] for result in shown] == [
        "false",
        "false",
        "false",
        "true",
        "false",
        "false",
    ]
    assert calls == [("auto", True)]


@pytest.mark.rule("option.boolean-needs-capability")
async def test_with_boolean_support_a_boolean_option_is_sent_as_boolean() -> None:
    async with connected_client(agent_with(AUTO), capabilities=EVERYTHING) as client:
        session = await client.new_session()
        switch = {"sessionId": session, "configId": "auto", "type": "boolean", "value": True}
        result = await client.call("session/set_config_option", switch)
    assert result["configOptions"] == [
        {"type": "boolean", "id": "auto", "name": "Auto", "currentValue": True}
    ]


@pytest.mark.rule("option.select-without-type")
@pytest.mark.parametrize("more", [{}, {"type": "id"}, {"type": "_x"}, {"type": None}])
async def test_a_select_option_is_set_with_any_type_or_none(more: Any) -> None:
    async with connected_client(agent_with(MODEL), options=STRICT) as client:
        session = await client.new_session()
        params = {"sessionId": session, "configId": "llm", "value": "m2", **more}
        result = await client.call("session/set_config_option", params)
    assert values(result["configOptions"]) == {"llm": "m2"}


@pytest.mark.rule("accord.agent-strict-mode")
@pytest.mark.dialect(44, 201)
async def test_old_methods_for_setting_an_option_work_unless_strict() -> None:
    async with connected_client(agent_with(MODEL, AUTO), capabilities=EVERYTHING) as client:
        session = await client.new_session()
        params = {"sessionId": session, "configId": "auto", "value": True}
        assert values((await client.call("config/set", params))["configOptions"])["auto"] is True
        params["value"] = False
        assert (
            values((await client.call("session/set_config_option", params))["configOptions"])["auto"] is False
        )
        result = await client.call("session/set_model", {"sessionId": session, "modelId": "m2"})
        assert values(result["configOptions"])["llm"] == "m2"
        assert client.connection.sessions[session].option("llm") == "m2"
    async with connected_client(agent_with(MODEL, AUTO), capabilities=EVERYTHING, options=STRICT) as client:
        session = await client.new_session()
        params = {"sessionId": session, "configId": "auto", "value": True}
        assert (await client.error("config/set", params))["code"] == -32601
        assert (await client.error("session/set_config_option", params))["code"] == -32602


@pytest.mark.rule("mode.agent-change-sent", "option.update-has-all")
async def test_changes_made_by_the_agent_are_sent_as_complete_updates() -> None:
    async def changes(turn: Turn) -> None:
        await turn.set_mode("code")
        await turn.set_option("llm", "m2")
        with pytest.raises(UsageError, match="Unknown mode"):
            await turn.set_mode("nope")
        with pytest.raises(UsageError, match="Unknown value"):
            await turn.set_option("llm", "nope")
        with pytest.raises(UsageError, match="set_options"):
            turn.session.config_options = []
        await turn.session.set_options([MODEL])

    async with connected_client(agent_with(MODE, MODEL, modes=MODES, prompts=changes)) as client:
        updates, _ = await client.turn(await client.new_session())
    assert updates[0] == {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    sent = [values(update["configOptions"]) for update in updates[1:]]
    assert sent == [
        {"how": "code", "llm": "m1"},
        {"how": "code", "llm": "m2"},
        {"mode": "code", "llm": "m1"},
    ]


@pytest.mark.rule("option.follows-mode")
async def test_modes_and_the_mode_option_are_derived_from_each_other() -> None:
    here = {"cwd": "/a", "mcpServers": []}
    async with connected_client(agent_with(MODE)) as client:
        only_option = await client.call("session/new", here)
    async with connected_client(agent_with(MODEL, modes=MODES)) as client:
        only_modes = await client.call("session/new", here)
        session = only_modes["sessionId"]
        await client.call(
            "session/set_config_option", {"sessionId": session, "configId": "mode", "value": "code"}
        )
        assert (await client.update("current_mode_update"))["currentModeId"] == "code"
    async with connected_client(agent_with(modes=MODES)) as client:
        just_modes = await client.call("session/new", here)
    assert only_option["modes"]["currentModeId"] == "ask"
    assert [mode["id"] for mode in only_option["modes"]["availableModes"]] == ["ask", "code"]
    assert values(only_modes["configOptions"]) == {"mode": "ask", "llm": "m1"}
    assert only_modes["configOptions"][0]["category"] == "mode"
    assert "configOptions" not in just_modes


async def test_handlers_get_changes_and_may_refuse_them() -> None:
    calls: list[Any] = []
    agent = agent_with(MODE, MODEL, modes=MODES)

    @agent.set_mode
    def mode(session: AgentSession, mode_id: str) -> None:
        calls.append(mode_id)

    @agent.set_config_option
    async def option(session: AgentSession, config_id: str, value: str | bool) -> None:
        if value == "m2":
            raise InvalidParams("m2 is sold out")
        calls.append((config_id, value))

    async with connected_client(agent) as client:
        session = await client.new_session()
        await client.call("session/set_mode", {"sessionId": session, "modeId": "code"})
        await client.call(
            "session/set_config_option", {"sessionId": session, "configId": "how", "value": "ask"}
        )
        refused = await client.error(
            "session/set_config_option", {"sessionId": session, "configId": "llm", "value": "m2"}
        )
        assert client.connection.sessions[session].option("llm") == "m1"
    assert calls == ["code", ("how", "code"), "ask", ("how", "ask")]
    assert refused["message"] == "m2 is sold out"


async def test_handlers_get_only_modes_and_options_that_the_agent_declared() -> None:
    calls: list[Any] = []
    agent = agent_with(MODEL, modes=MODES)
    agent.set_mode(lambda session, mode_id: calls.append(mode_id))
    agent.set_config_option(lambda session, config_id, value: calls.append((config_id, value)))
    async with connected_client(agent) as client:
        session = await client.new_session()
        await client.call("session/set_mode", {"sessionId": session, "modeId": "code"})
        await client.call(
            "session/set_config_option", {"sessionId": session, "configId": "mode", "value": "ask"}
        )
    assert calls == ["code", "ask"]


async def test_setting_an_option_may_change_the_list_of_options() -> None:
    agent = agent_with(MODEL)
    effort = SessionConfigSelect("effort", "Effort", "low", [SessionConfigSelectOption("low", "Low")])

    @agent.set_config_option
    async def option(session: AgentSession, config_id: str, value: str | bool) -> None:
        if value == "m2":
            await session.set_options([*session.config_options, effort])
        else:
            await session.set_options([effort])

    async with connected_client(agent) as client:
        session = await client.new_session()
        params = {"sessionId": session, "configId": "llm", "value": "m2"}
        more = await client.call("session/set_config_option", params)
        fewer = await client.call("session/set_config_option", {**params, "value": "m1"})
    assert values(more["configOptions"]) == {"llm": "m2", "effort": "low"}
    assert values(fewer["configOptions"]) == {"effort": "low"}


@pytest.mark.rule("mode.current-is-available", "option.current-value-listed")
@pytest.mark.rule("option.follows-mode")
async def test_the_mode_option_follows_the_modes_if_it_has_the_value() -> None:
    here = {"cwd": "/a", "mcpServers": []}
    code = SessionModeState("code", MODES.available_modes)
    other = SessionConfigSelect(
        "how", "Mode", "slow", [SessionConfigSelectOption("slow", "Slow")], category="mode"
    )
    async with connected_client(agent_with(MODE, modes=code)) as client:
        follows = await client.call("session/new", here)
    async with connected_client(agent_with(other, modes=code)) as client:
        keeps = await client.call("session/new", here)
    assert values(follows["configOptions"]) == {"how": "code"}
    assert values(keeps["configOptions"]) == {"how": "slow"}
    assert keeps["modes"]["currentModeId"] == "code"


async def test_inconsistent_modes_or_options_fail_session_new() -> None:
    invalid = SessionConfigSelect("a", "A", "x", [SessionConfigSelectOption("y", "Y")])
    for agent in (
        agent_with(invalid),
        agent_with(MODEL, MODEL),
        agent_with(modes=SessionModeState("nope", MODES.available_modes)),
    ):
        async with connected_client(agent) as client:
            error = await client.error("session/new", {"cwd": "/a", "mcpServers": []})
        assert error["code"] == -32603


async def test_a_load_handler_may_return_modes_and_options() -> None:
    agent = make_agent(silent)

    @agent.load_session
    async def load(session: AgentSession) -> LoadSessionResponse:
        return LoadSessionResponse(modes=MODES, config_options=[MODE, AUTO])

    async with connected_client(agent) as client:
        result = await client.call("session/load", {"sessionId": "old", "cwd": "/a", "mcpServers": []})
        await client.call("session/set_mode", {"sessionId": "old", "modeId": "code"})
    assert values(result["configOptions"]) == {"how": "ask", "auto": "false"}
