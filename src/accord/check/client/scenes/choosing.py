"""Choosing: modes and options, listed or not, of known and unknown kinds."""

from typing import Any, Final

from accord.check.client.desk import MODES
from accord.check.client.scene import Scene
from accord.check.client.stage import Stage, Turn
from accord.trace.exchange import at

_SLIDER: Final = {"id": "slide", "name": "Slide", "type": "slider", "min": 0, "max": 9, "currentValue": 3}
_MODE: Final[dict[str, Any]] = {
    "id": "mode",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}


async def _through(stage: Stage, *acts: str, **values: str) -> Any:
    """A whole run; the agent of it."""
    await stage.start(*acts, **values)
    part = await stage.agent()
    prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
    if prompt is not None:
        await stage.finish(Turn(part, prompt))
    else:
        await stage.over()
    return part


async def modes(stage: Stage) -> None:
    """An agent that has modes only: that is what is used, where it is listed."""
    stage.need("mode")
    stage.desk.opened = {"modes": MODES}
    part = await _through(stage, "mode", mode="code")
    calls = part.calls("session/set_mode")
    stage.ledger.judge(
        226, bool(calls), "it uses session/set_mode", "no mode was set", [c.shown for c in calls]
    )


async def unlisted(stage: Stage) -> None:
    stage.need("mode")
    stage.desk.opened = {"modes": MODES}
    part = await _through(stage, "mode", mode="nope")
    if not part.calls("session/set_mode"):
        stage.ledger.kept(207, "what is not listed was not set")


async def both(stage: Stage) -> None:
    stage.need("mode")
    stage.desk.options.append(dict(_MODE))
    stage.desk.opened = {"modes": MODES, "configOptions": stage.desk.options}
    part = await _through(stage, "mode", mode="code")
    calls = part.calls("session/set_mode", "session/set_config_option")
    if not calls:
        stage.ledger.unseen(224, "it set nothing")
        return
    kept = calls[0].method == "session/set_config_option"
    stage.ledger.judge(224, kept, "it uses the option", "it uses session/set_mode", [calls[0].shown])


async def odd(stage: Stage) -> None:
    """An option of an unknown type beside one of an unknown category and one of none."""
    stage.desk.options.insert(0, dict(_SLIDER))
    stage.desk.opened = {"configOptions": stage.desk.options}
    turn = await stage.turn(owes=221)
    await turn.part.barrier(owes=221)
    await stage.finish(turn, "marigold", (221,))
    await stage.client.end()
    if not stage.can("option"):
        stage.ledger.unseen(222, "the script does not say how to make the client set an option")
        return
    for option, value, expected in (("odd", "two", "two"), ("flag", "true", True)):
        number = len(stage.parts) + 1
        await stage.start("option", option=option, value=value)
        part = await stage.agent(number)
        asked = await part.hears("session/set_config_option", "session/prompt", bound=stage.bounds.soon)
        used = asked is not None and asked.method == "session/set_config_option"
        if option == "odd":
            stage.ledger.judge(222, used, "it can be set", "an option of an unknown category cannot be set")
        elif asked is not None and used:
            right = at(asked.params, "type") == "boolean" and at(asked.params, "value") is expected
            stage.ledger.judge(218, right, "a JSON boolean", f"it sent {asked.params}", [asked.shown])
        prompt = await part.hears("session/prompt", bound=stage.bounds.soon)
        if prompt is not None:
            part.stop(prompt)
        await stage.over()
        await stage.client.end()


SCENES: Final = (
    Scene("modes alone", "an agent that has modes and no options", (207, 226), modes),
    Scene("a mode that is not listed", "the client is told to choose it", (207,), unlisted),
    Scene("modes and options", "an agent that has both", (224,), both),
    Scene("odd options", "an unknown type, an unknown category, a boolean", (218, 221, 222), odd),
)
