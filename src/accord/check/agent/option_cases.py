"""Cases: modes, config options, commands, plans, providers, updates gated by capabilities."""

from typing import Any, Final

from accord.check.agent.agent_feature_rules import values_of
from accord.check.agent.agent_fixture import AgentCase, AgentFixture, without
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
    """The first update of this kind after a line; waits for one more answer of the agent."""
    await agent.barrier()
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
    other = next((id for id in ids if id != current), None)
    if other is None:
        raise CaseUnavailable("there is only one mode")
    answer = await agent.call("session/set_mode", {"sessionId": session, "modeId": other})
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
    bad = f"after set_mode the option of the modes is {value!r}; expected {other!r}"
    fixture.notes.judge(225, value == other, "the option follows the mode", bad, answer.evidence)
    if current not in ids:
        return
    params = {"sessionId": session, "configId": at(option, "id"), "value": current}
    answer = await agent.call("session/set_config_option", params)
    update = await _find_update(agent, "current_mode_update", answer.request)
    value = update.update.get("currentModeId") if update else None
    bad = f"after the option was set, the mode is {value!r}; expected {current!r}"
    fixture.notes.judge(225, value == current, "the mode follows the option", bad, answer.evidence)


async def _check_unknown_value(
    fixture: AgentFixture, agent: AgentUnderTest, rule: int, method: str, params: dict[str, Any]
) -> CallAnswer:
    answer = await agent.call(method, params)
    bad = f"{method} with an unknown value returned {answer.summary}"
    if fixture.notes.judge(rule, not answer.ok, "unknown values are refused", bad, answer.evidence):
        bad = f"{method} with `nope` gave {answer.summary}; expected -32602"
        fixture.notes.judge(387, answer.code == -32602, "unknown values give -32602", bad, answer.evidence)
    return answer


async def set_options(fixture: AgentFixture) -> None:
    agent, session, session_result = await _open_session(fixture)
    known = listed(session_result, "configOptions")
    select = next((one for one in known if at(one, "type") == "select" and values_of(one)), None)
    if select is None:
        for rule in (212, 213, 214, 215, 216, 217, 219, 220):
            fixture.notes.add_not_applicable(rule, "it has no options to choose from")
        return
    method, id = "session/set_config_option", at(select, "id")
    set_to = {"sessionId": session, "configId": id, "value": at(select, "currentValue")}
    plain = await agent.call(method, set_to)
    typed = await agent.call(method, {**set_to, "type": "_check"})
    for answer in (plain, typed):
        bad = f"{'an unknown type and ' if answer is typed else ''}a text gave {answer.summary}"
        fixture.notes.judge(219, answer.ok, "a select takes a text", bad, answer.evidence)
        if answer.ok:
            ids = {at(one, "id") for one in listed(answer.result, "configOptions")}
            missing = {at(one, "id") for one in known} - ids
            bad = f"{len(ids)} of {len(known)} options come back"
            fixture.notes.judge(215, not missing, "the complete list", bad, answer.evidence)
    await _check_unknown_value(fixture, agent, 220, method, {**set_to, "configId": "nope"})
    await _check_unknown_value(fixture, agent, 220, method, {**set_to, "value": "nope"})
    after = await agent.call(method, set_to)
    value = next(
        (at(one, "currentValue") for one in listed(after.result, "configOptions") if at(one, "id") == id),
        None,
    )
    if after.ok and value is not None:
        bad = f"after refused values {id} is {value!r}"
        fixture.notes.judge(
            220, value == set_to["value"], "refused values change nothing", bad, after.evidence
        )
    await _booleans(fixture, any(at(one, "type") == "boolean" for one in known))


async def _booleans(fixture: AgentFixture, has: bool) -> None:
    await _open_session(fixture, without("session.configOptions"))
    if not has:
        fixture.notes.add_not_applicable(217, "it has no boolean options")


async def agent_changes_mode(fixture: AgentFixture) -> None:
    agent, session, session_result = await _open_session(fixture)
    if not listed(session_result, "modes", "availableModes"):
        fixture.notes.add_not_applicable(210, "it has no modes")
        return
    turn = await fixture.run_action(agent, session, "change_mode")
    update = next(iter(turn.updates("current_mode_update")), None)
    bad = "the mode changed without a current_mode_update"
    named = update is not None and isinstance(update.update.get("currentModeId"), str)
    frames = [update.evidence] if update else turn.answer.evidence
    fixture.notes.judge(210, named, "a mode change is sent", bad, frames)


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
    turn = await agent.run_turn(session, action.filled())
    if not action.shows:
        raise CaseUnavailable("the script does not say what the command shows")
    bad = f"{action.prompt} did not show {action.shows!r}"
    fixture.notes.judge(
        230, action.shows in turn.all_text, f"{action.prompt} works", bad, turn.answer.evidence
    )


async def plan_updates(fixture: AgentFixture) -> None:
    """Once with a client that supports `plan_update`, once without."""
    turns: list[AgentTurn] = []
    for capabilities in (without("plan"), None):
        agent, session, _ = await _open_session(fixture, capabilities)
        turns.append(await fixture.run_action(agent, session, "plan"))
    limited, full = turns
    if not full.updates("plan_update"):
        for rule in (284, 285):
            fixture.notes.add_not_applicable(rule, "it does not send plan_update")
        return
    plans = limited.updates("plan")
    bad = "without `plan` at the client no plan is shown"
    fixture.notes.judge(
        285,
        bool(plans),
        "without `plan` at the client it sends `plan`",
        bad,
        limited.answer.evidence,
    )


