"""The settings on a screen: what is chosen counts at once and is written to the file."""

from typing import TYPE_CHECKING, Any, cast

from accord.errors import UsageError
from accord.tui.lists.rows import Row
from accord.tui.lists.screen import ListScreen
from accord.tui.settings.file import settings_file, write_setting
from accord.tui.settings.table import SETTINGS, Setting, Settings, values_of
from accord.tui.words import first_line

if TYPE_CHECKING:
    from accord.tui.app import ChatApp


class SettingsScreen(ListScreen):
    """All of them, with what they are."""

    HINT = "Enter changes · Esc closes"

    def __init__(self, settings: Settings) -> None:
        super().__init__("Settings", _rows(settings))
        self.add_class("small")

    def on_mount(self) -> None:
        super().on_mount()
        self.tell(str(settings_file()))

    async def take(self, row: Row) -> None:
        setting: Setting = row.value
        now = getattr(self._chat.settings, setting.name)
        if isinstance(now, bool):
            self._set(setting, not now)
            return
        rows = [Row(value, value, means, current=value == now) for value, means in values_of(setting).items()]
        screen = ListScreen(setting.title, rows)
        screen.add_class("small")

        def chosen(value: Any) -> None:
            if value is not None:
                self._set(setting, value)

        self._chat.push_screen(screen, chosen)

    def _set(self, setting: Setting, value: str | bool) -> None:
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


def _rows(settings: Settings) -> list[Row]:
    return [Row(one, one.title, one.help, right=_word(getattr(settings, one.name))) for one in SETTINGS]


def _word(value: str | bool) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else value
