"""Modes, config options, slash commands, plans."""

from typing import Any, Final

from accord.check.agent.scene import Scene
from accord.check.agent.stage import Stage, without
from accord.check.agent.talk import Talk, Turn
from accord.check.agent.watch.settings import values_of
from accord.check.conversation import Answer
from accord.check.lines import Line
from accord.check.scene import Missing
from accord.trace.exchange import at, listed


async def _opened(stage: Stage, capabilities: Any = None) -> tuple[Talk, str, Any]:
    talk = await (stage.begin() if capabilities is None else stage.begin(capabilities))
    session = await stage.session(talk)
    answer = next(
        line
        for line in reversed(talk.lines)
        if line.is_answer and at(line.message, "result", "sessionId") == session
    )
    return talk, session, (answer.message or {}).get("result")


async def _heard(talk: Talk, kind: str, since: Line) -> Line | None:
    """An update of this kind since then; what is not there after a further exchange does not come."""
    await talk.barrier()
    return next(
        (line for line in talk.lines[since.number :] if line.sender == "agent" and line.kind == kind), None
    )


def _mode_option(told: Any) -> Any:
    return next((one for one in listed(told, "configOptions") if at(one, "category") == "mode"), None)


async def modes(stage: Stage) -> None:
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
        raise Missing("there is only one mode")
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


async def _unknown(stage: Stage, talk: Talk, rule: int, method: str, params: dict[str, Any]) -> Answer:
    answer = await talk.call(method, params)
    bad = f"{method} with a value that is not there gave {answer.says}"
    if stage.ledger.judge(rule, not answer.ok, "unknown values are refused", bad, answer.shown):
        bad = f"{method} with `nope` gave {answer.says}; expected -32602"
        stage.ledger.judge(387, answer.code == -32602, "unknown values give -32602", bad, answer.shown)
    return answer


async def options(stage: Stage) -> None:
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


async def _booleans(stage: Stage, has: bool) -> None:
    await _opened(stage, without("session.configOptions"))
    if not has:
        stage.ledger.absent(217, "it has no boolean options")


async def own_mode(stage: Stage) -> None:
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


async def commands(stage: Stage) -> None:
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
        raise Missing("the script does not say what the command shows")
    bad = f"{act.prompt} did not show {act.shows!r}"
    stage.ledger.judge(230, act.shows in turn.all_text, f"{act.prompt} works", bad, turn.answer.shown)


async def plans(stage: Stage) -> None:
    """With `plan_update` at the client, and without."""
    turns: list[Turn] = []
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


async def words(stage: Stage) -> None:
    """Thoughts and whatever a turn tells of usage, cost and title."""
    talk, session, _ = await _opened(stage)
    await stage.play(talk, session, "think")
    await talk.barrier()


SCENES: Final = (
    Scene("modes", "set_mode with another mode and with `nope`", (34, 206, 208, 209, 225, 387), modes),
    Scene(
        "options", "set_config_option in every way", (212, 213, 214, 215, 216, 217, 219, 220, 387), options
    ),
    Scene("a mode of its own", "the agent changes its mode", (210, 216), own_mode),
    Scene("commands", "a slash command in a prompt", (227, 230), commands),
    Scene(
        "plans", "a plan that changes, for clients with and without plan_update", (203, 205, 284, 285), plans
    ),
    Scene("usage and titles", "what a turn tells beside its words", (232, 233, 235, 320), words),
)
