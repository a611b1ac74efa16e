"""What the user can set in a session: modes and config options, checked, complete, and in step with each other.

A select option of the category `mode` and the modes are one thing in two places. Where an application declares only one of
them beside other options, the other is made from it, because clients that know options hide the modes.
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
_SWITCH: Final = [SessionConfigSelectOption(_ON, "On"), SessionConfigSelectOption(_OFF, "Off")]


class UnknownOption(LookupError):
    """A mode, an option or a value that is not on offer."""


class SessionOptions:
    """The modes and options of one session."""

    def __init__(self, client: Client) -> None:
        self.modes: SessionModeState | None = None
        self.options: list[SessionConfigOption] = []
        self.own_modes = False
        """Whether the application declared the modes, rather than an option of that category."""
        self.own_mode_option = True
        """Whether the application declared the option for the mode, rather than only the modes."""
        self._client = client

    @property
    def mode(self) -> str | None:
        """The mode in force."""
        return self.modes.current_mode_id if self.modes else None

    @property
    def mode_option(self) -> SessionConfigSelect | None:
        """The option that stands for the modes."""
        for option in self.options:
            if isinstance(option, SessionConfigSelect) and option.category == "mode":
                return option
        return None

    def offer_modes(self, modes: SessionModeState | None) -> None:
        """Declare the modes."""
        if modes is not None and modes.current_mode_id not in [mode.id for mode in modes.available_modes]:
            raise UsageError(f"the current mode {modes.current_mode_id!r} is not among the available modes")
        self.modes = modes
        self.own_modes = modes is not None
        self._join()

    def offer_options(self, options: Sequence[SessionConfigOption]) -> list[SessionUpdate]:
        """Declare the options; returns what the client has to be told if the session is open."""
        ids = [option.id for option in options]
        if len(set(ids)) != len(ids):
            raise UsageError(f"two config options share an id: {', '.join(ids)}")
        for option in options:
            if isinstance(option, SessionConfigSelect) and option.current_value not in _values(option):
                raise UsageError(
                    f"the value {option.current_value!r} of option {option.id!r} is not among its values"
                )
        before = self.mode
        self.options = list(options)
        self.own_mode_option = True
        if not self.own_modes:
            self.modes = None
        self._join()
        return self._changes(mode=self.mode != before)

    def value(self, config_id: str) -> str | bool:
        """The value of one option."""
        return self._option(config_id).current_value

    def find_mode(self, mode_id: str) -> str:
        """The mode of this id; raises UnknownChoice."""
        if self.modes is None or mode_id not in [mode.id for mode in self.modes.available_modes]:
            raise UnknownOption(f"Unknown mode: {mode_id}")
        return mode_id

    def find_value(self, config_id: str, value: str | bool) -> str | bool:
        """The value as this option takes it; raises UnknownChoice."""
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
        """The id of the option for the model, where a client knows it only as `config_id`."""
        if any(option.id == config_id for option in self.options):
            return config_id
        return next((option.id for option in self.options if option.category == "model"), config_id)

    def set_mode(self, mode_id: str) -> list[SessionUpdate]:
        """Change the mode; returns what the client has to be told."""
        try:
            self.find_mode(mode_id)
        except UnknownOption as error:
            raise UsageError(str(error)) from None
        assert self.modes is not None
        self.modes = replace(self.modes, current_mode_id=mode_id)
        option = self.mode_option
        if option is not None:
            self._put(option, mode_id)
        return self._changes(mode=True, options=option is not None)

    def set_option(self, config_id: str, value: str | bool) -> list[SessionUpdate]:
        """Change an option; returns what the client has to be told."""
        try:
            value = self.find_value(config_id, value)
        except UnknownOption as error:
            raise UsageError(str(error)) from None
        before = self.mode
        option = self._option(config_id)
        self._put(option, value)
        if self.modes is not None and self.mode_option is not None and self.mode_option.id == config_id:
            self.modes = replace(self.modes, current_mode_id=self.mode_option.current_value)
        return self._changes(mode=self.mode != before)

    def shown(self, options: Iterable[SessionConfigOption] | None = None) -> list[SessionConfigOption]:
        """The complete list in the form this client takes: without the gate, on/off becomes a choice of two."""
        listed = self.options if options is None else list(options)
        if self._client.takes_boolean_options:
            return listed
        return [
            _as_select(option) if isinstance(option, SessionConfigBoolean) else option for option in listed
        ]

    def _changes(self, *, mode: bool, options: bool = True) -> list[SessionUpdate]:
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

    def _put(self, old: SessionConfigOption, value: str | bool) -> None:
        # A copy, because applications like to share one list between their sessions.
        new = replace(old, current_value=value)
        self.options = [new if option is old else option for option in self.options]

    def _join(self) -> None:
        """Make the mode option and the modes agree; make the missing one where the other needs it."""
        option, modes = self.mode_option, self.modes
        if option is not None and modes is None:
            listed = [
                SessionMode(choice.value, choice.name, choice.description) for choice in _choices(option)
            ]
            self.modes = SessionModeState(option.current_value, listed)
        elif modes is not None and option is not None:
            if modes.current_mode_id in _values(option):
                self._put(option, modes.current_mode_id)
        elif modes is not None and self.options and "mode" not in [option.id for option in self.options]:
            values = [
                SessionConfigSelectOption(mode.id, mode.name, mode.description)
                for mode in modes.available_modes
            ]
            made = SessionConfigSelect("mode", "Mode", modes.current_mode_id, values, category="mode")
            self.options = [made, *self.options]
            self.own_mode_option = False


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
        list(_SWITCH),
        option.description,
        option.category or UNSET,
        meta=option.meta,
    )
