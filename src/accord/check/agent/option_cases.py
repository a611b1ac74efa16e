"""Cases: modes, config options, commands, plans, providers, updates gated by capabilities."""

from typing import Any, Final

from accord.check.agent.agent_feature_rules import values_of
from accord.check.agent.agent_fixture import AgentCase, AgentFixture, without
from accord.check.agent.agent_under_test import AgentTurn, AgentUnderTest
from accord.check.checked_connection import CallAnswer, WireLine
from accord.check.findings import CaseUnavailable
from accord.trace.trace_steps import at, listed

# MERGED check.agent.scenes.settings: Modes, config options, slash commands, plans.


async def _opened(stage: AgentFixture, capabilities: Any = None) -> tuple[AgentUnderTest, str, Any]:
    talk = await (stage.begin() if capabilities is None else stage.begin(capabilities))
    session = await stage.session(talk)
    answer = next(
        line
        for line in reversed(talk.lines)
        if line.is_answer and at(line.message, "result", "sessionId") == session
    )
    return talk, session, (answer.message or {}).get("result")


async def _heard(talk: AgentUnderTest, kind: str, since: WireLine) -> WireLine | None:
    """An update of this kind since then; what is not there after a further exchange does not come."""
    await talk.barrier()
    return next(
        (line for line in talk.lines[since.number :] if line.sender == "agent" and line.kind == kind), None
    )


def _mode_option(told: Any) -> Any:
    return next((one for one in listed(told, "configOptions") if at(one, "category") == "mode"), None)


async def modes(stage: AgentFixture) -> None:
    talk, session, told = await _opened(stage)
    ids = [at(mode, "id") for mode in listed(told, "modes", "availableModes")]
    current = at(told, "modes", "currentModeId")
    if not ids:
        for rule in (206, 208, 209, 225):
            stage.ledger.absent(rule, "it has no modes")
        return
    await _unknown(stage, talk, 209, "session/set_mode", {"sessionId": session, "modeId": "nope"})
    other = next((id for id in ids if id != current), None)
    if other is None:
        raise CaseUnavailable("there is only one mode")
    answer = await talk.call("session/set_mode", {"sessionId": session, "modeId": other})
    # A result that is no object is a matter of rule 34, which the watch judges.
    stage.ledger.judge(
        208, answer.ok, "a mode can be set", f"session/set_mode gave {answer.says}", answer.shown
    )
    option = _mode_option(told)
    if option is None:
        stage.ledger.absent(225, "the modes are not also an option")
    if option is None or not answer.ok:
        return
    update = await _heard(talk, "config_option_update", answer.asked)
    value = at(_mode_option(update.update if update else None), "currentValue")
    bad = f"after set_mode the option of the modes is {value!r}; expected {other!r}"
    stage.ledger.judge(225, value == other, "the option follows the mode", bad, answer.shown)
    if current not in ids:
        return
    params = {"sessionId": session, "configId": at(option, "id"), "value": current}
    answer = await talk.call("session/set_config_option", params)
    update = await _heard(talk, "current_mode_update", answer.asked)
    value = update.update.get("currentModeId") if update else None
    bad = f"after the option was set the mode is told as {value!r}; expected {current!r}"
    stage.ledger.judge(225, value == current, "the mode follows the option", bad, answer.shown)


async def _unknown(
    stage: AgentFixture, talk: AgentUnderTest, rule: int, method: str, params: dict[str, Any]
) -> CallAnswer:
    answer = await talk.call(method, params)
    bad = f"{method} with a value that is not there gave {answer.says}"
    if stage.ledger.judge(rule, not answer.ok, "unknown values are refused", bad, answer.shown):
        bad = f"{method} with `nope` gave {answer.says}; expected -32602"
        stage.ledger.judge(387, answer.code == -32602, "unknown values give -32602", bad, answer.shown)
    return answer


