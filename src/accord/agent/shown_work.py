"""What an agent shows to clients in version 2: its own terminals, and what can be stopped alone.

Imported on first use.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from accord.errors import InvalidParams, UsageError
from accord.schema.content import ToolCallChange
from accord.session.terminal_state import MAX_OUTPUT

if TYPE_CHECKING:
    from accord.agent.agent_session import AgentSessionCore
    from accord.agent.builtin_methods import BuiltinMethods

SendChange: TypeAlias = Callable[[ToolCallChange], None]


class AgentTerminal:
    """A terminal that the agent shows: `async with session.show_terminal("make") as terminal:`.

    A client in version 1 cannot show it. There, a tool call that contains it gets its output at the end.
    """

    def __init__(
        self, core: "AgentSessionCore", command: str, cwd: str | None, cancel: Callable[[], object] | None
    ) -> None:
        """Internal: use `AgentSession.show_terminal`."""
        self.id: str = f"terminal-{core.ids.message()}"
        self.command: str = command
        self.cwd: str | None = cwd
        self._core = core
        self._cancel = cancel
        self._output = b""
        self._ended = False
        self._listeners: list[Callable[[str], Awaitable[None]]] = []

    @property
    def shown(self) -> bool:
        """Whether the client shows terminals of the agent."""
        return self._core.peer.takes_events

    @property
    def released(self) -> bool:
        """Whether the command has ended."""
        return self._ended

    async def __aenter__(self) -> "AgentTerminal":
        members: dict[str, Any] = {"command": self.command, "cwd": self.cwd or self._core.session.cwd}
        if self._cancel is not None:
            self._core.cancels[self.id] = self._cancel
            members["cancellable"] = True
        await self._send(**members)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            await self.exit(0 if error is None else None, None if error is None else "SIGTERM")

    async def print(self, output: str | bytes) -> None:
        """Show more output."""
        if self._ended:
            raise UsageError(f"the terminal {self.id} has ended; it cannot print")
        data = output.encode() if isinstance(output, str) else output
        if not self.shown:
            self._output = (self._output + data)[-MAX_OUTPUT:]
        await self._send(append=b64encode(data).decode("ascii"))

    async def exit(self, exit_code: int | None = 0, signal: str | None = None) -> None:
        """Show how the command ended: its exit code, or the signal that ended it."""
        self._ended = True
        self._core.cancels.pop(self.id, None)
        await self._send(exit={"exitCode": exit_code, "signal": signal}, cancellable=False)
        for listener in self._listeners:
            await listener(self._output.decode(errors="replace"))

    def when_ended(self, listener: Callable[[str], Awaitable[None]]) -> None:
        """Call a function with the output at the end, for a client that cannot show the terminal."""
        self._listeners.append(listener)

    async def _send(self, **members: Any) -> None:
        core = self._core
        core.peer.report_event(core.session.id, "terminal_changed", {"terminalId": self.id, **members})
        await core.session.drain()


def set_cancel(core: "AgentSessionCore", tool_call_id: str, cancel: Callable[[], object]) -> None:
    """Let the user stop a tool call alone."""
    core.cancels[tool_call_id] = cancel
    _report_call(core, tool_call_id, cancellable=True)


def end_call(
    core: "AgentSessionCore", change: ToolCallChange, send: SendChange, *, cancelled: bool
) -> SendChange:
    """Report that a tool call cannot be stopped anymore. Return the function that sends its last change.

    A canceled call is logged as failed, which is the word of version 1.
    """

    def send_cancelled(change: ToolCallChange) -> None:
        if core.session.on_update is not None:
            core.session.on_update(change)
        _report_call(core, change.tool_call_id, mark="cancelled")

    if core.cancels.pop(change.tool_call_id, None) is not None:
        _report_call(core, change.tool_call_id, cancellable=False)
    return send_cancelled if cancelled else send


def _report_call(core: "AgentSessionCore", tool_call_id: str, **members: object) -> None:
    members["patch"] = {"toolCallId": tool_call_id}
    core.peer.report_event(core.session.id, "tool_call_changed", members)


async def cancel_item(methods: "BuiltinMethods", name: str, params: Any) -> dict[str, Any]:
    """Stop a tool call or a terminal. Raises InvalidParams unless it can be stopped."""
    session = methods.session(str(params.get("sessionId", "")))
    cancel = session.cancels.get(str(params.get(name, "")))
    if cancel is None:
        raise InvalidParams(f"{name}: nothing to cancel")
    result = cancel()
    if isinstance(result, Awaitable):
        await result
    return {}
