"""Cases: modes, config options, commands, plans, providers, updates that need a capability.

Cases without `judge` only produce traffic for the passive rules.
"""

from typing import Any, Final

from accord.check.agent.agent_feature_rules import option_values
from accord.check.agent.agent_fixture import (
    AgentCases,
    AgentFixture,
    CallCase,
    capabilities_without,
    check_calls,
)
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.checked_connection import CallAnswer
from accord.check.findings import CaseUnavailable, RuleId
from accord.trace.trace_steps import at, listed
from accord.trace.wire_line import WireLine

case: Final = AgentCases()


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


@case(
    "framing.agent-empty-results mode.current-is-available mode.set mode.unknown-refused "
    "option.follows-mode accord.unknown-value"
)
async def set_modes(fixture: AgentFixture) -> None:
    """Modes: set_mode with another mode and with `nope`."""
    rule = "option.follows-mode"
    agent, session, session_result = await _open_session(fixture)
    ids = [at(mode, "id") for mode in listed(session_result, "modes", "availableModes")]
    current = at(session_result, "modes", "currentModeId")
    if not ids:
        fixture.add_not_applicable(
            "mode.current-is-available mode.set mode.unknown-refused option.follows-mode", "it has no modes"
        )
        return
    await _check_unknown_value(
        fixture, agent, "mode.unknown-refused", "session/set_mode", {"sessionId": session, "modeId": "nope"}
    )
    other_mode = next((id for id in ids if id != current), None)
    if other_mode is None:
        raise CaseUnavailable("there is only one mode")
    answer = await agent.call("session/set_mode", {"sessionId": session, "modeId": other_mode})
    # A passive rule checks that the result is an object.
    fixture.judge(
        "mode.set", answer.ok, "a mode can be set", f"session/set_mode gave {answer.summary}", answer
    )
    option = _mode_option(session_result)
    if option is None:
        fixture.add_not_applicable(rule, "the modes are not also an option")
    if option is None or not answer.ok:
        return
    update = await _find_update(agent, "config_option_update", answer.request)
    value = at(_mode_option(update.update if update else None), "currentValue")
    failure = f"after set_mode the mode option is {value!r}; expected {other_mode!r}"
    fixture.judge(rule, value == other_mode, "the option follows the mode", failure, answer)
    if current not in ids:
        return
    params = {"sessionId": session, "configId": at(option, "id"), "value": current}
    answer = await agent.call("session/set_config_option", params)
    update = await _find_update(agent, "current_mode_update", answer.request)
    value = update.update.get("currentModeId") if update else None
    failure = f"after the option was set, the mode is {value!r}; expected {current!r}"
    fixture.judge(rule, value == current, "the mode follows the option", failure, answer)


async def _check_unknown_value(
    fixture: AgentFixture, agent: AgentUnderTest, rule: RuleId, method: str, params: dict[str, Any]
) -> None:
    answer = await agent.call(method, params)
    failure = f"{method} with an unknown value returned {answer.summary}"
    if fixture.judge(rule, not answer.ok, "unknown values are refused", failure, answer):
        passed = fixture.script.accepts_code(answer.code, -32602)
        failure = f"{method} with an unknown value returned {answer.summary}; expected -32602"
        fixture.judge("accord.unknown-value", passed, f"unknown values give {answer.code}", failure, answer)


@case(
    "option.current-value option.current-value-listed option.flat-or-grouped option.set-returns-all "
    "option.update-has-all option.boolean-needs-capability option.select-without-type "
    "option.unknown-refused accord.unknown-value"
)
async def set_options(fixture: AgentFixture) -> None:
    """Options: set_config_option with valid values, unknown values and an unknown type."""
    agent, session, session_result = await _open_session(fixture)
    options = listed(session_result, "configOptions")
    select = next((one for one in options if at(one, "type") == "select" and option_values(one)), None)
    boolean = next((one for one in options if at(one, "type") == "boolean"), None)
    if select is not None:
        await _set_select(fixture, agent, session, options, select)
    elif boolean is not None:
        fixture.add_not_applicable(
            "option.current-value-listed option.flat-or-grouped option.select-without-type",
            "it has no select options",
        )
        await _set_boolean(fixture, agent, session, options, boolean)
    else:
        fixture.add_not_applicable(
            "option.current-value option.current-value-listed option.flat-or-grouped option.set-returns-all "
            "option.update-has-all option.boolean-needs-capability option.select-without-type "
            "option.unknown-refused",
            "it has no options to choose from",
        )
        return
    # A passive rule checks the options that a client without the capability gets.
    await _open_session(fixture, capabilities_without("session.configOptions"))
    if boolean is None:
        fixture.add_not_applicable("option.boolean-needs-capability", "it has no boolean options")