async def options(stage: AgentFixture) -> None:
    talk, session, told = await _opened(stage)
    known = listed(told, "configOptions")
    select = next((one for one in known if at(one, "type") == "select" and values_of(one)), None)
    if select is None:
        for rule in (212, 213, 214, 215, 216, 217, 219, 220):
            stage.ledger.absent(rule, "it has no options to choose from")
        return
    method, id = "session/set_config_option", at(select, "id")
    set_to = {"sessionId": session, "configId": id, "value": at(select, "currentValue")}
    plain = await talk.call(method, set_to)
    typed = await talk.call(method, {**set_to, "type": "_check"})
    for answer in (plain, typed):
        bad = f"{'an unknown type and ' if answer is typed else ''}a text gave {answer.says}"
        stage.ledger.judge(219, answer.ok, "a select takes a text", bad, answer.shown)
        if answer.ok:
            ids = {at(one, "id") for one in listed(answer.result, "configOptions")}
            missing = {at(one, "id") for one in known} - ids
            bad = f"{len(ids)} of {len(known)} options come back"
            stage.ledger.judge(215, not missing, "the complete list", bad, answer.shown)
    await _unknown(stage, talk, 220, method, {**set_to, "configId": "nope"})
    await _unknown(stage, talk, 220, method, {**set_to, "value": "nope"})
    after = await talk.call(method, set_to)
    value = next(
        (at(one, "currentValue") for one in listed(after.result, "configOptions") if at(one, "id") == id),
        None,
    )
    if after.ok and value is not None:
        bad = f"after refused values {id} is {value!r}"
        stage.ledger.judge(220, value == set_to["value"], "refused values change nothing", bad, after.shown)
    await _booleans(stage, any(at(one, "type") == "boolean" for one in known))


async def _booleans(stage: AgentFixture, has: bool) -> None:
    await _opened(stage, without("session.configOptions"))
    if not has:
        stage.ledger.absent(217, "it has no boolean options")


async def own_mode(stage: AgentFixture) -> None:
    talk, session, told = await _opened(stage)
    if not listed(told, "modes", "availableModes"):
        stage.ledger.absent(210, "it has no modes")
        return
    turn = await stage.play(talk, session, "change_mode")
    update = next(iter(turn.updates("current_mode_update")), None)
    bad = "the mode was to change, and no current_mode_update came"
    named = update is not None and isinstance(update.update.get("currentModeId"), str)
    shown = [update.shown] if update else turn.answer.shown
    stage.ledger.judge(210, named, "a change of its own is told", bad, shown)


async def commands(stage: AgentFixture) -> None:
    talk, session, _ = await _opened(stage)
    told = await talk.until(
        lambda line: line.kind == "available_commands_update", bound=stage.bounds.soon / 5
    )
    if told is None:
        for rule in (227, 230):
            stage.ledger.absent(rule, "it announces no commands")
        return
    act = stage.act("command")
    turn = await talk.turn(session, act.filled())
    if not act.shows:
        raise CaseUnavailable("the script does not say what the command shows")
    bad = f"{act.prompt} did not show {act.shows!r}"
    stage.ledger.judge(230, act.shows in turn.all_text, f"{act.prompt} works", bad, turn.answer.shown)


async def plans(stage: AgentFixture) -> None:
    """With `plan_update` at the client, and without."""
    turns: list[AgentTurn] = []
    for capabilities in (without("plan"), None):
        talk, session, _ = await _opened(stage, capabilities)
        turns.append(await stage.play(talk, session, "plan"))
    poor, rich = turns
    if not rich.updates("plan_update"):
        for rule in (284, 285):
            stage.ledger.absent(rule, "it does not send plan_update")
        return
    told = poor.updates("plan")
    bad = "without `plan` at the client no plan is shown"
    stage.ledger.judge(
        285, bool(told), "without `plan` at the client it sends `plan`", bad, poor.answer.shown
    )


async def words(stage: AgentFixture) -> None:
    """Thoughts and whatever a turn tells of usage, cost and title."""
    talk, session, _ = await _opened(stage)
    await stage.play(talk, session, "think")
    await talk.barrier()


OPTION_CASES: Final = (
    AgentCase("modes", "set_mode with another mode and with `nope`", (34, 206, 208, 209, 225, 387), modes),
    AgentCase(
        "options", "set_config_option in every way", (212, 213, 214, 215, 216, 217, 219, 220, 387), options
    ),
    AgentCase("a mode of its own", "the agent changes its mode", (210, 216), own_mode),
    AgentCase("commands", "a slash command in a prompt", (227, 230), commands),
    AgentCase(
        "plans", "a plan that changes, for clients with and without plan_update", (203, 205, 284, 285), plans
    ),
    AgentCase("usage and titles", "what a turn tells beside its words", (232, 233, 235, 320), words),
)


# MERGED check.agent.scenes.gated: What goes only to clients that know it: notices, compactions, sub-agents.


async def _both(stage: AgentFixture, act: str, lacking: str, *kinds: str) -> tuple[AgentTurn, AgentTurn]:
    """The act with a client that has the gate, then with one that has not."""
    talk, session = await stage.open()
    rich = await stage.play(talk, session, act)
    if not any(line.kind in kinds for line in talk.lines):
        raise CaseUnavailable(f"no {kinds[0]} came")
    poor, session = await stage.open(without(lacking))
    return rich, await stage.play(poor, session, act)