async def usage_and_titles(fixture: AgentFixture) -> None:
    agent, session, _ = await _open_session(fixture)
    await fixture.run_action(agent, session, "think")
    await agent.barrier()


OPTION_CASES: Final = (
    AgentCase(
        "modes", "set_mode with another mode and with `nope`", (34, 206, 208, 209, 225, 387), set_modes
    ),
    AgentCase(
        "options",
        "set_config_option in every way",
        (212, 213, 214, 215, 216, 217, 219, 220, 387),
        set_options,
    ),
    AgentCase("mode change by the agent", "the agent changes its mode", (210, 216), agent_changes_mode),
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
    full = await fixture.run_action(agent, session, action)
    if not any(line.kind in kinds for line in agent.lines):
        raise CaseUnavailable(f"no {kinds[0]} came")
    limited, session = await fixture.open_session(without(missing))
    return full, await fixture.run_action(limited, session, action)


async def gated_notices(fixture: AgentFixture) -> None:
    full, limited = await _run_with_and_without(fixture, "notice", "session.notices", "notice")
    bad = f"with a notice, the turn returned {full.answer.summary}"
    fixture.notes.judge(
        289, full.answer.ok, "the turn succeeds without a reaction to the notice", bad, full.answer.evidence
    )
    has_text = bool(limited.text.strip())
    bad = "a client without notices gets no text"
    fixture.notes.judge(313, has_text, "a client without notices gets text", bad, limited.answer.evidence)


async def gated_compactions(fixture: AgentFixture) -> None:
    agent, session = await fixture.open_session()
    await fixture.run_action(agent, session, "talk")
    for _ in range(2):
        await fixture.run_action(agent, session, "compact")
    if not any(line.kind == "compaction_update" for line in agent.lines):
        raise CaseUnavailable("no compaction came")
    limited, session = await fixture.open_session(without("session.compaction"))
    await fixture.run_action(limited, session, "talk")
    await fixture.run_action(limited, session, "compact")


async def gated_subagents(fixture: AgentFixture) -> None:
    await _run_with_and_without(fixture, "delegate", "subagents", "subagent_update")


GATED_UPDATE_CASES: Final = (
    AgentCase(
        "notices", "the notice action, with and without the capability", (287, 289, 312, 313), gated_notices
    ),
    AgentCase(
        "compactions", "the compact action, with and without the capability", (291, 318), gated_compactions
    ),
    AgentCase(
        "sub-agents", "the delegate action, with and without the capability", (374, 375, 376), gated_subagents
    ),
)


_SECRET: Final = "a-secret-of-the-check"


async def _provider(agent: AgentUnderTest, id: str) -> Any:
    answer = await agent.call("providers/list", {})
    return next((one for one in listed(answer.result, "providers") if at(one, "providerId") == id), None)


async def configure_providers(fixture: AgentFixture) -> None:
    agent = await fixture.start_agent()
    listing = await agent.call("providers/list", {})
    known = listed(listing.result, "providers")
    answer = await agent.call("providers/disable", {"providerId": "nope"})
    bad = f"disabling an unknown provider gave {answer.summary}"
    fixture.notes.judge(298, answer.ok, "disabling what is not there succeeds", bad, answer.evidence)
    wrong: dict[str, Any] = {
        "providerId": "nope",
        "apiType": "openai",
        "baseUrl": "https://example.com",
        "headers": {},
    }
    answer = await agent.call("providers/set", wrong)
    bad = f"setting an unknown provider gave {answer.summary}; expected -32602"
    fixture.notes.judge(299, answer.code == -32602, "unknown providers are refused", bad, answer.evidence)
    required = next((at(one, "providerId") for one in known if at(one, "required") is True), None)
    if required is None:
        fixture.notes.add_not_applicable(297, "no provider is required")
    else:
        answer = await agent.call("providers/disable", {"providerId": required})
        bad = f"disabling a required provider gave {answer.summary}; expected -32602"
        fixture.notes.judge(297, answer.code == -32602, "a required provider stays", bad, answer.evidence)
    if not fixture.script.provider:
        raise CaseUnavailable("the script names no provider")
    await _check_provider(fixture, agent, fixture.script.provider)


async def _check_provider(fixture: AgentFixture, agent: AgentUnderTest, id: str) -> None:
    provider = await _provider(agent, id)
    kinds = listed(provider, "supported")
    params = {
        "providerId": id,
        "apiType": kinds[0] if kinds else "openai",
        "baseUrl": "https://example.com/v1",
        "headers": {"Authorization": f"Bearer {_SECRET}"},
    }
    await agent.call("providers/set", params)
    since = len(agent.lines)
    await _provider(agent, id)
    echoed = [
        line for line in agent.lines[since:] if line.sender == "agent" and _SECRET.encode() in line.data
    ]
    bad = "the headers come back"
    fixture.notes.judge(300, not echoed, "headers stay secret", bad, [line.evidence for line in echoed])
    answer = await agent.call("providers/disable", {"providerId": id})
    provider = await _provider(agent, id)
    bad = f"after disabling, `current` is {str(at(provider, 'current'))[:80]}"
    fixture.notes.judge(
        296, at(provider, "current") is None, "a disabled one is not current", bad, answer.evidence
    )


PROVIDER_CASES: Final = (
    AgentCase("providers", "list, set, disable", (296, 297, 298, 299, 300), configure_providers, "providers"),
)


CASES: Final = (
    *OPTION_CASES,
    *GATED_UPDATE_CASES,
    *PROVIDER_CASES,
)
