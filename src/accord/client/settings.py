"""`--model`, `--mode` and `--set`: set what the agent lists, by id or by name; what it does not list is refused, never dropped."""

from typing import Any, Final, Protocol, cast

from accord.client.remote import RemoteAgent
from accord.client.session import ClientSession
from accord.errors import InvalidParams, UsageError
from accord.session import Picker
from accord.session.pickers import of_modes

SET_MODEL: Final = "_agentao.cn/set_model"

_SWITCH: Final = {
    "true": True,
    "on": True,
    "yes": True,
    "1": True,
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


class Wanted(Protocol):
    """What somebody wants set; None leaves it to the agent."""

    @property
    def mode(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def settings(self) -> tuple[tuple[str, str], ...]: ...


async def apply_settings(given: Wanted, agent: RemoteAgent, session: ClientSession) -> None:
    """Set everything that was asked for. Raises UsageError, also where the agent refuses a value, and AuthRequired."""
    try:
        await _apply(given, agent, session)
    except InvalidParams as error:
        raise UsageError(f"the agent refuses a setting: {error}") from None


async def _apply(given: Wanted, agent: RemoteAgent, session: ClientSession) -> None:
    if given.mode is not None:
        # Modes are there beside config options that do not speak of them, so no picker need stand for them.
        modes = session.state.settings.modes
        if not modes:
            raise UsageError(f"--mode {given.mode}: the agent has no modes")
        picker = of_modes(modes, session.state.settings.current_mode_id)
        await session.set_mode(str(_value(picker, given.mode, "--mode")))
    if given.model is not None:
        await _set_model(given.model, agent, session)
    for key, value in given.settings:
        picker = _find(session, key, key)
        if picker is None:
            listed = ", ".join(repr(picker.id) for picker in session.state.settings.pickers) or "nothing"
            raise UsageError(f"--set {key}={value}: the agent has no option {key!r}; it lists {listed}")
        await session.choose(picker, _value(picker, value, f"--set {key}"))


async def _set_model(model: str, agent: RemoteAgent, session: ClientSession) -> None:
    picker = _find(session, "model", "model")
    try:
        if picker is None:
            raise UsageError(f"--model {model}: the agent lists no models")
        value = _value(picker, model, "--model")
    except UsageError:
        if SET_MODEL not in _words(agent.capabilities.meta or {}):
            raise
        # This agent takes models that it does not list, by a method of its own.
        await agent.request(SET_MODEL, {"sessionId": session.id, "model": model})
        return
    await session.choose(picker, value)


def _find(session: ClientSession, id: str, category: str) -> Picker | None:
    """By id; else by what it is about; else by its name."""
    pickers = session.state.settings.pickers
    return (
        next((picker for picker in pickers if picker.id == id), None)
        or next((picker for picker in pickers if picker.category == category), None)
        or next((picker for picker in pickers if picker.name.casefold() == id.casefold()), None)
    )


def _value(picker: Picker, text: str, option: str) -> str | bool:
    """The listed value that was meant: by its id, else by its name if only one has it."""
    if isinstance(picker.current, bool):
        if text.casefold() not in _SWITCH:
            raise UsageError(f"{option} {text!r}: it is a switch: true or false")
        return _SWITCH[text.casefold()]
    if picker.offers(text):
        return text
    meant = [
        choice.value
        for choice in picker.choices
        if text.casefold() in (choice.value.casefold(), choice.name.casefold())
    ]
    if len(meant) == 1:
        return meant[0]
    listed = ", ".join(choice.value for choice in picker.choices[:20]) or "none"
    more = f" and {len(picker.choices) - 20} more" if len(picker.choices) > 20 else ""
    raise UsageError(f"{option} {text!r}: the agent does not list it; it lists {listed}{more}")


def _words(value: Any, depth: int = 4) -> set[str]:
    """Every text in the agent's `_meta`, where it announces its extensions."""
    if isinstance(value, str):
        return {value}
    if depth == 0:
        return set()
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {*found, *(word for inner in found.values() for word in _words(inner, depth - 1))}
    if isinstance(value, list):
        return {word for inner in cast("list[Any]", value) for word in _words(inner, depth - 1)}
    return set()
