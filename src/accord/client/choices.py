"""Setting what a session lets the user set: config options, modes, and the model list of agents from before options.

Only values that the agent listed are sent. What it answers is taken over; where it answers without the list, the state
stays as it is until an update comes.
"""

from typing import TYPE_CHECKING, Any

from msgspec import structs

from accord.errors import UsageError
from accord.schema import (
    UNSET,
    ConfigOptionUpdate,
    SessionConfigOption,
    SessionConfigSelect,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
)
from accord.schema.dialects import set_by
from accord.session import ModeChanged, Picker
from accord.session.pickers import of_option

if TYPE_CHECKING:
    from accord.client.session import ClientSession


async def choose(session: "ClientSession", picker: Picker, value: str | bool) -> None:
    """Set what a picker stands for."""
    if picker.source == "modes":
        await set_mode(session, str(value))
    else:
        await set_config_option(session, picker.id, value)


async def set_mode(session: "ClientSession", mode_id: str) -> None:
    """By the mode option where the agent has one, else by `session/set_mode`."""
    settings = session.state.settings
    listed = [mode.id for mode in settings.modes]
    if mode_id not in listed:
        raise UsageError(f"there is no mode {mode_id!r}; the agent lists {_names(listed)}")
    for option in settings.config_options:
        if isinstance(option, SessionConfigSelect) and option.category == "mode":
            await set_config_option(session, option.id, mode_id)
            return
    session.insist_on_use()
    link = await session.life.ready()
    await link.call("session/set_mode", SetSessionModeRequest(session.id, mode_id), key=session.id)
    session.publish(ModeChanged(mode_id))


async def set_config_option(session: "ClientSession", config_id: str, value: str | bool) -> None:
    """By `session/set_config_option`, or for a model list of old by `session/set_model`."""
    options = session.state.settings.config_options
    option = next((option for option in options if option.id == config_id), None)
    if option is None:
        raise UsageError(f"there is no option {config_id!r}; the agent lists {_names(o.id for o in options)}")
    picker = of_option(option)
    if not picker.offers(value):
        listed = (
            "True or False" if isinstance(picker.current, bool) else _names(c.value for c in picker.choices)
        )
        raise UsageError(f"the option {config_id!r} cannot be set to {value!r}; the agent lists {listed}")
    session.insist_on_use()
    if set_by(option):
        await _set_model(session, option, value)
        return
    kind = "boolean" if isinstance(value, bool) else UNSET
    wanted = SetSessionConfigOptionRequest(session.id, config_id, value, kind)
    link = await session.life.ready()
    answer: SetSessionConfigOptionResponse = await link.call(
        "session/set_config_option", wanted, key=session.id
    )
    if answer.config_options:
        session.publish(ConfigOptionUpdate(answer.config_options))


async def _set_model(session: "ClientSession", option: SessionConfigOption, value: str | bool) -> None:
    link = await session.life.ready()
    params = {"sessionId": session.id, "modelId": value}
    await link.call("session/set_model", params, read=_ignore, key=session.id)
    # Such an agent never lists its models again, so nobody else will say that the choice has changed.
    changed = structs.replace(option, current_value=value)
    options = session.state.settings.config_options
    session.publish(ConfigOptionUpdate([changed if other.id == option.id else other for other in options]))


def _ignore(_raw: Any) -> None:
    return None


def _names(ids: Any) -> str:
    return ", ".join(repr(id) for id in ids) or "none"