async def _set_select(
    fixture: AgentFixture, agent: AgentUnderTest, session: str, options: list[Any], select: Any
) -> None:
    rule = "option.unknown-refused"
    method, id = "session/set_config_option", at(select, "id")
    params = {"sessionId": session, "configId": id, "value": at(select, "currentValue")}
    plain_answer = await agent.call(method, params)
    typed_answer = await agent.call(method, {**params, "type": "_check"})
    for answer in (plain_answer, typed_answer):
        sent = "an unknown type and a string" if answer is typed_answer else "a string"
        failure = f"{sent} returned {answer.summary}"
        fixture.judge("option.select-without-type", answer.ok, "a select accepts a string", failure, answer)
        _check_complete_list(fixture, options, answer)
    await _check_unknown_value(fixture, agent, rule, method, {**params, "configId": "nope"})
    await _check_unknown_value(fixture, agent, rule, method, {**params, "value": "nope"})
    after = await agent.call(method, params)
    value = next(
        (at(one, "currentValue") for one in listed(after.result, "configOptions") if at(one, "id") == id),
        None,
    )
    if after.ok and value is not None:
        failure = f"after refused values {id} is {value!r}"
        fixture.judge(rule, value == params["value"], "refused values change nothing", failure, after)


async def _set_boolean(
    fixture: AgentFixture, agent: AgentUnderTest, session: str, options: list[Any], boolean: Any
) -> None:
    method, value = "session/set_config_option", at(boolean, "currentValue")
    params = {"sessionId": session, "configId": at(boolean, "id"), "type": "boolean", "value": value}
    _check_complete_list(fixture, options, await agent.call(method, params))
    await _check_unknown_value(
        fixture, agent, "option.unknown-refused", method, {**params, "configId": "nope"}
    )


def _check_complete_list(fixture: AgentFixture, options: list[Any], answer: CallAnswer) -> None:
    if answer.ok:
        ids = {at(one, "id") for one in listed(answer.result, "configOptions")}
        missing = {at(one, "id") for one in options} - ids
        failure = f"{len(ids)} of {len(options)} options come back"
        fixture.judge("option.set-returns-all", not missing, "the complete list", failure, answer)


@case("mode.agent-change-sent option.update-has-all")
async def agent_changes_mode(fixture: AgentFixture) -> None:
    """Mode change by the agent: the change_mode action."""
    rule = "mode.agent-change-sent"
    agent, session, session_result = await _open_session(fixture)
    if not listed(session_result, "modes", "availableModes"):
        fixture.add_not_applicable(rule, "it has no modes")
        return
    turn = await fixture.run_action(agent, session, "change_mode")
    update = next(iter(turn.updates("current_mode_update")), None)
    failure = "the mode changed without a current_mode_update"
    named = update is not None and isinstance(update.update.get("currentModeId"), str)
    fixture.judge(rule, named, "a mode change is sent", failure, update or turn)


@case("command.members command.recognized")
async def slash_commands(fixture: AgentFixture) -> None:
    """Commands: a slash command in a prompt."""
    agent, session, _ = await _open_session(fixture)
    update = await agent.wait_for_line(
        lambda line: line.kind == "available_commands_update", timeout=fixture.timeouts.soon / 5
    )
    if update is None:
        fixture.add_not_applicable("command.members command.recognized", "it announces no commands")
        return
    action = fixture.action("command")
    turn = await agent.run_turn(session, action.prompt_text())
    if not action.shows:
        raise CaseUnavailable("the script does not say what the command shows")
    failure = f"{action.prompt} did not show {action.shows!r}"
    fixture.judge(
        "command.recognized", action.shows in turn.all_text, f"{action.prompt} works", failure, turn.answer
    )


@case("plan.complete plan.entry-members plan.update-needs-capability plan.fallback")
async def plan_updates(fixture: AgentFixture) -> None:
    """Plans: a plan that changes, for clients with and without plan_update."""
    # Run the action with a client that lacks `plan`, then with one that supports `plan_update`.
    turns: list[AgentTurn] = []
    for capabilities in (capabilities_without("plan"), None):
        agent, session, _ = await _open_session(fixture, capabilities)
        turns.append(await fixture.run_action(agent, session, "plan"))
    limited_turn, full_turn = turns
    if not full_turn.updates("plan_update"):
        fixture.add_not_applicable(
            "plan.update-needs-capability plan.fallback", "it does not send plan_update"
        )
        return
    plans = limited_turn.updates("plan")
    failure = "without `plan` at the client no plan is shown"
    reason = "without `plan` at the client it sends `plan`"
    fixture.judge("plan.fallback", bool(plans), reason, failure, limited_turn.answer)


