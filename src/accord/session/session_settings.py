"""Modes and config options, kept consistent, and the pickers made from them.

Agents report settings as config options (current), session modes (older) or a list of models (oldest). Modes
are shown only without config options. A model list becomes a config option that records the method that sets
it.
"""

from typing import Literal, TypeAlias

from msgspec import Struct, structs

from accord.schema import (
    UNSET,
    ConfigOptionUpdate,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)
from accord.session.events import ModeChanged, SessionOpened

PickerSource: TypeAlias = Literal["config", "modes", "models"]
"""Where a setting of the session comes from in the protocol."""


class PickerChoice(Struct, frozen=True):
    """One selectable value."""

    value: str
    name: str
    description: str = ""
    group: str = ""


class Picker(Struct, frozen=True):
    """One setting that the user can choose.

    `source` says which method sets it. A switch has no choices; its values are True and False.
    """

    source: PickerSource
    id: str
    name: str
    current: str | bool
    choices: tuple[PickerChoice, ...] = ()
    category: str | None = None
    description: str = ""

    def offers(self, value: str | bool) -> bool:
        """Whether the agent listed this value; other values must not be sent."""
        if isinstance(self.current, bool):
            return isinstance(value, bool)
        return any(choice.value == value for choice in self.choices)


def picker_of_option(option: SessionConfigOption) -> Picker:
    """Return the picker for one config option."""
    return Picker(
        source="models" if is_converted_model_option(option) else "config",
        id=option.id,
        name=option.name,
        current=option.current_value,
        choices=() if isinstance(option, SessionConfigBoolean) else _choices(option),
        category=option.category or None,
        description=option.description or "",
    )


def is_converted_model_option(option: SessionConfigOption) -> bool:
    """Whether the option was converted from a list of models."""
    if not option.meta:
        return False
    from accord.schema.dialects.json_members import (
        set_method_of,  # on first use: correct agents never need it
    )

    return set_method_of(option) is not None


def picker_of_modes(modes: list[SessionMode], current: str | None) -> Picker:
    """Return the picker for session modes."""
    choices = tuple([PickerChoice(mode.id, mode.name, mode.description or "") for mode in modes])
    return Picker("modes", "mode", "Mode", current or "", choices, "mode")


def modes_of_option(option: SessionConfigSelect) -> list[SessionMode]:
    """Return the session modes that a mode option stands for."""
    return [
        SessionMode(id=choice.value, name=choice.name, description=choice.description or None)
        for choice in _choices(option)
    ]


def _choices(option: SessionConfigSelect) -> tuple[PickerChoice, ...]:
    choices: list[PickerChoice] = []
    for item in option.options:
        if isinstance(item, SessionConfigSelectGroup):
            choices += [_choice(inner, item.name) for inner in item.options]
        else:
            choices.append(_choice(item))
    return tuple(choices)


def _choice(option: SessionConfigSelectOption, group: str = "") -> PickerChoice:
    return PickerChoice(option.value, option.name, option.description or "", group)


class SessionSettings:
    """The modes and config options of a session.

    Options are in the agent's order, which is their priority.
    """

    __slots__ = ("_modes", "config_options", "current_mode_id")

    def __init__(self) -> None:
        self.config_options: list[SessionConfigOption] = []
        self.current_mode_id: str | None = None
        self._modes: list[SessionMode] = []

    @property
    def modes(self) -> list[SessionMode]:
        """The available modes, whether the agent reports them as modes or as a config option."""
        option = self._mode_option()
        return modes_of_option(option) if option is not None and not self._modes else self._modes

    @property
    def pickers(self) -> list[Picker]:
        """The settings that the user can choose."""
        pickers = [picker_of_option(option) for option in self.config_options]
        if self._modes and all(picker.source != "config" for picker in pickers):
            pickers.insert(0, picker_of_modes(self._modes, self.current_mode_id))
        return pickers

    def apply_opened(self, event: SessionOpened) -> None:
        """Apply the answer that opened the session; omitted members keep their value."""
        if event.modes:
            self._modes = event.modes.available_modes
            self.current_mode_id = event.modes.current_mode_id
        if event.config_options is not UNSET and event.config_options is not None:
            self._replace_options(event.config_options)
            option, mode_id = self._mode_option(), event.modes.current_mode_id if event.modes else ""
            if mode_id and option is not None and not picker_of_option(option).offers(mode_id):
                self.current_mode_id = mode_id  # as after `apply_mode`

    def apply_mode(self, event: ModeChanged) -> None:
        """Apply a mode change, also to a config option for the mode."""
        self.current_mode_id = event.mode_id
        option = self._mode_option()
        if option is not None and picker_of_option(option).offers(event.mode_id):
            changed = structs.replace(option, current_value=event.mode_id)
            self.config_options = [changed if other is option else other for other in self.config_options]

    def apply_options(self, event: ConfigOptionUpdate) -> None:
        """Replace all options."""
        self._replace_options(event.config_options)

    def with_settings(self, event: SessionOpened) -> SessionOpened:
        """Return the event with all current settings."""
        modes = SessionModeState(current_mode_id=self.current_mode_id or "", available_modes=self._modes)
        return structs.replace(
            event,
            modes=modes if self._modes or self.current_mode_id else UNSET,
            config_options=list(self.config_options),
        )

    def _replace_options(self, options: list[SessionConfigOption]) -> None:
        if all(option.category != "model" for option in options):
            # An agent without config options never lists its models again: keep the converted option.
            options = options + [
                option for option in self.config_options if is_converted_model_option(option)
            ]
        self.config_options = options
        option = self._mode_option()
        if option is not None:
            self.current_mode_id = option.current_value

    def _mode_option(self) -> SessionConfigSelect | None:
        for option in self.config_options:
            if isinstance(option, SessionConfigSelect) and option.category == "mode":
                return option
        return None
