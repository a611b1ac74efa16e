"""`ToolCallScope`: report a tool call and ask permission for it.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from msgspec import UNSET

from accord.agent.client import check_valid
from accord.clock import with_timeout
from accord.errors import AccordError, BadAnswer, ConnectionClosed, RpcError, UsageError
from accord.schema.client_requests import PermissionOption, RequestPermissionRequest
from accord.schema.content import (
    Content,
    ContentBlock,
    Diff,
    Terminal,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    code_block,
)

if TYPE_CHECKING:
    from accord.agent.client import ClientPeer
    from accord.agent.client_services import ClientTerminal
    from accord.agent.shown_work import AgentTerminal
    from accord.agent.turn import TurnCore


Location: TypeAlias = "ToolCallLocation | str | PathLike[str] | tuple[str | PathLike[str], int]"
"""A file, possibly with a line. Relative paths start at the directory of the session."""


ALLOW_OR_REJECT: Final[tuple[PermissionOption, ...]] = (
    PermissionOption("allow", "Allow", "allow_once"),
    PermissionOption("reject", "Reject", "reject_once"),
)


class ToolCallScope:
    """`async with turn.tool_call(...) as call:`. The end of the block ends the call.

    Every change of the content sends the complete content again, as the protocol requires.
    """

    def __init__(
        self,
        turn: "TurnCore",
        title: str,
        *,
        kind: ToolKind | None = None,
        name: str | None = None,
        locations: Iterable[Location] = (),
        raw_input: Any = UNSET,
        start: bool = False,
        cancel: Callable[[], object] | None = None,
    ) -> None:
        self.id: str = turn.session.new_tool_call_id()
        self.status: ToolCallStatus | None = None
        """None until the block is entered."""
        self._turn = turn
        self._content: list[ToolCallContent] = []
        self._rejected = False
        self._cancel = cancel
        self._first = ToolCall(
            self.id,
            title,
            UNSET if kind is None else kind,
            "in_progress" if start else "pending",
            locations=[self._location(location) for location in locations] or UNSET,
            raw_input=raw_input,
            name=UNSET if name is None else name,
        )

    async def __aenter__(self) -> "ToolCallScope":
        if self.status is not None:
            raise UsageError(f"tool call {self.id} was already used; create another with `turn.tool_call`")
        self.status = "in_progress" if self._first.status == "in_progress" else "pending"
        start = partial(self._turn.start_call, close=lambda: self._close(asyncio.CancelledError()))
        await self._turn.peer.connection.drain_after(start, self._first)
        if self._cancel is not None:
            self._turn.set_cancel(self.id, self._cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(error)

    # -- status --

    @property
    def open(self) -> bool:
        """Whether the call has begun and not ended."""
        return self.status in ("pending", "in_progress")

    async def start(self) -> None:
        """Set the status to `in_progress`. Does nothing if it already is."""
        if self.status == "pending":
            self.status = "in_progress"
            self._turn.change_call(ToolCallChange(self.id, status="in_progress"))
        await self._turn.session.drain()

    async def fail(self, reason: str | None = None) -> None:
        """End the call as failed and append the reason to its content."""
        if self.open:
            self._end("failed", reason)
        elif self._turn.live:
            raise UsageError(f"tool call {self.id} has already ended as {self.status}; cannot fail it")
        await self._turn.session.drain()

    async def finish(
        self,
        *,
        content: Iterable[ToolCallContent] | None = None,
        raw_output: Any = UNSET,
        locations: Iterable[Location] | None = None,
        failed: bool = False,
    ) -> None:
        """End the call and set its results in one message. Fields that are left out do not change."""
        if not self.open:
            if self._turn.live:
                raise UsageError(f"tool call {self.id} is not open (status {self.status}); cannot finish it")
            await self._turn.session.drain()
            return
        if self.status == "pending":
            self._turn.change_call(ToolCallChange(self.id, status="in_progress"))
        change = ToolCallChange(self.id, raw_output=raw_output)
        if content is not None:
            change.content = list(content)
        if locations is not None:
            change.locations = [self._location(location) for location in locations]
        change.status = "failed" if failed else "completed"
        check_valid(change)  # before the call counts as ended
        self.status = change.status
        self._turn.end_call(change)
        await self._turn.session.drain()

    def _close(self, error: BaseException | None) -> None:
        """End the call if it is open: as failed after an error or a rejection, otherwise as completed."""
        if not self.open:
            return
        if isinstance(error, asyncio.CancelledError):
            self._end("failed", None, cancelled=True)
        elif error is not None:
            self._end("failed", str(error) or type(error).__name__)
        elif self._rejected:
            self._end("failed", None)
        else:
            if self.status == "pending":
                self._turn.change_call(ToolCallChange(self.id, status="in_progress"))
            self._end("completed", None)

    def _end(self, status: ToolCallStatus, reason: str | None, *, cancelled: bool = False) -> None:
        self.status = status
        change = ToolCallChange(self.id, status=status)
        if reason is not None:
            change.content = [*self._content, Content(TextContent(str(reason)))]
        self._turn.end_call(change, cancelled=cancelled)

    # -- content --

    async def text(self, text: str) -> None:
        """Append text to the content."""
        await self._append(Content(TextContent(text)))

    async def content(self, *blocks: ContentBlock) -> None:
        """Append content blocks."""
        await self._append(*(Content(block) for block in blocks))

    async def diff(self, path: "str | PathLike[str]", *, old: str | None, new: str) -> None:
        """Append the change of a file; `old=None` means that the file is new."""
        await self._append(Diff(self._turn.session.path(path), new, old))

    async def terminal(self, terminal: "ClientTerminal | AgentTerminal") -> None:
        """Append a live terminal. Call this before its release; it stays visible afterwards.

        A client that cannot show a terminal of the agent gets its output as text, at its end.
        """
        if terminal.released:
            raise UsageError(f"terminal {terminal.id} is already released; show it in the tool call earlier")
        shows_nothing = getattr(terminal, "shown", True) is False
        if shows_nothing:
            cast("AgentTerminal", terminal).when_ended(self._append_output)
        else:
            await self._append(Terminal(terminal.id))

    async def _append_output(self, text: str) -> None:
        if self.open and text.strip():
            await self._append(code_block(text))

    async def replace(self, content: Iterable[ToolCallContent]) -> None:
        """Replace the content."""
        await self._change(ToolCallChange(self.id, content=list(content)))

    async def locations(self, *locations: Location) -> None:
        """Replace the locations: the files that an editor may open to follow the call."""
        await self._change(
            ToolCallChange(self.id, locations=[self._location(location) for location in locations])
        )

    async def title(self, title: str) -> None:
        """Change the title."""
        await self._change(ToolCallChange(self.id, title=title))

    async def raw_input(self, value: Any) -> None:
        """Set the input of the tool, as JSON."""
        await self._change(ToolCallChange(self.id, raw_input=value))

    async def raw_output(self, value: Any) -> None:
        """Set the output of the tool, as JSON."""
        await self._change(ToolCallChange(self.id, raw_output=value))

    async def ask_permission(
        self, options: Sequence[PermissionOption] | None = None, *, timeout: float | None = None
    ) -> "PermissionAnswer":
        """Ask the user to allow the call. Starts it if allowed; otherwise it ends as failed."""
        if self._turn.live and not self.open:
            raise UsageError(
                f"tool call {self.id} is not open; ask for permission inside its `async with` block"
            )
        first = self._first
        question = ToolCallUpdate(
            self.id,
            title=first.title,
            kind=first.kind,
            locations=first.locations,
            raw_input=first.raw_input,
        )
        if self._content:
            question.content = self._content
        answer = await self._turn.ask_permission(question, options, timeout)
        self._rejected = not answer
        if answer:
            await self.start()
        return answer

    async def _append(self, *content: ToolCallContent) -> None:
        await self._change(ToolCallChange(self.id, content=[*self._content, *content]))

    async def _change(self, change: ToolCallChange) -> None:
        if self.status is None:
            raise UsageError(f"tool call {self.id} has not begun; use it inside its `async with` block")
        self._turn.change_call(change)  # it may raise; then the content stays as it was
        if isinstance(change.content, list):
            self._content = change.content
        await self._turn.session.drain()

    def _location(self, location: Location) -> ToolCallLocation:
        path, line = location if isinstance(location, tuple) else (location, None)
        if isinstance(path, ToolCallLocation):
            path, line = path.path, path.line or None
        if line is not None and line < 1:
            raise UsageError(f"invalid line {path}:{line}; lines count from 1")
        return ToolCallLocation(self._turn.session.path(path), UNSET if line is None else line)


class PermissionAnswer:
    """The answer to a permission request. True only if an offered allow option was selected."""

    def __init__(
        self,
        option: PermissionOption | None = None,
        reason: Literal["selected", "cancelled", "timeout", "failed"] = "cancelled",
        error: AccordError | None = None,
        message: str = "",
    ) -> None:
        self.option: PermissionOption | None = option
        """The selected option, which may be a rejection."""
        self.reason: Literal["selected", "cancelled", "timeout", "failed"] = reason
        """`cancelled` also covers answers that select an option that was not offered."""
        self.error: AccordError | None = error
        """The error if the request failed."""
        self.message: str = message
        """The user's comment on a rejection, for the model. Empty if there is none."""

    @property
    def allowed(self) -> bool:
        """Whether an offered allow option was selected."""
        return self.option is not None and self.option.kind in ("allow_once", "allow_always")

    @property
    def always(self) -> bool:
        """Whether the user selected an "always" option, to allow or to reject."""
        return self.option is not None and self.option.kind in ("allow_always", "reject_always")

    def __bool__(self) -> bool:
        return self.allowed

    def __repr__(self) -> str:
        return f"PermissionAnswer(allowed={self.allowed}, reason={self.reason!r}, option={self.option!r})"


async def ask_permission(
    peer: "ClientPeer",
    session_id: str,
    tool_call: ToolCallUpdate,
    options: Sequence[PermissionOption],
    timeout: float | None,
) -> PermissionAnswer:
    """Send a permission request to the client and wait for the answer."""
    _check_options(options)
    params = RequestPermissionRequest(session_id, tool_call, list(options))
    read = peer.reader.outcome_reader(options)
    request = peer.call("session/request_permission", params, key=session_id, read=read)
    try:
        outcome = await with_timeout(request, timeout, peer.clock)
    except TimeoutError:
        return PermissionAnswer(reason="timeout")
    except (RpcError, BadAnswer, ConnectionClosed) as error:
        return PermissionAnswer(reason="failed", error=error)
    selected = next((option for option in options if option.option_id == outcome.option_id), None)
    return PermissionAnswer(
        selected, "cancelled" if selected is None else "selected", message=outcome.message
    )


def _check_options(options: Sequence[PermissionOption]) -> None:
    ids = [option.option_id for option in options]
    if not ids or len(set(ids)) != len(ids):
        raise UsageError(f"permission options need distinct ids, and at least one option; got {ids}")
