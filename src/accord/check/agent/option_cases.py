"""Cases: modes, config options, commands, plans, providers, updates that need a capability.

Cases without `judge` only produce traffic for the passive rules.
"""

from typing import Any, Final

from accord.check.agent.agent_feature_rules import option_values
from accord.check.agent.agent_fixture import AgentCase, AgentFixture, capabilities_without
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.checked_connection import CallAnswer, WireLine
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at, listed


async def _open_session(fixture: AgentFixture, capabilities: Any = None) -> tuple[AgentUnderTest, str, Any]:
    agent = await (fixture.start_agent() if capabilities is None else fixture.start_agent(capabilities))
    session = await fixture.new_session(agent)
    answer = next(
        line
        for line in reversed(agent.lines)
        if line.is_answer and at(line.message, "result", "sessionId") == session
    )
    return agent, session, (answer.message or {}).get("result")


async def _find_update(agent: AgentUnderTest, kind: str, since: WireLine) -> WireLine | None:
    """The first update of this kind after a line, once the agent has processed all requests."""
    await agent.ping()
    return next(
        (line for line in agent.lines[since.number :] if line.sender == "agent" and line.kind == kind), None
    )


def _mode_option(session_result: Any) -> Any:
    return next(
        (one for one in listed(session_result, "configOptions") if at(one, "category") == "mode"), None
    )


async def set_modes(fixture: AgentFixture) -> None:
    agent, session, session_result = await _open_session(fixture)
    ids = [at(mode, "id") for mode in listed(session_result, "modes", "availableModes")]
    current = at(session_result, "modes", "currentModeId")
    if not ids:
        for rule in (206, 208, 209, 225):
            fixture.notes.add_not_applicable(rule, "it has no modes")
        return
    await _check_unknown_value(
        fixture, agent, 209, "session/set_mode", {"sessionId": session, "modeId": "nope"}
    )
    other_mode = next((id for id in ids if id != current), None)
    if other_mode is None:
        raise CaseUnavailable("there is only one mode")
    answer = await agent.call("session/set_mode", {"sessionId": session, "modeId": other_mode})
    # Rule 34, a passive rule, checks that the result is an object.
    fixture.notes.judge(
        208, answer.ok, "a mode can be set", f"session/set_mode gave {answer.summary}", answer.evidence
    )
    option = _mode_option(session_result)
    if option is None:
        fixture.notes.add_not_applicable(225, "the modes are not also an option")
    if option is None or not answer.ok:
        return
    update = await _find_update(agent, "config_option_update", answer.request)
    value = at(_mode_option(update.update if update else None), "currentValue")
    failure = f"after set_mode the mode option is {value!r}; expected {other_mode!r}"
    fixture.notes.judge(225, value == other_mode, "the option follows the mode", failure, answer.evidence)
    if current not in ids:
        return
    params = {"sessionId": session, "configId": at(option, "id"), "value": current}
    answer = await agent.call("session/set_config_option", params)
    update = await _find_update(agent, "current_mode_update", answer.request)
    value = update.update.get("currentModeId") if update else None
    failure = f"after the option was set, the mode is {value!r}; expected {current!r}"
    fixture.notes.judge(225, value == current, "the mode follows the option", failure, answer.evidence)


async def _check_unknown_value(
    fixture: AgentFixture, agent: AgentUnderTest, rule: int, method: str, params: dict[str, Any]
) -> None:
    answer = await agent.call(method, params)
    failure = f"{method} with an unknown value returned {answer.summary}"
    if fixture.notes.judge(rule, not answer.ok, "unknown values are refused", failure, answer.evidence):
        passed = fixture.script.accepts_code(answer.code, -32602)
        failure = f"{method} with an unknown value returned {answer.summary}; expected -32602"
        fixture.notes.judge(387, passed, f"unknown values give {answer.code}", failure, answer.evidence)


