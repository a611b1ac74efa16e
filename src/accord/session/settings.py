"""Settings: the modes and config options of a session, kept in agreement, and the pickers they add up to."""

from msgspec import structs

from accord.schema import (
    UNSET,
    ConfigOptionUpdate,
    SessionConfigOption,
    SessionConfigSelect,
    SessionMode,
    SessionModeState,
)
from accord.session import pickers
from accord.session.events import ModeChanged, SessionOpened
from accord.session.pickers import Picker


class Settings:
    """What the agent lets the user set. Options are in the agent's order, which is their priority."""

    __slots__ = ("_modes", "config_options", "current_mode_id")

    def __init__(self) -> None:
        self.config_options: list[SessionConfigOption] = []
        self.current_mode_id: str | None = None
        self._modes: list[SessionMode] = []

    @property
    def modes(self) -> list[SessionMode]:
        """The modes on offer, whether the agent told of them as modes or as a config option."""
        option = self._mode_option()
        return pickers.offered_modes(option) if option is not None and not self._modes else self._modes

    @property
    def pickers(self) -> list[Picker]:
        """What the user can choose."""
        found = [pickers.of_option(option) for option in self.config_options]
        if self._modes and all(picker.source != "config" for picker in found):
            found.insert(0, pickers.of_modes(self._modes, self.current_mode_id))
        return found

    def open(self, event: SessionOpened) -> None:
        """What the agent said when the session was opened; what it left out stays."""
        if event.modes:
            self._modes = event.modes.available_modes
            self.current_mode_id = event.modes.current_mode_id
        if event.config_options is not UNSET and event.config_options is not None:
            self._set_options(event.config_options)

    def set_mode(self, event: ModeChanged) -> None:
        """Another mode. An agent that reports the mode alone means the option as well: both say the same thing."""
        self.current_mode_id = event.mode_id
        option = self._mode_option()
        if option is not None and pickers.of_option(option).offers(event.mode_id):
            changed = structs.replace(option, current_value=event.mode_id)
            self.config_options = [changed if other is option else other for other in self.config_options]

    def set_options(self, event: ConfigOptionUpdate) -> None:
        """All options with their values."""
        self._set_options(event.config_options)

    def whole(self, event: SessionOpened) -> SessionOpened:
        """The event completed by everything that is set."""
        modes = SessionModeState(current_mode_id=self.current_mode_id or "", available_modes=self._modes)
        return structs.replace(
            event,
            modes=modes if self._modes or self.current_mode_id else UNSET,
            config_options=list(self.config_options),
        )

    def _set_options(self, options: list[SessionConfigOption]) -> None:
        if all(option.category != "model" for option in options):
            # An agent of before config options never lists its models again: what was made of them stays.
            options = options + [option for option in self.config_options if pickers.is_legacy(option)]
        self.config_options = options
        option = self._mode_option()
        if option is not None:
            self.current_mode_id = option.current_value

    def _mode_option(self) -> SessionConfigSelect | None:
        for option in self.config_options:
            if isinstance(option, SessionConfigSelect) and option.category == "mode":
                return option
        return None