@case("session-info.members usage.members usage.size usage.cost")
async def usage_and_titles(fixture: AgentFixture) -> None:
    """Usage and titles: the other updates of a turn."""
    agent, session, _ = await _open_session(fixture)
    await fixture.run_action(agent, session, "think")
    await agent.ping()


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


@case("notice.members notice.optional notice.needs-capability notice.text-as-fallback")
async def optional_notices(fixture: AgentFixture) -> None:
    """Notices: the notice action, with and without the capability."""
    full_turn, limited_turn = await _run_with_and_without(fixture, "notice", "session.notices", "notice")
    failure = f"with a notice, the turn returned {full_turn.answer.summary}"
    reason = "the turn succeeds without a reaction to the notice"
    fixture.judge("notice.optional", full_turn.answer.ok, reason, failure, full_turn.answer)
    has_text = bool(limited_turn.text.strip())
    failure = "a client without notices gets no text"
    reason = "a client without notices gets text"
    fixture.judge("notice.text-as-fallback", has_text, reason, failure, limited_turn.answer)


@case("compaction.needs-capability compaction.ends-once")
async def optional_compactions(fixture: AgentFixture) -> None:
    """Compactions: the compact action, with and without the capability."""
    agent, session = await fixture.open_session()
    await fixture.run_action(agent, session, "talk")
    for _ in range(2):
        await fixture.run_action(agent, session, "compact")
    if not any(line.kind == "compaction_update" for line in agent.lines):
        raise CaseUnavailable("the agent sent no compaction_update")
    limited_agent, session = await fixture.open_session(capabilities_without("session.compaction"))
    await fixture.run_action(limited_agent, session, "talk")
    await fixture.run_action(limited_agent, session, "compact")


@case("subagent.needs-capability subagent.announced subagent.absolute-paths")
async def optional_subagents(fixture: AgentFixture) -> None:
    """Sub-agents: the delegate action, with and without the capability."""
    await _run_with_and_without(fixture, "delegate", "subagents", "subagent_update")


_SECRET: Final = "a-secret-of-the-check"


async def _find_provider(agent: AgentUnderTest, id: str) -> Any:
    answer = await agent.call("providers/list", {})
    return next((one for one in listed(answer.result, "providers") if at(one, "providerId") == id), None)


_OPENAI: Final[dict[str, Any]] = {"apiType": "openai", "baseUrl": "https://example.com", "headers": {}}
_UNKNOWN_PROVIDER: Final = (
    CallCase("provider.unknown-disabled", "providers/disable", {"providerId": "nope"}, "result"),
    CallCase("provider.unknown-refused", "providers/set", {"providerId": "nope", **_OPENAI}, -32602),
)


@case(
    "provider.disabled-not-current provider.required-stays provider.unknown-disabled "
    "provider.unknown-refused provider.headers-secret",
    "providers",
)
async def configure_providers(fixture: AgentFixture) -> None:
    """Providers: list, set, disable."""
    rule = "provider.required-stays"
    agent = await fixture.start_agent()
    listing = await agent.call("providers/list", {})
    providers = listed(listing.result, "providers")
    await check_calls(agent, _UNKNOWN_PROVIDER)
    required_id = next((at(one, "providerId") for one in providers if at(one, "required") is True), None)
    if required_id is None:
        fixture.add_not_applicable(rule, "no provider is required")
    else:
        answer = await agent.call("providers/disable", {"providerId": required_id})
        failure = f"disabling a required provider gave {answer.summary}; expected -32602"
        fixture.judge(rule, answer.code == -32602, "a required provider stays", failure, answer)
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
    fixture.judge("provider.headers-secret", not echoed, "headers stay secret", failure, *echoed)
    answer = await agent.call("providers/disable", {"providerId": id})
    provider = await _find_provider(agent, id)
    failure = f"after disabling, `current` is {str(at(provider, 'current'))[:80]}"
    reason = "a disabled provider is not current"
    fixture.judge("provider.disabled-not-current", at(provider, "current") is None, reason, failure, answer)
