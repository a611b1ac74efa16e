"""`ToolCallScope`: report a tool call and ask permission for it.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, get_args

from msgspec import UNSET

from accord.clock import Clock, within
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
)

if TYPE_CHECKING:
    from accord.agent.client import ClientPeer
    from accord.agent.client_services import ClientTerminal
    from accord.agent.turn import Turn


# MERGED agent.waiting: Work that is given up when it takes too long, measured on the `Clock`.

T = TypeVar("T")


async def limited(work: Coroutine[Any, Any, T], seconds: float | None, clock: Clock) -> T:
    """Do the work; if it takes longer, cancel it and raise TimeoutError."""
    if seconds is None:
        return await work
    task = asyncio.get_running_loop().create_task(work)
    try:
        if await within(clock, seconds, task):
            return task.result()
        raise TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        elif not task.cancelled():
            task.exception()  # if we are cancelled ourselves just then, nobody asks how it ended


# MERGED agent.permission: Asking for permission. Only an allow option that was offered and selected is a yes; everything else is a no.

ALLOW_OR_REJECT: Final = (
    PermissionOption("allow", "Allow", "allow_once"),
    PermissionOption("reject", "Reject", "reject_once"),
)


class PermissionAnswer:
    """What came of a question. True only for a yes."""

    def __init__(
        self,
        option: PermissionOption | None = None,
        reason: Literal["selected", "cancelled", "timeout", "failed"] = "cancelled",
        error: AccordError | None = None,
        word: str = "",
    ) -> None:
        self.option = option
        """The option that was selected; it may be a rejection."""
        self.reason = reason
        """`cancelled` stands for every answer that selects nothing that was offered."""
        self.error = error
        """Why the question failed, where it did."""
        self.word = word
        """What was said along with a no, for the model: why, or what to do instead. Empty if nothing was."""

    @property
    def allowed(self) -> bool:
        """Whether an offered allow option was selected."""
        return self.option is not None and self.option.kind in ("allow_once", "allow_always")

    @property
    def always(self) -> bool:
        """Whether the answer is meant for the next times as well, be it a yes or a no."""
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
    """Put the question to the client and wait for the answer."""
    _check(options)
    params = RequestPermissionRequest(session_id, tool_call, list(options))
    read = peer.reader.outcome_reader(options)
    question = peer.ask("session/request_permission", params, key=session_id, read=read)
    try:
        outcome = await limited(question, timeout, peer.clock)
    except TimeoutError:
        return PermissionAnswer(reason="timeout")
    except (RpcError, BadAnswer, ConnectionClosed) as error:
        return PermissionAnswer(reason="failed", error=error)
    chosen = next((option for option in options if option.option_id == outcome.option_id), None)
    return PermissionAnswer(chosen, "cancelled" if chosen is None else "selected", word=outcome.word)


def _check(options: Sequence[PermissionOption]) -> None:
    ids = [option.option_id for option in options]
    if not ids or len(set(ids)) != len(ids):
        raise UsageError(f"a permission needs options, each with an id of its own; got {ids}")


# MERGED agent.toolcall: A tool call as the client sees it: pending, in progress, then completed or failed; what it shows is resent in full.

Location: TypeAlias = "ToolCallLocation | str | PathLike[str] | tuple[str | PathLike[str], int]"
"""A file, possibly with a line; relative paths are taken from the session's directory."""

_KINDS = frozenset(get_args(ToolKind))


