"""Config options of both versions; the mode of version 1 is an option in version 2. Imported on first use."""

from typing import Any, Final, cast

from msgspec import UNSET

from accord.schema import (
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionModeState,
    Unknown,
    v2,
)

MODE: Final = "mode"
"""The id of the option that stands for the mode, and its category."""


def option_v1(option: Any) -> SessionConfigOption:
    """An option in the form of version 1."""
    members: dict[str, Any] = {
        "id": option.config_id,
        "name": option.name,
        "current_value": option.current_value,
        "description": option.description,
        "category": option.category,
        "meta": option.meta,
    }
    if isinstance(option, v2.SessionConfigBooleanV2):
        return SessionConfigBoolean(**members)
    options = [
        SessionConfigSelectGroup(item.group_id, item.name, item.options, meta=item.meta)
        if isinstance(item, v2.SessionConfigSelectGroupV2)
        else item
        for item in option.options
    ]
    return SessionConfigSelect(**members, options=cast(Any, options))


def options_v1(options: Any) -> list[SessionConfigOption]:
    """The known options in the form of version 1."""
    return [option_v1(option) for option in options or () if not isinstance(option, Unknown)]


def option_v2(option: SessionConfigOption) -> "v2.SessionConfigOptionV2":
    """An option in the form of version 2."""
    members: dict[str, Any] = {
        "config_id": option.id,
        "name": option.name,
        "current_value": option.current_value,
        "description": option.description,
        "category": option.category,
        "meta": option.meta,
    }
    if isinstance(option, SessionConfigBoolean):
        return v2.SessionConfigBooleanV2(**members)
    options = [
        v2.SessionConfigSelectGroupV2(item.group, item.name, item.options, meta=item.meta)
        if isinstance(item, SessionConfigSelectGroup)
        else item
        for item in option.options
        if not isinstance(item, SessionConfigSelectGroup) or item.options
    ]
    return v2.SessionConfigSelectV2(**members, options=cast(Any, options))


def options_v2(options: list[SessionConfigOption]) -> "list[v2.SessionConfigOptionV2]":
    """The options in the form of version 2, without those and the groups that offer nothing to choose."""
    return [option_v2(option) for option in options if _offers_something(option)]


def _offers_something(option: SessionConfigOption) -> bool:
    return isinstance(option, SessionConfigBoolean) or any(
        not isinstance(item, SessionConfigSelectGroup) or item.options for item in option.options
    )


class OfferedOptions:
    """The options of one session of a version 1 agent, as a version 2 client sees them."""

    def __init__(self) -> None:
        self._options: list[SessionConfigOption] = []
        self._modes: SessionModeState | None = None

    @property
    def mode_is_option(self) -> bool:
        """Whether this class makes an option of the mode, because the agent has none."""
        return self._modes is not None and all(option.category != MODE for option in self._options)

    @property
    def mode_id(self) -> str:
        """The id of that option."""
        return MODE if all(option.id != MODE for option in self._options) else "_accord/mode"

    def opened(self, modes: Any, options: Any) -> None:
        """Take over what the answer to new, load or resume says."""
        if modes:
            self._modes = modes
        if options:
            self._options = list(options)

    def changed(self, options: list[SessionConfigOption]) -> None:
        """Replace the options."""
        self._options = list(options)

    def mode_changed(self, mode_id: str) -> None:
        """Change the current mode."""
        if self._modes is not None:
            self._modes = SessionModeState(mode_id, self._modes.available_modes)
        for place, option in enumerate(self._options):
            if isinstance(option, SessionConfigSelect) and option.category == MODE:
                self._options[place] = SessionConfigSelect(
                    option.id,
                    option.name,
                    mode_id,
                    option.options,
                    option.description,
                    option.category,
                    meta=option.meta,
                )

    def find(self, config_id: str) -> SessionConfigOption | None:
        """The option with this id."""
        return next((option for option in self.all if option.id == config_id), None)

    @property
    def all(self) -> list[SessionConfigOption]:
        """All options, with that for the mode first."""
        options = list(self._options)
        if self._modes is not None and self.mode_is_option:
            choices = [
                SessionConfigSelectOption(mode.id, mode.name, mode.description or UNSET)
                for mode in self._modes.available_modes
            ]
            current = self._modes.current_mode_id
            options.insert(0, SessionConfigSelect(self.mode_id, "Mode", current, choices, category=MODE))
        return options

    @property
    def all_v2(self) -> "list[v2.SessionConfigOptionV2]":
        """The same in the form of version 2."""
        return options_v2(self.all)
