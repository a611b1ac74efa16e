"""Screens for the model, the mode and the options of the agent, and for the settings of the user.

Imported on first use.
"""

from typing import TYPE_CHECKING, Any, ClassVar, cast

from accord.errors import AccordError, UsageError
from accord.frontend.display_text import error_line
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

if TYPE_CHECKING:
    from accord.client import ClientSession
    from accord.session import Picker
    from accord.tui.chat_app import ChatApp


def open_values(app: "ChatApp", category: str, text: str = "") -> None:
    """Open the values of the option of a category, `model` or `mode`, filtered by a text."""
    session = _current_session(app)
    if session is None:
        return
    picker = next((picker for picker in session.state.settings.pickers if picker.category == category), None)
    if picker is None:
        app.notify(f"The agent does not offer a choice of {category}s", severity="warning")
    elif isinstance(picker.current, bool):
        app.push_screen(OptionsScreen(session))
    else:
        screen = ValuesScreen(session, picker)
        screen.filter_input.value = text
        app.push_screen(screen)


def choose_theme(app: "ChatApp", text: str = "") -> None:
    """Use the theme of this name, or let the user choose one."""
    setting = next(setting for setting in SETTINGS if setting.key == "theme")
    values = values_of(setting)

    def use(name: Any) -> None:
        if name is None:
            return
        app.set_setting(setting.name, name)
        try:
            write_setting(setting.key, name)
        except UsageError as error:
            app.notify(error_line(error), severity="error")

    if text in values:
        use(text)
        return
    rows = [
        ListRow(value, value, about, current=value == app.settings.theme) for value, about in values.items()
    ]
    screen = ListScreen("Theme", rows)
    screen.filter_input.value = text
    app.push_screen(screen, use)


def open_options(app: "ChatApp") -> None:
    """Open all options of the session."""
    session = _current_session(app)
    if session is None:
        return
    if session.state.settings.pickers:
        app.push_screen(OptionsScreen(session))
    else:
        app.notify("The agent has no options", severity="warning")


def _current_session(app: "ChatApp") -> "ClientSession | None":
    chat_session = app.view.chat_session
    if (
        chat_session is None
        or chat_session.session is None
        or chat_session.phase in ("lost", "dead", "failed")
    ):
        app.notify("No session is open", severity="warning")
        return None
    return chat_session.session


class SettingScreen(ListScreen):
    """A list whose choice is sent to the agent."""

    def __init__(self, session: "ClientSession", title: str, rows: list[ListRow]) -> None:
        super().__init__(title, rows)
        self.add_class("small")
        self.session = session

    def send(self, picker: "Picker", value: str | bool) -> None:
        """Send a value to the agent and show an error, if any."""
        self.show_message("Waiting for the agent…")
        self.run_worker(self._send(picker, value), group="send", exclusive=True)

    async def _send(self, picker: "Picker", value: str | bool) -> None:
        try:
            await self.session.choose(picker, value)
        except AccordError as error:
            self.show_message(f"{picker.name} was not changed: {error_line(error)}", bad=True)
        else:
            self.on_changed()

    def on_changed(self) -> None:
        """Called when the agent has accepted the value."""
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
                search_text=choice.value,
            )
            for choice in picker.choices
        ]
        super().__init__(session, picker.name or picker.id, rows)

    async def choose(self, row: ListRow) -> None:
        self.send(self._picker, row.value)


class OptionsScreen(SettingScreen):
    """All options with their values. Enter toggles a boolean, or opens the values of a select."""

    ENTER_HINT: ClassVar[str] = "change"

    def __init__(self, session: "ClientSession") -> None:
        super().__init__(session, "Agent options", _option_rows(session))

    async def choose(self, row: ListRow) -> None:
        picker = next(
            (picker for picker in self.session.state.settings.pickers if picker.id == row.value), None
        )
        if picker is None:
            self.show_message(f"The agent no longer offers {row.name}", bad=True)
        elif isinstance(picker.current, bool):
            self.send(picker, not picker.current)
        else:
            values = ValuesScreen(self.session, picker)
            self.app.push_screen(values, self._value_chosen)  # pyright: ignore[reportUnknownMemberType]

    def _value_chosen(self, _: Any) -> None:
        self.on_changed()

    def on_changed(self) -> None:
        self.show_message("")
        self.show_rows(_option_rows(self.session))


def _option_rows(session: "ClientSession") -> list[ListRow]:
    return [
        ListRow(
            picker.id,
            picker.name or picker.id,
            picker.description,
            right=_current_label(picker),
            search_text=picker.id,
        )
        for picker in session.state.settings.pickers
    ]


def _current_label(picker: "Picker") -> str:
    if isinstance(picker.current, bool):
        return "on" if picker.current else "off"
    names = {choice.value: choice.name for choice in picker.choices}
    return clean_line(names.get(picker.current) or picker.current)[:40]


class SettingsScreen(ListScreen):
    """The settings of the user. A choice applies immediately and is written to the file."""

    ENTER_HINT: ClassVar[str] = "change"

    def __init__(self, settings: ChatSettings) -> None:
        super().__init__("Settings", _setting_rows(settings))
        self.add_class("small")

    def on_mount(self) -> None:
        super().on_mount()
        self.show_message(str(settings_file()))

    async def choose(self, row: ListRow) -> None:
        setting: ChatSetting = row.value
        current = getattr(self._chat.settings, setting.name)
        if isinstance(current, bool):
            self._set(setting, not current)
            return
        rows = [
            ListRow(value, value, label, current=value == current)
            for value, label in values_of(setting).items()
        ]
        screen = ListScreen(setting.title, rows)
        screen.add_class("small")

        def on_choice(value: Any) -> None:
            if value is not None:
                self._set(setting, value)

        self._chat.push_screen(screen, on_choice)

    def _set(self, setting: ChatSetting, value: str | bool) -> None:
        self._chat.set_setting(setting.name, value)
        self.show_rows(_setting_rows(self._chat.settings))
        try:
            write_setting(setting.key, value)
        except UsageError as error:
            self.show_message(error_line(error), bad=True)
        else:
            self.show_message(f"Written to {settings_file()}")

    @property
    def _chat(self) -> "ChatApp":
        return cast("ChatApp", self.app)  # pyright: ignore[reportUnknownMemberType]


def _setting_rows(settings: ChatSettings) -> list[ListRow]:
    return [
        ListRow(setting, setting.title, setting.help, right=_value_label(getattr(settings, setting.name)))
        for setting in SETTINGS
    ]


def _value_label(value: str | bool) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else value
