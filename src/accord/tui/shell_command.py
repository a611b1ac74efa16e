"""`!command`: runs a shell command of the user and shows its output in the transcript.

The agent sees nothing of it unless the user attaches the output to a prompt.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from accord.text_width import count_text
from accord.tui.chat_types import Attachment
from accord.tui.parts.part import DrawnPart
from accord.tui.parts.tool_parts import CallPart, OutputPart
from accord.tui.transcript.transcript_layout import Item

if TYPE_CHECKING:
    from accord.workspace.terminals import ExitStatus, Terminals

_MAX_ATTACHED: Final = 100_000
"""Characters that are attached; of longer output, the end."""


class ShellItem(Item):
    """A shell command in the transcript."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.command = command
        self.running: bool = True
        self._pieces: list[str] = []
        self._head = CallPart()
        self._head.status, self._head.kind, self._head.title = "in_progress", "execute", f"! {command}"
        self._output = OutputPart()
        self.parts: list[DrawnPart] = [self._head, self._output]

    def add_output(self, text: str) -> None:
        self._pieces.append(text)

    def finish(self, error: str) -> None:
        """Mark the command as ended; `error` is empty if it succeeded."""
        self.running = False
        self._head.status = "failed" if error else "completed"
        self._output.exit_text = error
        self._head.invalidate()
        self._output.invalidate()

    def refresh(self) -> bool:
        text = "".join(self._pieces)[-_MAX_ATTACHED * 2 :]
        self._pieces = [text]
        if text != self._output.text:
            self._output.text = text
            self._output.invalidate()
        return True

    def toggle(self) -> bool:
        self._output.folded = not self._output.folded
        self._output.invalidate()
        return True

    @property
    def text(self) -> str:
        return self._output.text

    def attachment(self) -> Attachment:
        """Return the output as an attachment of a prompt."""
        from accord.safe_text import clean_text

        self.refresh()
        text = clean_text(self._output.text).strip("\n")[-_MAX_ATTACHED:]
        exit_line = f"\n({self._output.exit_text})" if self._output.exit_text else ""
        name = f"! {self.command[:30]} ({count_text(text.count(chr(10)) + 1, 'line')})"
        return Attachment(name, text=f"$ {self.command}\n```\n{text}\n```{exit_line}")


class ShellCommands:
    """Runs commands, each in its own terminal."""

    def __init__(self, cwd: str, changed: Callable[[ShellItem], None]) -> None:
        self._cwd = cwd
        self._changed = changed
        self._terminals: Terminals | None = None
        self._items: dict[str, ShellItem] = {}
        self._early_output: dict[str, list[str]] = {}

    async def run(self, item: ShellItem) -> None:
        """Run a command until it ends."""
        from accord.errors import RpcError
        from accord.workspace.terminal_command import TerminalCommand

        terminals = self._open_terminals()
        try:
            terminal_id = await terminals.create(TerminalCommand(item.command, cwd=self._cwd))
            self._items[terminal_id] = item
            for text in self._early_output.pop(terminal_id, ()):
                item.add_output(text)
            status = await terminals.wait(terminal_id)
            await terminals.release(terminal_id)
            item.finish(_exit_error(status))
        except RpcError as error:
            item.finish(str(error))
        self._changed(item)

    async def stop(self) -> bool:
        """Kill the running commands; return whether there were any."""
        running = [terminal_id for terminal_id, item in self._items.items() if item.running]
        for terminal_id in running:
            await self._open_terminals().kill(terminal_id)
        return bool(running)

    async def aclose(self) -> None:
        if self._terminals is not None:
            await self._terminals.aclose()

    def _open_terminals(self) -> "Terminals":
        from accord.workspace.roots import Roots
        from accord.workspace.terminals import Terminals

        if self._terminals is None:
            self._terminals = Terminals(Roots(self._cwd), on_output=self._output_received)
        return self._terminals

    def _output_received(self, terminal_id: str, text: str) -> None:
        item = self._items.get(terminal_id)
        if item is None:
            self._early_output.setdefault(terminal_id, []).append(text)
            return
        item.add_output(text)
        self._changed(item)


def _exit_error(status: "ExitStatus") -> str:
    if status.signal:
        return f"signal {status.signal}"
    return f"exit code {status.exit_code}" if status.exit_code else ""
