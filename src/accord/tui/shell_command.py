"""`!command`: a command of the user's own, run in the session's folder, its output in the conversation. The agent sees nothing of it
unless the user hands it over.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from accord.tui.chat_types import Attachment
from accord.tui.parts.tool_parts import CallPart, OutputPart
from accord.tui.theme import count
from accord.tui.transcript.transcript_layout import Item

if TYPE_CHECKING:
    from accord.workspace.terminals import ExitStatus, Terminals

_LONGEST: Final = 100_000
"""Characters that are handed over; of more, the end."""


class ShellItem(Item):
    """A command that the user runs."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.command = command
        self.running = True
        self._pieces: list[str] = []
        self._head = CallPart()
        self._head.how, self._head.kind, self._head.title = "in_progress", "execute", f"! {command}"
        self._output = OutputPart()
        self.parts = [self._head, self._output]

    def printed(self, text: str) -> None:
        """It printed this."""
        self._pieces.append(text)

    def ended(self, how: str) -> None:
        """It has; `how` is empty for well."""
        self.running = False
        self._head.how = "failed" if how else "completed"
        self._output.ended = how
        self._head.forget()
        self._output.forget()

    def refresh(self) -> bool:
        text = "".join(self._pieces)[-_LONGEST * 2 :]
        self._pieces = [text]
        if text != self._output.text:
            self._output.text = text
            self._output.forget()
        return True

    def toggle(self) -> bool:
        self._output.folded = not self._output.folded
        self._output.forget()
        return True

    @property
    def text(self) -> str:
        return self._output.text

    def attachment(self) -> Attachment:
        """What is handed to the agent."""
        from accord.safe_text import clean_text

        self.refresh()
        text = clean_text(self._output.text).strip("\n")[-_LONGEST:]
        ended = f"\n({self._output.ended})" if self._output.ended else ""
        name = f"! {self.command[:30]} ({count(text.count(chr(10)) + 1, 'line')})"
        return Attachment(name, text=f"$ {self.command}\n```\n{text}\n```{ended}")


class ShellCommands:
    """Runs commands, one or several at once, each in a terminal of its own."""

    def __init__(self, cwd: str, changed: Callable[[ShellItem], None]) -> None:
        self._cwd = cwd
        self._changed = changed
        self._terminals: Terminals | None = None
        self._items: dict[str, ShellItem] = {}
        self._early: dict[str, list[str]] = {}

    async def run(self, item: ShellItem) -> None:
        """Run it to its end."""
        from accord.errors import RpcError
        from accord.workspace.terminal_command import TerminalCommand

        terminals = self._open()
        try:
            terminal_id = await terminals.create(TerminalCommand(item.command, cwd=self._cwd))
            self._items[terminal_id] = item
            for text in self._early.pop(terminal_id, ()):
                item.printed(text)
            status = await terminals.wait(terminal_id)
            await terminals.release(terminal_id)
            item.ended(_how(status))
        except RpcError as error:
            item.ended(str(error))
        self._changed(item)

    async def stop(self) -> bool:
        """End what runs; whether anything did."""
        running = [terminal_id for terminal_id, item in self._items.items() if item.running]
        for terminal_id in running:
            await self._open().kill(terminal_id)
        return bool(running)

    async def aclose(self) -> None:
        """End everything."""
        if self._terminals is not None:
            await self._terminals.aclose()

    def _open(self) -> "Terminals":
        from accord.workspace.roots import Roots
        from accord.workspace.terminals import Terminals

        if self._terminals is None:
            self._terminals = Terminals(Roots(self._cwd), on_output=self._printed)
        return self._terminals

    def _printed(self, terminal_id: str, text: str) -> None:
        item = self._items.get(terminal_id)
        if item is None:
            self._early.setdefault(terminal_id, []).append(text)
            return
        item.printed(text)
        self._changed(item)


def _how(status: "ExitStatus") -> str:
    if status.signal:
        return f"signal {status.signal}"
    return f"exit code {status.exit_code}" if status.exit_code else ""