async def set_options(fixture: AgentFixture) -> None:
    agent, session, session_result = await _open_session(fixture)
    options = listed(session_result, "configOptions")
    select = next((one for one in options if at(one, "type") == "select" and option_values(one)), None)
    boolean = next((one for one in options if at(one, "type") == "boolean"), None)
    if select is not None:
        await _set_select(fixture, agent, session, options, select)
    elif boolean is not None:
        for rule in (213, 214, 219):
            fixture.notes.add_not_applicable(rule, "it has no select options")
        await _set_boolean(fixture, agent, session, options, boolean)
    else:
        for rule in (212, 213, 214, 215, 216, 217, 219, 220):
            fixture.notes.add_not_applicable(rule, "it has no options to choose from")
        return
    # Rule 217, a passive rule, checks the options that a client without the capability gets.
    await _open_session(fixture, capabilities_without("session.configOptions"))
    if boolean is None:
        fixture.notes.add_not_applicable(217, "it has no boolean options")


async def _set_select(
    fixture: AgentFixture, agent: AgentUnderTest, session: str, options: list[Any], select: Any
) -> None:
    method, id = "session/set_config_option", at(select, "id")
    params = {"sessionId": session, "configId": id, "value": at(select, "currentValue")}
    plain_answer = await agent.call(method, params)
    typed_answer = await agent.call(method, {**params, "type": "_check"})
    for answer in (plain_answer, typed_answer):
        sent = "an unknown type and a string" if answer is typed_answer else "a string"
        failure = f"{sent} returned {answer.summary}"
        fixture.notes.judge(219, answer.ok, "a select accepts a string", failure, answer.evidence)
        _check_complete_list(fixture, options, answer)
    await _check_unknown_value(fixture, agent, 220, method, {**params, "configId": "nope"})
    await _check_unknown_value(fixture, agent, 220, method, {**params, "value": "nope"})
    after = await agent.call(method, params)
    value = next(
        (at(one, "currentValue") for one in listed(after.result, "configOptions") if at(one, "id") == id),
        None,
    )
    if after.ok and value is not None:
        failure = f"after refused values {id} is {value!r}"
        fixture.notes.judge(
            220, value == params["value"], "refused values change nothing", failure, after.evidence
        )


async def _set_boolean(
    fixture: AgentFixture, agent: AgentUnderTest, session: str, options: list[Any], boolean: Any
) -> None:
    method, value = "session/set_config_option", at(boolean, "currentValue")
    params = {"sessionId": session, "configId": at(boolean, "id"), "type": "boolean", "value": value}
    _check_complete_list(fixture, options, await agent.call(method, params))
    await _check_unknown_value(fixture, agent, 220, method, {**params, "configId": "nope"})


def _check_complete_list(fixture: AgentFixture, options: list[Any], answer: CallAnswer) -> None:
    if answer.ok:
        ids = {at(one, "id") for one in listed(answer.result, "configOptions")}
        missing = {at(one, "id") for one in options} - ids
        failure = f"{len(ids)} of {len(options)} options come back"
        fixture.notes.judge(215, not missing, "the complete list", failure, answer.evidence)


async def agent_changes_mode(fixture: AgentFixture) -> None:
    agent, session, session_result = await _open_session(fixture)
    if not listed(session_result, "modes", "availableModes"):
        fixture.notes.add_not_applicable(210, "it has no modes")
        return
    turn = await fixture.run_action(agent, session, "change_mode")
    update = next(iter(turn.updates("current_mode_update")), None)
    failure = "the mode changed without a current_mode_update"
    named = update is not None and isinstance(update.update.get("currentModeId"), str)
    evidence = [update.evidence] if update else turn.answer.evidence
    fixture.notes.judge(210, named, "a mode change is sent", failure, evidence)


