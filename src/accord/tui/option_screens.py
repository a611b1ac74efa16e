"""Screens to pick model, mode and options of the agent, and the user's settings.

Imported on first use.
"""

from typing import TYPE_CHECKING, Any, cast

from accord.errors import AccordError, UsageError
from accord.safe_text import clean_line
from accord.tui.chat_settings import (
    SETTINGS,
    ChatSetting,
    ChatSettings,
    settings_file,
    values_of,
    write_setting,
)
from accord.tui.list_screen import ListRow, ListScreen
from accord.tui.theme import first_line

if TYPE_CHECKING:
    from accord.client import ClientSession
    from accord.session import Picker
    from accord.tui.chat_app import ChatApp


# MERGED tui.pickers: What the agent lets the user set: its model, its mode, and every other option. What it refuses is told in one line.


def pick(app: "ChatApp", category: str) -> None:
    """The values of the option of this category: `model` or `mode`."""
    session = _session(app)
    if session is None:
        return
    picker = next((one for one in session.state.settings.pickers if one.category == category), None)
    if picker is None:
        app.notify(f"The agent lets nobody choose a {category}", severity="warning")
    elif isinstance(picker.current, bool):
        app.push_screen(OptionsScreen(session))
    else:
        app.push_screen(ValuesScreen(session, picker))


def pick_option(app: "ChatApp") -> None:
    """Everything that can be set in the session."""
    session = _session(app)
    if session is None:
        return
    if session.state.settings.pickers:
        app.push_screen(OptionsScreen(session))
    else:
        app.notify("The agent has nothing to set", severity="warning")


def _session(app: "ChatApp") -> "ClientSession | None":
    conversation = app.view.conversation
    if conversation is None or conversation.session is None or conversation.phase in ("dead", "failed"):
        app.notify("There is no session yet", severity="warning")
        return None
    return conversation.session


class SettingScreen(ListScreen):
    """A list whose rows are sent to the agent."""

    def __init__(self, session: "ClientSession", title: str, rows: list[ListRow]) -> None:
        super().__init__(title, rows)
        self.add_class("small")
        self.session = session

    def send(self, picker: "Picker", value: str | bool) -> None:
        """Ask the agent to set it; what it says to that is shown here."""
        self.tell("Asking the agent…")
        self.run_worker(self._send(picker, value), group="send", exclusive=True)

    async def _send(self, picker: "Picker", value: str | bool) -> None:
        try:
            await self.session.choose(picker, value)
        except AccordError as error:
            self.tell(f"{picker.name} is as it was: {first_line(error)}", bad=True)
        else:
            self.done()

    def done(self) -> None:
        """It is set."""
        self.dismiss(None)


class ValuesScreen(SettingScreen):
    """The values of one option, in the agent's groups."""

    def __init__(self, session: "ClientSession", picker: "Picker") -> None:
        self._picker = picker
        rows = [
            ListRow(
                choice.value,
                choice.name or choice.value,
                choice.description,
                group=choice.group,
                current=choice.value == picker.current,
                also=choice.value,
            )
            for choice in picker.choices
        ]
        super().__init__(session, picker.name or picker.id, rows)

    async def take(self, row: ListRow) -> None:
        self.send(self._picker, row.value)


class OptionsScreen(SettingScreen):
    """Every option with what it is set to. A switch is turned on the spot, of others the values are listed."""

    HINT = "Enter changes · Esc closes"

    def __init__(self, session: "ClientSession") -> None:
        super().__init__(session, "Options of the agent", _rows_of(session))

    async def take(self, row: ListRow) -> None:
        picker = next((one for one in self.session.state.settings.pickers if one.id == row.value), None)
        if picker is None:
            self.tell(f"The agent does not list {row.name} any more", bad=True)
        elif isinstance(picker.current, bool):
            self.send(picker, not picker.current)
        else:
            self.app.push_screen(ValuesScreen(self.session, picker), self._back)  # pyright: ignore[reportUnknownMemberType]

    def _back(self, _: Any) -> None:
        self.done()

    def done(self) -> None:
        self.tell("")
        self.show_rows(_rows_of(self.session))


def _rows_of(session: "ClientSession") -> list[ListRow]:
    return [
        ListRow(picker.id, picker.name or picker.id, picker.description, right=_value(picker), also=picker.id)
        for picker in session.state.settings.pickers
    ]


def _value(picker: "Picker") -> str:
    if isinstance(picker.current, bool):
        return "on" if picker.current else "off"
    names = {choice.value: choice.name for choice in picker.choices}
    return clean_line(names.get(picker.current) or picker.current)[:40]


# MERGED tui.settings.screen: The settings on a screen: what is chosen counts at once and is written to the file.


class SettingsScreen(ListScreen):
    """All of them, with what they are."""

    HINT = "Enter changes · Esc closes"

    def __init__(self, settings: ChatSettings) -> None:
        super().__init__("Settings", _rows(settings))
        self.add_class("small")

    def on_mount(self) -> None:
        super().on_mount()
        self.tell(str(settings_file()))

    async def take(self, row: ListRow) -> None:
        setting: ChatSetting = row.value
        now = getattr(self._chat.settings, setting.name)
        if isinstance(now, bool):
            self._set(setting, not now)
            return
        rows = [
            ListRow(value, value, means, current=value == now) for value, means in values_of(setting).items()
        ]
        screen = ListScreen(setting.title, rows)
        screen.add_class("small")

        def chosen(value: Any) -> None:
            if value is not None:
                self._set(setting, value)

        self._chat.push_screen(screen, chosen)

    def _set(self, setting: ChatSetting, value: str | bool) -> None:
        self._chat.set_setting(setting.name, value)
        self.show_rows(_rows(self._chat.settings))
        try:
            write_setting(setting.key, value)
        except UsageError as error:
            self.tell(first_line(error), bad=True)
        else:
            self.tell(f"Written to {settings_file()}")

    @property
    def _chat(self) -> "ChatApp":
        return cast("ChatApp", self.app)  # pyright: ignore[reportUnknownMemberType]


def _rows(settings: ChatSettings) -> list[ListRow]:
    return [ListRow(one, one.title, one.help, right=_word(getattr(settings, one.name))) for one in SETTINGS]


def _word(value: str | bool) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else value
