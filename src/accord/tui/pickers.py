"""What the agent lets the user set: its model, its mode, and every other option. What it refuses is told in one line."""

from typing import TYPE_CHECKING, Any

from accord.cleaning import clean_line
from accord.errors import AccordError
from accord.tui.lists.rows import Row
from accord.tui.lists.screen import ListScreen
from accord.tui.words import first_line

if TYPE_CHECKING:
    from accord.client import ClientSession
    from accord.session import Picker
    from accord.tui.app import ChatApp


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

    def __init__(self, session: "ClientSession", title: str, rows: list[Row]) -> None:
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
            Row(
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

    async def take(self, row: Row) -> None:
        self.send(self._picker, row.value)


class OptionsScreen(SettingScreen):
    """Every option with what it is set to. A switch is turned on the spot, of others the values are listed."""

    HINT = "Enter changes · Esc closes"

    def __init__(self, session: "ClientSession") -> None:
        super().__init__(session, "Options of the agent", _rows_of(session))

    async def take(self, row: Row) -> None:
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


def _rows_of(session: "ClientSession") -> list[Row]:
    return [
        Row(picker.id, picker.name or picker.id, picker.description, right=_value(picker), also=picker.id)
        for picker in session.state.settings.pickers
    ]


def _value(picker: "Picker") -> str:
    if isinstance(picker.current, bool):
        return "on" if picker.current else "off"
    names = {choice.value: choice.name for choice in picker.choices}
    return clean_line(names.get(picker.current) or picker.current)[:40]
