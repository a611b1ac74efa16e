"""The modes and config options of a session, checked and kept in agreement.

A select option of the category `mode` and the modes show the same setting. If an application declares only
one of them besides other options, the other is derived from it: clients that support options hide the modes.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from accord.agent.client import Client
from accord.errors import UsageError
from accord.schema.session_requests import (
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)
from accord.schema.updates import SessionUpdate

_ON, _OFF = "true", "false"
_ON_OFF: Final = [SessionConfigSelectOption(_ON, "On"), SessionConfigSelectOption(_OFF, "Off")]


class UnknownOption(LookupError):
    """An unknown mode, option or value."""


class SessionOptions:
    """The modes and options of one session."""

    def __init__(self, client: Client) -> None:
        self.modes: SessionModeState | None = None
        self.options: list[SessionConfigOption] = []
        self.declared_modes: bool = False
        """Whether the application declared the modes; otherwise they come from an option."""
        self.declared_mode_option: bool = True
        """Whether the application declared the mode option; otherwise it comes from the modes."""
        self._client = client

    @property
    def mode(self) -> str | None:
        """The id of the current mode."""
        return self.modes.current_mode_id if self.modes else None

    @property
    def mode_option(self) -> SessionConfigSelect | None:
        """The option that shows the modes."""
        for option in self.options:
            if isinstance(option, SessionConfigSelect) and option.category == "mode":
                return option
        return None

    def offer_modes(self, modes: SessionModeState | None) -> None:
        """Set the modes."""
        if modes is not None and modes.current_mode_id not in [mode.id for mode in modes.available_modes]:
            raise UsageError(f"the current mode {modes.current_mode_id!r} is not an available mode")
        self.modes = modes
        self.declared_modes = modes is not None
        self._align()

    def offer_options(self, options: Sequence[SessionConfigOption]) -> list[SessionUpdate]:
        """Set the options; return the updates to send if the session is open."""
        ids = [option.id for option in options]
        if len(set(ids)) != len(ids):
            raise UsageError(f"two config options share an id: {', '.join(ids)}")
        for option in options:
            if isinstance(option, SessionConfigSelect) and option.current_value not in _values(option):
                raise UsageError(
                    f"option {option.id!r} does not list its current value {option.current_value!r}"
                )
        before = self.mode
        self.options = list(options)
        self.declared_mode_option = True
        if not self.declared_modes:
            self.modes = None
        self._align()
        return self._updates(mode=self.mode != before)

    def change_modes(self, modes: SessionModeState) -> list[SessionUpdate]:
        """Replace the modes of an open session; return the updates to send."""
        before = self.mode
        self.options = [one for one in self.options if self.declared_mode_option or one.id != "mode"]
        self.offer_modes(modes)
        return self._updates(mode=self.mode != before, options=self.mode_option is not None)

    def value(self, config_id: str) -> str | bool:
        """Return the value of one option."""
        return self._option(config_id).current_value

    def find_mode(self, mode_id: str) -> str:
        """Return the id if there is such a mode; raise UnknownOption otherwise."""
        if self.modes is None or mode_id not in [mode.id for mode in self.modes.available_modes]:
            raise UnknownOption(f"Unknown mode: {mode_id}")
        return mode_id

    def find_value(self, config_id: str, value: str | bool) -> str | bool:
        """Return the value in the type of the option; raise UnknownOption if it is not allowed."""
        option = self._option(config_id)
        if isinstance(option, SessionConfigBoolean):
            if isinstance(value, bool):
                return value
            if value in (_ON, _OFF) and not self._client.takes_boolean_options:
                return value == _ON
        elif isinstance(value, str) and value in _values(option):
            return value
        raise UnknownOption(f"Unknown value of option {config_id}: {value}")

    def find_model_option(self, config_id: str) -> str:
        """Return the id of the model option if there is no option `config_id`."""
        if any(option.id == config_id for option in self.options):
            return config_id
        return next((option.id for option in self.options if option.category == "model"), config_id)

    def set_mode(self, mode_id: str) -> list[SessionUpdate]:
        """Change the mode; return the updates to send."""
        try:
            self.find_mode(mode_id)
        except UnknownOption as error:
            raise UsageError(str(error)) from None
        assert self.modes is not None
        self.modes = replace(self.modes, current_mode_id=mode_id)
        option = self.mode_option
        if option is not None:
            self._set_value(option, mode_id)
        return self._updates(mode=True, options=option is not None)

    def set_option(self, config_id: str, value: str | bool) -> list[SessionUpdate]:
        """Change an option; return the updates to send."""
        try:
            value = self.find_value(config_id, value)
        except UnknownOption as error:
            raise UsageError(str(error)) from None
        before = self.mode
        option = self._option(config_id)
        self._set_value(option, value)
        if self.modes is not None and self.mode_option is not None and self.mode_option.id == config_id:
            self.modes = replace(self.modes, current_mode_id=self.mode_option.current_value)
        return self._updates(mode=self.mode != before)

    def for_client(self, options: Iterable[SessionConfigOption] | None = None) -> list[SessionConfigOption]:
        """Return the options (default: all) as the client supports them: booleans may become a select."""
        listed = self.options if options is None else list(options)
        if self._client.takes_boolean_options:
            return listed
        return [
            _as_select(option) if isinstance(option, SessionConfigBoolean) else option for option in listed
        ]

    def _updates(self, *, mode: bool, options: bool = True) -> list[SessionUpdate]:
        updates: list[SessionUpdate] = []
        if mode and self.mode is not None:
            updates.append(CurrentModeUpdate(self.mode))
        if options:
            updates.append(ConfigOptionUpdate(self.options))
        return updates

    def _option(self, config_id: str) -> SessionConfigOption:
        for option in self.options:
            if option.id == config_id:
                return option
        raise UnknownOption(f"Unknown option: {config_id}")

    def _set_value(self, old: SessionConfigOption, value: str | bool) -> None:
        # Copy: applications may share one list between sessions.
        new = replace(old, current_value=value)
        self.options = [new if option is old else option for option in self.options]

    def _align(self) -> None:
        """Make the mode option and the modes agree; derive the missing one."""
        option, modes = self.mode_option, self.modes
        if option is not None and modes is None:
            listed = [
                SessionMode(choice.value, choice.name, choice.description) for choice in _choices(option)
            ]
            self.modes = SessionModeState(option.current_value, listed)
        elif modes is not None and option is not None:
            if modes.current_mode_id in _values(option):
                self._set_value(option, modes.current_mode_id)
        elif modes is not None and self.options and "mode" not in [option.id for option in self.options]:
            values = [
                SessionConfigSelectOption(mode.id, mode.name, mode.description)
                for mode in modes.available_modes
            ]
            derived = SessionConfigSelect("mode", "Mode", modes.current_mode_id, values, category="mode")
            self.options = [derived, *self.options]
            self.declared_mode_option = False


def _choices(option: SessionConfigSelect) -> list[SessionConfigSelectOption]:
    choices: list[SessionConfigSelectOption] = []
    for item in option.options:
        if isinstance(item, SessionConfigSelectGroup):
            choices += item.options
        else:
            choices.append(item)
    return choices


def _values(option: SessionConfigSelect) -> list[str]:
    return [choice.value for choice in _choices(option)]


def _as_select(option: SessionConfigBoolean) -> SessionConfigSelect:
    return SessionConfigSelect(
        option.id,
        option.name,
        _ON if option.current_value else _OFF,
        list(_ON_OFF),
        option.description,
        option.category or UNSET,
        meta=option.meta,
    )
