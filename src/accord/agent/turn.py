"""`Turn`, the handle a prompt handler works with, and the task that runs it.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from msgspec import UNSET

from accord.agent.agent_session import AgentSession, AgentSessionCore, Command
from accord.agent.client import LOG, ClientPeer, SessionClient, check_valid
from accord.agent.session_updates import Compaction, PlanReporter, Step, Subagent, content_block, plan_entry
from accord.agent.tool_call_scope import (
    ALLOW_OR_REJECT,
    Location,
    PermissionAnswer,
    ToolCallScope,
    ask_permission,
)
from accord.errors import InternalError, RpcError, UsageError
from accord.schema.client_requests import PermissionOption
from accord.schema.codec import encode
from accord.schema.content import (
    ContentBlock,
    PromptRequest,
    PromptResponse,
    StopReason,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallUpdate,
    ToolKind,
)
from accord.schema.updates import (
    AgentMessageChunk,
    AgentThoughtChunk,
    Cost,
    Plan,
    PlanFile,
    PlanItems,
    PlanMarkdown,
    SessionNotification,
    SessionUpdate,
)
from accord.wire.envelope import Notification

if TYPE_CHECKING:
    from accord.agent.client_services import ClientTerminal, CommandResult
    from accord.agent.elicitation import ElicitationAnswer, ElicitationScope, Form, UrlAnswer

HandlerResult: TypeAlias = StopReason | PromptResponse | None
"""The result of a prompt handler: a stop reason (None: `end_turn`), or the whole response."""

_STOP_REASONS: Final = get_args(StopReason)
_TEXT: Final = "text"
"""Stands for the text where the line of a chunk is built. No message id is this word."""

ChunkType: TypeAlias = type[AgentMessageChunk | AgentThoughtChunk]


class Turn:
    """One prompt and its answer. Usable until the prompt is answered."""

    def __init__(self, core: "TurnCore", request: PromptRequest) -> None:
        """Internal: Accord creates a turn for each prompt."""
        self.session: AgentSession = core.session
        self.request: PromptRequest = request
        self.blocks: list[ContentBlock] = request.prompt
        """The content of the prompt: text, links, and the other types that the agent accepts."""
        self._core = core
        self._connection = core.peer.connection
        self._transport = self._connection.transport
        self._translation = core.peer.translation
        self._message_id: str | None = None

    @property
    def message_id(self) -> str:
        """The id of the prompt as a message. A client in version 2 gets it; keep it with a stored session."""
        if self._message_id is None:
            self._message_id = self.session.new_message_id()
        return self._message_id

    @property
    def text(self) -> str:
        """The text blocks of the prompt, joined."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))

    @property
    def command(self) -> tuple[str, str] | None:
        """The slash command and its argument; None if the prompt starts with no offered command."""
        text = next((block.text for block in self.blocks if isinstance(block, TextContent)), "")
        name, rest = (*text.split(None, 1), "", "")[:2]
        if name.startswith("/") and name[1:] in self.session.command_names:
            return name[1:], rest.strip()
        return None

    @property
    def client(self) -> SessionClient:
        """The client: its capabilities, its files, and extension calls."""
        return self.session.client

    @property
    def live(self) -> bool:
        """Whether the prompt is still unanswered."""
        return self._core.live

    @property
    def cancelled(self) -> bool:
        """Whether the client has canceled the turn."""
        return self._core.cancelled

    # -- messages --

    async def say(self, content: str | ContentBlock) -> None:
        """Append to the answer. Waits only while the client reads more slowly than the agent writes.

        Like every call that sends output, it raises ConnectionClosed once the client is gone.
        """
        if self._core.chunk_type is None:  # it may raise; then a caller that tries again blocks nothing
            await self._connection.drain()
        self._append(AgentMessageChunk, content)
        if self._connection.must_drain():
            await self._connection.drain()

    def say_now(self, content: str | ContentBlock) -> None:
        """Append to the answer without waiting. May be called from any thread."""
        self._append_now(AgentMessageChunk, content)

    async def think(self, content: str | ContentBlock) -> None:
        """Append to the reasoning."""
        if self._core.chunk_type is None:  # as in `say`
            await self._connection.drain()
        self._append(AgentThoughtChunk, content)
        if self._connection.must_drain():
            await self._connection.drain()

    def think_now(self, content: str | ContentBlock) -> None:
        """Append to the reasoning without waiting. May be called from any thread."""
        self._append_now(AgentThoughtChunk, content)

    def _append(self, kind: ChunkType, content: str | ContentBlock) -> None:
        core = self._core
        # Within a message nothing is checked: the end of the turn or of the connection resets `chunk_type`.
        if core.chunk_type is not kind and not core.start_message(kind):
            return
        if type(content) is str and self.session.on_update is None:
            head, tail = core.chunk_ends
            if self._translation is None:
                self._transport.send(head + encode(content) + tail)
            else:
                self._translation.send_text(head, encode(content), tail)
            return
        chunk = kind(content_block(content), core.message_id)
        if self.session.on_update is not None:
            self.session.on_update(chunk)
        core.peer.send_update(self.session.id, chunk)

    def _append_now(self, kind: ChunkType, content: str | ContentBlock) -> None:
        block = content_block(content)
        if not self._hand_over(self._append, kind, block):
            self._append(kind, block)

    def _hand_over(self, send: Callable[..., None], *content: Any) -> bool:
        """From another thread, let the event loop send the content, and return True.

        Raises UsageError once the prompt is answered, so that a thread that goes on after a cancel ends.
        """
        if not self._core.peer.in_other_thread:
            return False
        self._core.check_writable()
        return self._core.peer.hand_over(self._send_if_live, send, *content)

    def _send_if_live(self, send: Callable[..., None], *content: Any) -> None:
        if self._core.live:
            send(*content)

    async def say_separately(self, text: str) -> None:
        """Send a separate message.

        Blank lines surround it, because some clients join all messages of a turn.
        """
        await self._connection.drain()
        before = "" if self._core.chunk_type is None else "\n\n"
        self._core.chunk_type = None
        # Without a wait in between: another task may be sending an answer.
        self._append(AgentMessageChunk, f"{before}{text}\n\n")
        self._core.chunk_type = None

    async def update(self, update: SessionUpdate) -> None:
        """Send any update of the session."""
        await self._connection.drain_after(self._core.push, update)

    def push(self, update: SessionUpdate) -> None:
        """Send any update of the session without waiting. May be called from any thread."""
        if self._hand_over(self.push, update):
            return
        self._core.push(update)
        self._connection.check_open()

    async def drain(self) -> None:
        """Wait while the client reads more slowly than the agent writes."""
        await self._connection.drain()

    # -- plans --

    async def plan(self, steps: Iterable[Step], *, id: str | None = None) -> None:
        """Show the complete plan. With an `id` (unstable) it is one of several plans."""
        entries = [plan_entry(step) for step in steps]
        if id is None:
            await self.update(Plan(entries))
        else:
            await self._put_plan(PlanItems(id, entries))

    async def plan_text(self, markdown: str, *, id: str) -> None:
        """Unstable. Show a plan as text. A client with only one plan gets its heading as a step."""
        await self._put_plan(PlanMarkdown(id, markdown))

    async def plan_file(self, uri: str, *, id: str) -> None:
        """Unstable. Show a plan that is stored in a file."""
        await self._put_plan(PlanFile(id, uri))

    async def remove_plan(self, id: str) -> None:
        """Unstable. Remove one of several plans."""
        update = self._core.plans.remove(id, separate=self.client.shows_several_plans)
        if update is not None:
            self._core.push(update)
        await self._connection.drain()

    async def _put_plan(self, plan: PlanItems | PlanMarkdown | PlanFile) -> None:
        await self.update(self._core.plans.put(plan, separate=self.client.shows_several_plans))

    # -- tools --

    def tool_call(
        self,
        title: str,
        *,
        kind: ToolKind | None = None,
        name: str | None = None,
        locations: Iterable[Location] = (),
        raw_input: Any = UNSET,
        start: bool = False,
        cancel: Callable[[], object] | None = None,
    ) -> ToolCallScope:
        """Return an async context manager that shows a tool call. `start` skips the status `pending`.

        `cancel` is called when the user stops this call alone, which only clients in version 2 can do.
        """
        return ToolCallScope(
            self._core,
            title,
            kind=kind,
            name=name,
            locations=locations,
            raw_input=raw_input,
            start=start,
            cancel=cancel,
        )

    async def ask_permission(
        self,
        tool_call: ToolCallScope | ToolCallUpdate,
        options: Sequence[PermissionOption] | None = None,
        *,
        timeout: float | None = None,
    ) -> PermissionAnswer:
        """Ask the user to allow a tool call. The answer is true only for an offered allow option."""
        if isinstance(tool_call, ToolCallScope):
            return await tool_call.ask_permission(options, timeout=timeout)
        return await self._core.ask_permission(tool_call, options, timeout)

    def terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> "ClientTerminal":
        """Return an async context manager that runs a command at the client and releases the terminal."""
        from accord.agent.client_services import ClientTerminal

        self._core.require_live()
        return ClientTerminal(
            self._core.peer,
            self.session,
            command,
            args,
            env=env,
            cwd=cwd,
            output_byte_limit=output_byte_limit,
        )

    async def run(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        timeout: float | None = None,
        call: ToolCallScope | None = None,
    ) -> "CommandResult":
        """Run a command at the client until it ends; kill it after `timeout` seconds. `call` shows it."""
        from accord.agent.client_services import run_terminal

        terminal = self.terminal(command, args, env=env, cwd=cwd, output_byte_limit=output_byte_limit)
        return await run_terminal(terminal, timeout, call)

    # -- questions --

    async def elicit(
        self, message: str, form: "Form", *, call: ToolCallScope | None = None, timeout: float | None = None
    ) -> "ElicitationAnswer":
        """Ask the user with a form. Never ask for secrets; use `elicit_url` for them."""
        from accord.agent.elicitation import ask_form

        self._core.require_live()
        return await ask_form(
            self._core.peer, self.client.can_show_forms, message, form, self._scope(call), timeout
        )

    async def elicit_url(
        self, message: str, url: str, *, call: ToolCallScope | None = None, timeout: float | None = None
    ) -> "UrlAnswer":
        """Ask the user to open a web page, for data that must not pass through the client."""
        from accord.agent.elicitation import ask_url

        self._core.require_live()
        return await ask_url(
            self._core.peer, self.client.can_open_urls, message, url, self._scope(call), timeout
        )

    def _scope(self, call: ToolCallScope | None) -> "ElicitationScope":
        return {"session_id": self.session.id, "tool_call_id": UNSET if call is None else call.id}

    # -- session --

    async def usage(self, used: int, size: int, *, cost: Cost | tuple[float, str] | None = None) -> None:
        """Report the used tokens of the context window."""
        if await self._core.drain():
            await self.session.usage(used, size, cost=cost)

    async def commands(self, commands: Iterable[Command]) -> None:
        """Replace the slash commands on offer."""
        if await self._core.drain():
            await self.session.commands(commands)

    async def title(self, title: str | None) -> None:
        """Set the title of the session; None removes it."""
        if await self._core.drain():
            await self.session.title(title)

    async def notice(self, title: str, description: str | None = None, *, severity: str = "info") -> None:
        """Show a notice. A client without notices gets a separate message of this turn."""
        if await self._core.drain():
            await self.session.notice(title, description, severity=severity)

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode of the session and notify the client."""
        if await self._core.drain():
            await self.session.set_mode(mode_id)

    async def set_option(self, config_id: str, value: str | bool) -> None:
        """Change a config option of the session and notify the client."""
        if await self._core.drain():
            await self.session.set_option(config_id, value)

    def compaction(self) -> Compaction:
        """Return an async context manager that shows a compaction of the context."""
        return self.session.compaction()

    def subagent(self, title: str | None = None, *, cancel: Callable[[], object] | None = None) -> Subagent:
        """Unstable. Show a child session; `cancel` is called when the user stops it."""
        self._core.require_live()
        return self.session.subagent(title, cancel=cancel)


class TurnCore:
    """The state of a turn that its `Turn`, its tool calls and its task share."""

    def __init__(self, session_core: AgentSessionCore, request: PromptRequest) -> None:
        self.peer: ClientPeer = session_core.peer
        self.session: AgentSession = session_core.session
        self.plans: PlanReporter = session_core.plans
        self._session_core = session_core
        self.cancelled: bool = False
        self.chunk_type: ChunkType | None = None
        """The type of the current message. None: the next chunk starts a new message."""
        self.message_id: str = ""
        self.chunk_ends: tuple[bytes, bytes] = (b"", b"")
        """The line of a chunk of the current message, before and behind its text as JSON."""
        self.turn: Turn = Turn(self, request)
        self._state: Literal["live", "answered", "abandoned"] = "live"
        self._open_calls: dict[str, Callable[[], None]] = {}

    @property
    def live(self) -> bool:
        return self._state == "live"

    def require_live(self) -> None:
        if self._state != "live":
            raise UsageError("the turn has ended; its prompt is already answered")

    def check_writable(self) -> bool:
        """Whether output is sent. Output of an abandoned turn is dropped; after an answer it is an error."""
        if self._state == "answered":
            self.require_live()
        return self._state == "live"

    async def drain(self) -> bool:
        """Wait while the client reads slowly; return whether output is sent."""
        await self.peer.connection.drain()
        return self.check_writable()

    def start_message(self, chunk_type: ChunkType) -> bool:
        self.peer.connection.check_open()
        if not self.check_writable():
            return False
        self._session_core.send_held_notices()
        self.chunk_type = chunk_type
        self.message_id = self.session.new_message_id()
        chunk = chunk_type(TextContent(_TEXT), self.message_id)
        line = encode(Notification("session/update", SessionNotification(self.session.id, chunk)))
        head, _, tail = line.rpartition(encode(_TEXT))
        self.chunk_ends = (head, tail)
        return True

    def push(self, update: SessionUpdate) -> None:
        if self.check_writable():
            self.chunk_type = None
            self._session_core.send_held_notices()
            self._session_core.push(update)

    def start_call(self, call: ToolCall, close: Callable[[], None]) -> None:
        """Announce a tool call; `close` ends it if it is still open at the end of the turn."""
        if self.check_writable():
            self.push(call)
            self._open_calls[call.tool_call_id] = close

    def set_cancel(self, tool_call_id: str, cancel: Callable[[], object]) -> None:
        """Let the user stop a tool call alone."""
        if self.peer.takes_events:
            from accord.agent.shown_work import set_cancel

            set_cancel(self._session_core, tool_call_id, cancel)

    def change_call(self, change: ToolCallChange) -> None:
        if self.check_writable():
            self._session_core.push(change)

    def end_call(self, change: ToolCallChange, *, cancelled: bool = False) -> None:
        """Send the last change of a tool call, unless the end of the turn has closed it."""
        send = self.change_call
        if self.peer.takes_events:
            from accord.agent.shown_work import end_call

            send = end_call(self._session_core, change, send, cancelled=cancelled)
        if self._open_calls.pop(change.tool_call_id, None) is not None:
            send(change)

    async def ask_permission(
        self, tool_call: ToolCallUpdate, options: Sequence[PermissionOption] | None, timeout: float | None
    ) -> PermissionAnswer:
        if not await self.drain():
            return PermissionAnswer()
        offered = ALLOW_OR_REJECT if options is None else options
        return await ask_permission(self.peer, self.session.id, tool_call, offered, timeout)

    def close(self, *, abandoned: bool = False) -> None:
        """End the open tool calls and refuse further output; drop it silently if `abandoned`."""
        for close_call in list(self._open_calls.values()):
            close_call()
        self._state = "abandoned" if abandoned else "answered"
        self.chunk_type = None


class TurnTask:
    """Runs the prompt handler in a task of its own and answers the prompt exactly once."""

    def __init__(self, session_core: AgentSessionCore, request: PromptRequest) -> None:
        self._core = core = TurnCore(session_core, request)
        self.turn: Turn = core.turn
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = loop.create_future()
        """Done when the response is queued."""
        self.started: asyncio.Future[None] = loop.create_future()
        """Done when no earlier turn holds this one back."""
        self._ended: asyncio.Future[None] = loop.create_future()
        self._peer = session_core.peer
        self._handler_task: asyncio.Task[HandlerResult] | None = None

    async def wait_for_start(self) -> bool:
        """Wait for the end of the turns before this one; return False if this one was canceled meanwhile.

        A cancellation of the session is answered in the order of the prompts, that of the request at once.
        """
        try:
            await asyncio.wait((self.started,))
        except asyncio.CancelledError:
            self.cancel()
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        if self._core.cancelled:
            self._end()
            self._core.close()
        return not self._core.cancelled

    async def run(
        self, function: Callable[[Turn], Awaitable[HandlerResult] | HandlerResult], *, own: bool = False
    ) -> PromptResponse:
        """Run the handler and return the response. Canceling this cancels the turn; it still returns.

        `own` says that no request of the client asked for the turn.
        """
        if self._peer.translation is not None:
            prompt = self.turn.blocks if own else []
            members = {"prompt": prompt, "messageId": self.turn.message_id}
            self._peer.report_event(self.turn.session.id, "turn_started", members)
        self._handler_task = asyncio.get_running_loop().create_task(_call(function, self.turn))
        self._handler_task.add_done_callback(lambda _: self._end())
        if self._core.cancelled:
            self._handler_task.cancel()
        while not self._ended.done():
            try:
                await asyncio.wait((self._ended,))
            except asyncio.CancelledError:
                self.cancel()
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
        return self._close_and_respond(self._handler_task)

    def cancel(self) -> None:
        """Cancel the handler, once: a second cancellation would disturb its cleanup.

        The prompt is answered after `cancel_grace` seconds at the latest.
        """
        if self._peer.connection.end is not None:
            self._core.chunk_type = None
        if self._core.cancelled or (self._handler_task is not None and self._handler_task.done()):
            return
        self._core.cancelled = True
        if self._handler_task is not None:
            self._handler_task.cancel()
        timer = self._peer.clock.call_later(self._peer.cancel_grace, self._end)
        self._ended.add_done_callback(lambda _: timer.cancel())

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _close_and_respond(self, handler_task: "asyncio.Task[HandlerResult]") -> PromptResponse:
        if not handler_task.done():
            LOG.warning(
                "a canceled turn of session %s does not stop; answered without it", self.turn.session.id
            )
            self._core.close(abandoned=True)
            self._peer.tasks.adopt(handler_task)
            return PromptResponse("cancelled")
        self._core.close()
        if handler_task.cancelled():
            return PromptResponse("cancelled")
        error = handler_task.exception()
        if error is not None and not (self._core.cancelled or isinstance(error, RpcError)):
            LOG.error("the turn of session %s failed", self.turn.session.id, exc_info=error)
        if self._core.cancelled:
            usage = UNSET if error is not None else _usage(handler_task.result())
            return PromptResponse("cancelled", usage=usage)
        if error is not None:
            raise error
        return _response(handler_task.result())


async def _call(function: Callable[[Turn], Any], turn: Turn) -> HandlerResult:
    """Call a prompt handler; a plain function in a thread, so that it cannot block the event loop."""
    from inspect import iscoroutinefunction  # imported here because every start loads this file

    result = function(turn) if iscoroutinefunction(function) else await _run_in_thread(function, turn)
    return await result if hasattr(result, "__await__") else result


async def _run_in_thread(function: Callable[[Turn], Any], turn: Turn) -> Any:
    """Run a function in a daemon thread: one that does not return must not keep the program alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def finish(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        elif isinstance(error, StopIteration):  # a future refuses it
            done.set_exception(RuntimeError("the prompt handler raised StopIteration"))
        else:
            done.set_exception(error)

    def run() -> None:
        result, failure = None, None
        try:
            result = context.run(function, turn)
        except BaseException as error:  # noqa: BLE001 - the turn reports it
            failure = error
        with suppress(RuntimeError):  # the event loop may be closed by now
            loop.call_soon_threadsafe(finish, result, failure)

    context = copy_context()
    Thread(target=run, name=f"accord-prompt-{turn.session.id}", daemon=True).start()
    return await done


def _usage(result: HandlerResult) -> Any:
    return result.usage if isinstance(result, PromptResponse) else UNSET


def _response(result: HandlerResult) -> PromptResponse:
    given = isinstance(result, PromptResponse)
    response = result if given else PromptResponse("end_turn" if result is None else result)
    if not isinstance(response.stop_reason, str) or response.stop_reason not in _STOP_REASONS:
        problem = f"a prompt handler returned {response.stop_reason!r}"[:200]
        problem += f"; use None or one of {', '.join(_STOP_REASONS)}"
        LOG.error(problem)
        raise InternalError(data=problem)
    if response is result:
        check_valid(response)
    return response