async def slash_commands(fixture: AgentFixture) -> None:
    agent, session, _ = await _open_session(fixture)
    update = await agent.wait_for_line(
        lambda line: line.kind == "available_commands_update", timeout=fixture.timeouts.soon / 5
    )
    if update is None:
        for rule in (227, 230):
            fixture.notes.add_not_applicable(rule, "it announces no commands")
        return
    action = fixture.action("command")
    turn = await agent.run_turn(session, action.prompt_text())
    if not action.shows:
        raise CaseUnavailable("the script does not say what the command shows")
    failure = f"{action.prompt} did not show {action.shows!r}"
    fixture.notes.judge(
        230, action.shows in turn.all_text, f"{action.prompt} works", failure, turn.answer.evidence
    )


async def plan_updates(fixture: AgentFixture) -> None:
    """Run the action with a client that lacks `plan`, then with one that supports `plan_update`."""
    turns: list[AgentTurn] = []
    for capabilities in (capabilities_without("plan"), None):
        agent, session, _ = await _open_session(fixture, capabilities)
        turns.append(await fixture.run_action(agent, session, "plan"))
    limited_turn, full_turn = turns
    if not full_turn.updates("plan_update"):
        for rule in (284, 285):
            fixture.notes.add_not_applicable(rule, "it does not send plan_update")
        return
    plans = limited_turn.updates("plan")
    failure = "without `plan` at the client no plan is shown"
    fixture.notes.judge(
        285,
        bool(plans),
        "without `plan` at the client it sends `plan`",
        failure,
        limited_turn.answer.evidence,
    )


async def usage_and_titles(fixture: AgentFixture) -> None:
    agent, session, _ = await _open_session(fixture)
    await fixture.run_action(agent, session, "think")
    await agent.ping()


OPTION_CASES: Final = (
    AgentCase(
        "modes", "set_mode with another mode and with `nope`", (34, 206, 208, 209, 225, 387), set_modes
    ),
    AgentCase(
        "options",
        "set_config_option with valid values, unknown values and an unknown type",
        (212, 213, 214, 215, 216, 217, 219, 220, 387),
        set_options,
    ),
    AgentCase("mode change by the agent", "the change_mode action", (210, 216), agent_changes_mode),
    AgentCase("commands", "a slash command in a prompt", (227, 230), slash_commands),
    AgentCase(
        "plans",
        "a plan that changes, for clients with and without plan_update",
        (203, 205, 284, 285),
        plan_updates,
    ),
    AgentCase("usage and titles", "the other updates of a turn", (232, 233, 235, 320), usage_and_titles),
)


async def _run_with_and_without(
    fixture: AgentFixture, action: str, missing: str, *kinds: str
) -> tuple[AgentTurn, AgentTurn]:
    """Run the action with a client that has the capability, then with one that lacks it."""
    agent, session = await fixture.open_session()
    full_turn = await fixture.run_action(agent, session, action)
    if not any(line.kind in kinds for line in agent.lines):
        raise CaseUnavailable(f"the agent sent no {kinds[0]}")
    limited_agent, session = await fixture.open_session(capabilities_without(missing))
    return full_turn, await fixture.run_action(limited_agent, session, action)


async def optional_notices(fixture: AgentFixture) -> None:
    full_turn, limited_turn = await _run_with_and_without(fixture, "notice", "session.notices", "notice")
    failure = f"with a notice, the turn returned {full_turn.answer.summary}"
    fixture.notes.judge(
        289,
        full_turn.answer.ok,
        "the turn succeeds without a reaction to the notice",
        failure,
        full_turn.answer.evidence,
    )
    has_text = bool(limited_turn.text.strip())
    failure = "a client without notices gets no text"
    fixture.notes.judge(
        313, has_text, "a client without notices gets text", failure, limited_turn.answer.evidence
    )