async def notices(stage: AgentFixture) -> None:
    rich, poor = await _both(stage, "notice", "session.notices", "notice")
    bad = f"with a notice nobody minds, the turn gave {rich.answer.says}"
    stage.ledger.judge(
        289, rich.answer.ok, "turns go well without anybody minding notices", bad, rich.answer.shown
    )
    told = bool(poor.text.strip())
    bad = "a client without notices learns nothing"
    stage.ledger.judge(313, told, "a client without notices is told in words", bad, poor.answer.shown)


async def compactions(stage: AgentFixture) -> None:
    talk, session = await stage.open()
    await stage.play(talk, session, "talk")
    for _ in range(2):
        await stage.play(talk, session, "compact")
    if not any(line.kind == "compaction_update" for line in talk.lines):
        raise CaseUnavailable("no compaction came")
    poor, session = await stage.open(without("session.compaction"))
    await stage.play(poor, session, "talk")
    await stage.play(poor, session, "compact")


async def children(stage: AgentFixture) -> None:
    await _both(stage, "delegate", "subagents", "subagent_update")


GATED_UPDATE_CASES: Final = (
    AgentCase("notices", "the notice act, with and without the gate", (287, 289, 312, 313), notices),
    AgentCase("compactions", "the compact act, with and without the gate", (291, 318), compactions),
    AgentCase("sub-agents", "the delegate act, with and without the gate", (374, 375, 376), children),
)


# MERGED check.agent.scenes.providers: Providers: list, set, disable. Only the provider that the script names is touched.

_SECRET: Final = "a-secret-of-the-check"


async def _provider(talk: AgentUnderTest, id: str) -> Any:
    answer = await talk.call("providers/list", {})
    return next((one for one in listed(answer.result, "providers") if at(one, "providerId") == id), None)


async def providers(stage: AgentFixture) -> None:
    talk = await stage.begin()
    listing = await talk.call("providers/list", {})
    known = listed(listing.result, "providers")
    answer = await talk.call("providers/disable", {"providerId": "nope"})
    bad = f"disabling an unknown provider gave {answer.says}"
    stage.ledger.judge(298, answer.ok, "disabling what is not there succeeds", bad, answer.shown)
    wrong: dict[str, Any] = {
        "providerId": "nope",
        "apiType": "openai",
        "baseUrl": "https://example.com",
        "headers": {},
    }
    answer = await talk.call("providers/set", wrong)
    bad = f"setting an unknown provider gave {answer.says}; expected -32602"
    stage.ledger.judge(299, answer.code == -32602, "unknown providers are refused", bad, answer.shown)
    required = next((at(one, "providerId") for one in known if at(one, "required") is True), None)
    if required is None:
        stage.ledger.absent(297, "no provider is required")
    else:
        answer = await talk.call("providers/disable", {"providerId": required})
        bad = f"disabling a required provider gave {answer.says}; expected -32602"
        stage.ledger.judge(297, answer.code == -32602, "a required provider stays", bad, answer.shown)
    if not stage.script.provider:
        raise CaseUnavailable("the script names no provider that may be touched")
    await _touched(stage, talk, stage.script.provider)


async def _touched(stage: AgentFixture, talk: AgentUnderTest, id: str) -> None:
    told = await _provider(talk, id)
    kinds = listed(told, "supported")
    params = {
        "providerId": id,
        "apiType": kinds[0] if kinds else "openai",
        "baseUrl": "https://example.com/v1",
        "headers": {"Authorization": f"Bearer {_SECRET}"},
    }
    await talk.call("providers/set", params)
    since = len(talk.lines)
    await _provider(talk, id)
    echoed = [line for line in talk.lines[since:] if line.sender == "agent" and _SECRET.encode() in line.data]
    bad = "the headers come back"
    stage.ledger.judge(300, not echoed, "headers stay secret", bad, [line.shown for line in echoed])
    answer = await talk.call("providers/disable", {"providerId": id})
    told = await _provider(talk, id)
    bad = f"after disabling, `current` is {str(at(told, 'current'))[:80]}"
    stage.ledger.judge(296, at(told, "current") is None, "a disabled one is not current", bad, answer.shown)


PROVIDER_CASES: Final = (
    AgentCase("providers", "list, set, disable", (296, 297, 298, 299, 300), providers, "providers"),
)


CASES: Final = (
    *OPTION_CASES,
    *GATED_UPDATE_CASES,
    *PROVIDER_CASES,
)