class ToolCallScope:
    """`async with turn.tool_call(...) as call:`. The end of the block ends the call."""

    def __init__(
        self,
        turn: "Turn",
        title: str,
        *,
        kind: ToolKind | None = None,
        name: str | None = None,
        locations: Iterable[Location] = (),
        raw_input: Any = UNSET,
        start: bool = False,
    ) -> None:
        if kind is not None and kind not in _KINDS:
            raise UsageError(f"{kind!r} is no kind of tool call; the kinds are {', '.join(sorted(_KINDS))}")
        self.id = turn.session.ids.tool_call()
        self.status: ToolCallStatus | None = None
        """None until the call is announced."""
        self._turn = turn
        self._content: list[ToolCallContent] = []
        self._refused = False
        self._first = ToolCall(
            self.id,
            title,
            UNSET if kind is None else kind,
            "in_progress" if start else "pending",
            locations=[self._location(place) for place in locations] or UNSET,
            raw_input=raw_input,
            name=UNSET if name is None else name,
        )

    async def __aenter__(self) -> "ToolCallScope":
        if self.status is not None:
            raise UsageError(
                f"tool call {self.id} was already used; each call needs a `turn.tool_call` of its own"
            )
        self.status = "in_progress" if self._first.status == "in_progress" else "pending"
        self._turn.announce(self, self._first)
        await self._turn.drain()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    # -- how far it is ------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether it was announced and has not ended."""
        return self.status in ("pending", "in_progress")

    async def start(self) -> None:
        """The work begins. Harmless when it has."""
        if self.status == "pending":
            self.status = "in_progress"
            await self._change(ToolCallChange(self.id, status="in_progress"))

    async def fail(self, reason: str | None = None) -> None:
        """It ends as failed, with the reason as what it shows last."""
        if self.open:
            self._end("failed", reason)
            await self._turn.drain()
        elif self._turn.live:
            raise UsageError(f"tool call {self.id} has ended as {self.status}; it cannot fail any more")

    async def finish(
        self,
        *,
        content: Iterable[ToolCallContent] | None = None,
        raw_output: Any = UNSET,
        locations: Iterable[Location] | None = None,
        failed: bool = False,
    ) -> None:
        """End it with everything that came of it, in one message. What is left out stays as it is shown."""
        if not self.open:
            if self._turn.live:
                raise UsageError(f"tool call {self.id} is not open; it has ended as {self.status}")
            return
        if self.status == "pending":
            self._turn.tell(ToolCallChange(self.id, status="in_progress"))
        change = ToolCallChange(self.id, raw_output=raw_output)
        if content is not None:
            self._content = list(content)
            change.content = self._content
        if locations is not None:
            change.locations = [self._location(place) for place in locations]
        self.status = change.status = "failed" if failed else "completed"
        self._turn.ended(self, change)
        await self._turn.drain()

    def close(self, error: BaseException | None = None) -> None:
        """End it, unless it has ended: completed, or failed after an error or a refused permission."""
        if not self.open:
            return
        if isinstance(error, asyncio.CancelledError):
            self._end("failed", None)
        elif error is not None:
            self._end("failed", str(error) or type(error).__name__)
        elif self._refused:
            self._end("failed", None)
        else:
            if self.status == "pending":
                self._turn.tell(ToolCallChange(self.id, status="in_progress"))
            self._end("completed", None)

    def _end(self, status: ToolCallStatus, reason: str | None) -> None:
        self.status = status
        change = ToolCallChange(self.id, status=status)
        if reason is not None:
            self._content.append(Content(TextContent(reason)))
            change.content = self._content
        self._turn.ended(self, change)

    # -- what it shows ------------------------------------------------------------------------------------------

    async def text(self, text: str) -> None:
        """Show some text, after what is shown already."""
        await self._show(Content(TextContent(text)))

    async def content(self, *blocks: ContentBlock) -> None:
        """Show content blocks, after what is shown already."""
        await self._show(*(Content(block) for block in blocks))

    async def diff(self, path: "str | PathLike[str]", *, old: str | None, new: str) -> None:
        """Show a change of a file; `old=None` means that the file is new."""
        await self._show(Diff(self._turn.session.path(path), new, old))

    async def terminal(self, terminal: "ClientTerminal") -> None:
        """Show a terminal live. It stays visible after its release, but must be shown before."""
        if terminal.released:
            raise UsageError(f"terminal {terminal.id} was released; show it in the tool call before that")
        await self._show(Terminal(terminal.id))

    async def replace(self, content: Iterable[ToolCallContent]) -> None:
        """Show this instead of what is shown."""
        self._content = list(content)
        await self._change(ToolCallChange(self.id, content=self._content))

    async def locations(self, *places: Location) -> None:
        """The files it is about, so that an editor can follow along; replaces those before."""
        await self._change(ToolCallChange(self.id, locations=[self._location(place) for place in places]))

    async def title(self, title: str) -> None:
        """Name it differently."""
        await self._change(ToolCallChange(self.id, title=title))

    async def raw_input(self, value: Any) -> None:
        """What the tool was called with, as JSON."""
        await self._change(ToolCallChange(self.id, raw_input=value))

    async def raw_output(self, value: Any) -> None:
        """What the tool gave back, as JSON."""
        await self._change(ToolCallChange(self.id, raw_output=value))

    async def ask_permission(
        self, options: Sequence[PermissionOption] | None = None, *, timeout: float | None = None
    ) -> PermissionAnswer:
        """Ask whether it may run, showing what it shows now. A yes starts it; after a no it ends as failed."""
        if self._turn.live and not self.open:
            raise UsageError(f"tool call {self.id} is not open; ask inside its `async with` block")
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
        answer = await self._turn.ask_permission(question, options, timeout=timeout)
        self._refused = not answer
        if answer:
            await self.start()
        return answer

    async def _show(self, *content: ToolCallContent) -> None:
        self._content += content
        await self._change(ToolCallChange(self.id, content=self._content))

    async def _change(self, change: ToolCallChange) -> None:
        if self.status is None:
            raise UsageError(
                f"tool call {self.id} is not announced yet; use it inside its `async with` block"
            )
        self._turn.tell(change)
        await self._turn.drain()

    def _location(self, place: Location) -> ToolCallLocation:
        path, line = place if isinstance(place, tuple) else (place, None)
        if isinstance(path, ToolCallLocation):
            path, line = path.path, path.line or None
        if line is not None and line < 1:
            raise UsageError(f"lines count from 1: {path}:{line}")
        return ToolCallLocation(self._turn.session.path(path), UNSET if line is None else line)