async def optional_compactions(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    await fixture.run_action(agent, session, "talk")
    for _ in range(2):
        await fixture.run_action(agent, session, "compact")
    if not any(line.kind == "compaction_update" for line in agent.lines):
        raise CaseUnavailable("the agent sent no compaction_update")
    limited_agent, session = await fixture.open_session(capabilities_without("session.compaction"))
    await fixture.run_action(limited_agent, session, "talk")
    await fixture.run_action(limited_agent, session, "compact")


async def optional_subagents(fixture: AgentFixture) -> None:
    await _run_with_and_without(fixture, "delegate", "subagents", "subagent_update")


OPTIONAL_UPDATE_CASES: Final = (
    AgentCase(
        "notices",
        "the notice action, with and without the capability",
        (287, 289, 312, 313),
        optional_notices,
    ),
    AgentCase(
        "compactions", "the compact action, with and without the capability", (291, 318), optional_compactions
    ),
    AgentCase(
        "sub-agents",
        "the delegate action, with and without the capability",
        (374, 375, 376),
        optional_subagents,
    ),
)


_SECRET: Final = "a-secret-of-the-check"


async def _find_provider(agent: AgentUnderTest, id: str) -> Any:
    answer = await agent.call("providers/list", {})
    return next((one for one in listed(answer.result, "providers") if at(one, "providerId") == id), None)


async def configure_providers(fixture: AgentFixture) -> None:
    agent = await fixture.start_agent()
    listing = await agent.call("providers/list", {})
    providers = listed(listing.result, "providers")
    answer = await agent.call("providers/disable", {"providerId": "nope"})
    failure = f"disabling an unknown provider gave {answer.summary}"
    fixture.notes.judge(298, answer.ok, "disabling an unknown provider succeeds", failure, answer.evidence)
    unknown_provider: dict[str, Any] = {
        "providerId": "nope",
        "apiType": "openai",
        "baseUrl": "https://example.com",
        "headers": {},
    }
    answer = await agent.call("providers/set", unknown_provider)
    failure = f"setting an unknown provider gave {answer.summary}; expected -32602"
    fixture.notes.judge(299, answer.code == -32602, "unknown providers are refused", failure, answer.evidence)
    required_id = next((at(one, "providerId") for one in providers if at(one, "required") is True), None)
    if required_id is None:
        fixture.notes.add_not_applicable(297, "no provider is required")
    else:
        answer = await agent.call("providers/disable", {"providerId": required_id})
        failure = f"disabling a required provider gave {answer.summary}; expected -32602"
        fixture.notes.judge(297, answer.code == -32602, "a required provider stays", failure, answer.evidence)
    if not fixture.script.provider:
        raise CaseUnavailable("the script names no provider")
    await _check_provider(fixture, agent, fixture.script.provider)


async def _check_provider(fixture: AgentFixture, agent: AgentUnderTest, id: str) -> None:
    provider = await _find_provider(agent, id)
    kinds = listed(provider, "supported")
    params = {
        "providerId": id,
        "apiType": kinds[0] if kinds else "openai",
        "baseUrl": "https://example.com/v1",
        "headers": {"Authorization": f"Bearer {_SECRET}"},
    }
    await agent.call("providers/set", params)
    since = len(agent.lines)
    await _find_provider(agent, id)
    echoed = [
        line for line in agent.lines[since:] if line.sender == "agent" and _SECRET.encode() in line.data
    ]
    failure = "providers/list returned the headers"
    fixture.notes.judge(300, not echoed, "headers stay secret", failure, [line.evidence for line in echoed])
    answer = await agent.call("providers/disable", {"providerId": id})
    provider = await _find_provider(agent, id)
    failure = f"after disabling, `current` is {str(at(provider, 'current'))[:80]}"
    fixture.notes.judge(
        296, at(provider, "current") is None, "a disabled provider is not current", failure, answer.evidence
    )


PROVIDER_CASES: Final = (
    AgentCase("providers", "list, set, disable", (296, 297, 298, 299, 300), configure_providers, "providers"),
)


CASES: Final = (
    *OPTION_CASES,
    *OPTIONAL_UPDATE_CASES,
    *PROVIDER_CASES,
)
