"""What the user can set in a session: modes, and the config options that supersede them."""

from typing import Annotated, Literal, TypeAlias

from .base import UNSET, Object
from .ids import (
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigValueId,
    SessionId,
    SessionModeId,
)
from .marks import IN_ORDER, Choice, Items, Known, Lenient, Opt


class SessionMode(Object):
    """A way of working, such as asking first or acting freely."""

    id: SessionModeId
    name: str
    description: Opt[str | None] = UNSET


class SessionModeState(Object):
    """The modes on offer and the one in force."""

    current_mode_id: SessionModeId
    available_modes: Lenient[Items[SessionMode]]


class CurrentModeUpdate(Object, tag_field="sessionUpdate", tag="current_mode_update"):
    """The agent changed the mode itself. Any time in a session that has modes."""

    current_mode_id: SessionModeId


class SetSessionModeRequest(Object):
    """Change the mode, also in the middle of a turn."""

    session_id: SessionId
    mode_id: SessionModeId


class SetSessionModeResponse(Object):
    """The mode is set."""


SessionConfigOptionCategory: TypeAlias = Annotated[
    str, Known("mode", "model", "model_config", "thought_level")
]
"""Where an option belongs in a user interface. Names with an underscore in front are the vendors' own."""


class SessionConfigSelectOption(Object):
    """One value to choose."""

    value: SessionConfigValueId
    name: str
    description: Opt[str | None] = UNSET


class SessionConfigSelectGroup(Object):
    """Values under a common heading."""

    group: SessionConfigGroupId
    name: str
    options: Lenient[Items[SessionConfigSelectOption]]


SessionConfigSelectOptions: TypeAlias = Choice[
    list[SessionConfigSelectOption] | list[SessionConfigSelectGroup], IN_ORDER
]
"""Either all plain values or all groups, never mixed."""


class SessionConfigSelect(Object, tag_field="type", tag="select"):
    """An option with one of several values."""

    id: SessionConfigId
    name: str
    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions
    description: Opt[str | None] = UNSET
    category: Opt[SessionConfigOptionCategory | None] = UNSET


class SessionConfigBoolean(Object, tag_field="type", tag="boolean"):
    """An option that is on or off. Only for clients that say they take them."""

    id: SessionConfigId
    name: str
    current_value: bool
    description: Opt[str | None] = UNSET
    category: Opt[SessionConfigOptionCategory | None] = UNSET


SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean


class ConfigOptionUpdate(Object, tag_field="sessionUpdate", tag="config_option_update"):
    """All options with their values, whenever one changed without the client asking."""

    config_options: Lenient[Items[SessionConfigOption]]


class SetSessionConfigOptionRequest(Object):
    """Set one option: to the id of a value, or, with `type="boolean"`, to true or false."""

    session_id: SessionId
    config_id: SessionConfigId
    value: SessionConfigValueId | bool
    type: Opt[Literal["boolean"]] = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) and self.type != "boolean":
            raise ValueError("a true or false value needs type 'boolean'")


class SetSessionConfigOptionResponse(Object):
    """All options after the change: one choice may alter others."""

    config_options: Lenient[Items[SessionConfigOption]]
