"""`Turn`, the handle a prompt handler works with, and the task that runs it.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from msgspec import UNSET

from accord.agent.agent_session import AgentSession, Command
from accord.agent.client import LOG, ClientPeer, SessionClient
from accord.agent.session_updates import Compaction, Step, Subagent, block_of, entries
from accord.agent.tool_call_scope import (
    ALLOW_OR_REJECT,
    Location,
    PermissionAnswer,
    ToolCallScope,
    ask_permission,
)
from accord.errors import InternalError, RpcError, UsageError
from accord.schema.client_requests import PermissionOption
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

if TYPE_CHECKING:
    from accord.agent.client_services import ClientTerminal, CommandResult
    from accord.agent.elicitation import ElicitationAnswer, ElicitationScope, Form, UrlAnswer


# MERGED agent.turn: One prompt turn, as the code that answers it sees it: what was asked, and everything it can say and do about it.


class Turn:
    """A prompt and its answer in the making. Usable until the prompt is answered."""

    def __init__(self, peer: ClientPeer, session: AgentSession, request: PromptRequest) -> None:
        self.session = session
        self.request = request
        self.blocks: list[ContentBlock] = request.prompt
        """What the user sent: text, links, and what else the agent accepts."""
        self.cancelled = False
        """Whether the client has asked to stop."""
        self._peer = peer
        self._connection = peer.connection
        self._notify = peer.connection.notify
        self._state: Literal["live", "answered", "dropped"] = "live"
        self._voice: type[AgentMessageChunk | AgentThoughtChunk] | None = None
        self._message_id = ""
        self._calls: dict[str, ToolCallScope] = {}

    @property
    def text(self) -> str:
        """The text blocks of the prompt, joined."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))

    @property
    def command(self) -> tuple[str, str] | None:
        """The slash command that the prompt begins with, and what follows it; None if it is none of the session's."""
        text = next((block.text for block in self.blocks if isinstance(block, TextContent)), "")
        name, rest = (*text.split(None, 1), "", "")[:2]
        if name.startswith("/") and name[1:] in self.session.known_commands:
            return name[1:], rest.strip()
        return None

    @property
    def client(self) -> SessionClient:
        """The client: what it can do, its files, and extension calls."""
        return self.session.client

    @property
    def live(self) -> bool:
        """Whether the prompt is still unanswered."""
        return self._state == "live"

    # -- saying things ------------------------------------------------------------------------------------------

    async def say(self, content: str | ContentBlock) -> None:
        """Add a piece to the answer. Waits only while the client reads more slowly than this agent writes."""
        self.say_now(content)
        await self._connection.drain()

    def say_now(self, content: str | ContentBlock) -> None:
        """Add a piece to the answer, without waiting."""
        if self._voice is not AgentMessageChunk and not self._speak(AgentMessageChunk):
            return
        chunk = AgentMessageChunk(block_of(content), self._message_id)
        if self.session.listener is not None:
            self.session.listener(chunk)
        self._notify("session/update", SessionNotification(self.session.id, chunk))

    async def think(self, content: str | ContentBlock) -> None:
        """Add a piece to the agent's reasoning."""
        self.think_now(content)
        await self._connection.drain()

    def think_now(self, content: str | ContentBlock) -> None:
        """Add a piece to the agent's reasoning, without waiting."""
        if self._voice is not AgentThoughtChunk and not self._speak(AgentThoughtChunk):
            return
        chunk = AgentThoughtChunk(block_of(content), self._message_id)
        if self.session.listener is not None:
            self.session.listener(chunk)
        self._notify("session/update", SessionNotification(self.session.id, chunk))

    async def aside(self, text: str) -> None:
        """Say something as a message of its own, apart from what is being said.

        Blank lines set it apart, too: some clients put all messages of a turn behind each other.
        """
        before = "" if self._voice is None else "\n\n"
        self._voice = None
        await self.say(f"{before}{text}\n\n")
        self._voice = None

    async def update(self, update: SessionUpdate) -> None:
        """Send any update of the session."""
        self.push(update)
        await self._connection.drain()

    def push(self, update: SessionUpdate) -> None:
        """Send any update of the session, without waiting."""
        if self._usable():
            self._voice = None
            self.session.push(update)

    async def drain(self) -> None:
        """Wait while the client reads more slowly than this agent writes."""
        await self._connection.drain()

    # -- plans --------------------------------------------------------------------------------------------------

    async def plan(self, steps: Iterable[Step], *, id: str | None = None) -> None:
        """Show the plan, all of it, every time. With an `id` (unstable) it is one of several."""
        listed = entries(steps)
        if id is None:
            await self.update(Plan(listed))
        else:
            await self._put_plan(PlanItems(id, listed))

    async def plan_text(self, markdown: str, *, id: str) -> None:
        """Unstable. Show a plan as text. A client that shows only one plan gets its heading as a step."""
        await self._put_plan(PlanMarkdown(id, markdown))

    async def plan_file(self, uri: str, *, id: str) -> None:
        """Unstable. Show a plan that is kept in a file."""
        await self._put_plan(PlanFile(id, uri))

    async def drop_plan(self, id: str) -> None:
        """Unstable. Take one of several plans away."""
        update = self.session.plans.remove(id, several=self.client.shows_plans)
        if update is not None:
            await self.update(update)

    async def _put_plan(self, plan: PlanItems | PlanMarkdown | PlanFile) -> None:
        await self.update(self.session.plans.put(plan, several=self.client.shows_plans))

    # -- tools --------------------------------------------------------------------------------------------------

    def tool_call(
        self,
        title: str,
        *,
        kind: ToolKind | None = None,
        name: str | None = None,
        locations: Iterable[Location] = (),
        raw_input: Any = UNSET,
        start: bool = False,
    ) -> ToolCallScope:
        """A tool call, as an async context manager. It is pending until it starts, unless `start` is set."""
        return ToolCallScope(
            self, title, kind=kind, name=name, locations=locations, raw_input=raw_input, start=start
        )

    async def ask_permission(
        self,
        tool_call: ToolCallScope | ToolCallUpdate,
        options: Sequence[PermissionOption] | None = None,
        *,
        timeout: float | None = None,
    ) -> PermissionAnswer:
        """Ask whether a tool call may run. The answer is true only for an offered allow option."""
        if not self._usable():
            return PermissionAnswer()
        if isinstance(tool_call, ToolCallScope):
            return await tool_call.ask_permission(options, timeout=timeout)
        offered = ALLOW_OR_REJECT if options is None else options
        return await ask_permission(self._peer, self.session.id, tool_call, offered, timeout)

    def terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> "ClientTerminal":
        """A command run by the client, as an async context manager that always releases it."""
        from accord.agent.client_services import ClientTerminal

        self._must_be_live()
        return ClientTerminal(
            self._peer, self.session, command, args, env=env, cwd=cwd, output_byte_limit=output_byte_limit
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
        """Run a command at the client from start to end; one that takes longer than `timeout` is killed."""
        from accord.agent.client_services import run_terminal

        terminal = self.terminal(command, args, env=env, cwd=cwd, output_byte_limit=output_byte_limit)
        return await run_terminal(terminal, timeout, call)

    # -- questions ----------------------------------------------------------------------------------------------

    async def elicit(
        self, message: str, form: "Form", *, call: ToolCallScope | None = None, timeout: float | None = None
    ) -> "ElicitationAnswer":
        """Ask the user by a form. Never for secrets: those need `elicit_url`."""
        from accord.agent.elicitation import ask_form

        self._must_be_live()
        return await ask_form(
            self._peer, self.client.can_show_forms, message, form, self._scope(call), timeout
        )

    async def elicit_url(
        self, message: str, url: str, *, call: ToolCallScope | None = None, timeout: float | None = None
    ) -> "UrlAnswer":
        """Ask the user to open a web page, for whatever must not pass through the client."""
        from accord.agent.elicitation import ask_url

        self._must_be_live()
        return await ask_url(self._peer, self.client.can_open_urls, message, url, self._scope(call), timeout)

    def _scope(self, call: ToolCallScope | None) -> "ElicitationScope":
        return {"session_id": self.session.id, "tool_call_id": UNSET if call is None else call.id}

    # -- about the session --------------------------------------------------------------------------------------

    async def usage(self, used: int, size: int, *, cost: Cost | tuple[float, str] | None = None) -> None:
        """Report how full the context window is, in tokens."""
        if self._usable():
            await self.session.usage(used, size, cost=cost)

    async def commands(self, commands: Iterable[Command]) -> None:
        """Offer these slash commands, and no others."""
        if self._usable():
            await self.session.commands(commands)

    async def title(self, title: str | None) -> None:
        """Name the session; None takes the name away."""
        if self._usable():
            await self.session.title(title)

    async def notice(self, title: str, description: str | None = None, *, severity: str = "info") -> None:
        """Tell the user something of the moment. A client without notices gets it as a message of its own."""
        if self._usable():
            await self.session.notice(title, description, severity=severity)

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode of the session; the client is told."""
        if self._usable():
            await self.session.set_mode(mode_id)

    async def set_option(self, config_id: str, value: str | bool) -> None:
        """Change a config option of the session; the client is told."""
        if self._usable():
            await self.session.set_option(config_id, value)

    def compaction(self) -> Compaction:
        """Show that the context is being compacted, as an async context manager."""
        return self.session.compaction()

    def subagent(self, title: str | None = None, *, cancel: Callable[[], object] | None = None) -> Subagent:
        """Unstable. A child session, shown to clients that can; `cancel` is called when the user stops it."""
        self._must_be_live()
        return self.session.subagent(title, cancel=cancel)

    # -- for the tool calls and the course of the turn ----------------------------------------------------------

    def announce(self, call: ToolCallScope, first: ToolCall) -> None:
        """A tool call begins."""
        if self._usable():
            self.push(first)
            self._calls[call.id] = call

    def tell(self, change: ToolCallChange) -> None:
        """A tool call changed."""
        if self._usable():
            self.session.push(change)

    def ended(self, call: ToolCallScope, last: ToolCallChange) -> None:
        """A tool call is over. Nothing is left to say where the turn has closed it already."""
        if self._calls.pop(call.id, None) is not None:
            self.tell(last)

    def close(self, *, dropped: bool = False) -> None:
        """The answer is next: what is still open fails. `dropped` code that goes on is no longer listened to."""
        for call in list(self._calls.values()):
            call.close(asyncio.CancelledError())
        self._state = "dropped" if dropped else "answered"
        self._voice = None

    def _speak(self, voice: type[AgentMessageChunk | AgentThoughtChunk]) -> bool:
        if not self._usable():
            return False
        self._voice = voice
        self._message_id = self.session.ids.message()
        return True

    def _usable(self) -> bool:
        if self._state == "answered":
            self._must_be_live()
        return self._state == "live"

    def _must_be_live(self) -> None:
        if self._state != "live":
            raise UsageError("the turn is over: its prompt is answered, and nothing can be added to it")


# MERGED agent.course: The course of a turn: the application's code runs in a task of its own, and the prompt is answered, once, in any case.

TurnResult: TypeAlias = StopReason | PromptResponse | None
"""What the code of a turn gives: why it stopped (None: the turn is done), or the whole answer."""

_REASONS: Final = frozenset(get_args(StopReason))


class TurnTask:
    """One prompt being worked on, from its start to its answer."""

    def __init__(self, peer: ClientPeer, turn: Turn) -> None:
        self.turn = turn
        loop = asyncio.get_running_loop()
        self.answered: asyncio.Future[None] = loop.create_future()
        """Done once the answer is on its way."""
        self._over: asyncio.Future[None] = loop.create_future()
        self._peer = peer
        self._work: asyncio.Task[TurnResult] | None = None

    async def run(self, function: Callable[[Turn], Awaitable[TurnResult] | TurnResult]) -> PromptResponse:
        """Do the work and return the answer. Cancelling this cancels the turn; it still returns."""
        self._work = asyncio.get_running_loop().create_task(_done(function, self.turn))
        self._work.add_done_callback(lambda _: self._end())
        if self.turn.cancelled:
            self._work.cancel()
        while not self._over.done():
            try:
                await asyncio.wait((self._over,))
            except asyncio.CancelledError:
                self.cancel()
                if (task := asyncio.current_task()) is not None:
                    task.uncancel()
        return self._answer(self._work)

    def cancel(self) -> None:
        """Stop the work. Once: a second cancellation would only disturb its cleaning up. Bounded."""
        if self.turn.cancelled or (self._work is not None and self._work.done()):
            return
        self.turn.cancelled = True
        if self._work is not None:
            self._work.cancel()
        timer = self._peer.clock.call_later(self._peer.grace, self._end)
        self._over.add_done_callback(lambda _: timer.cancel())

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _answer(self, work: "asyncio.Task[TurnResult]") -> PromptResponse:
        if not work.done():
            LOG.warning(
                "a cancelled turn of session %s does not stop; answered without it", self.turn.session.id
            )
            self.turn.close(dropped=True)
            self._peer.adopt(work)
            return PromptResponse("cancelled")
        self.turn.close()
        if work.cancelled():
            return PromptResponse("cancelled")
        error = work.exception()
        if error is not None and not (self.turn.cancelled or isinstance(error, RpcError)):
            LOG.error("the turn of session %s failed", self.turn.session.id, exc_info=error)
        if self.turn.cancelled:
            return PromptResponse("cancelled", usage=UNSET if error is not None else _usage(work.result()))
        if error is not None:
            raise error
        return _response(work.result())


async def _done(function: Callable[[Turn], Any], turn: Turn) -> TurnResult:
    result = function(turn)
    return await result if hasattr(result, "__await__") else result


def _usage(result: TurnResult) -> Any:
    return result.usage if isinstance(result, PromptResponse) else UNSET


def _response(result: TurnResult) -> PromptResponse:
    response = (
        result
        if isinstance(result, PromptResponse)
        else PromptResponse("end_turn" if result is None else result)
    )
    if not isinstance(response.stop_reason, str) or response.stop_reason not in _REASONS:
        LOG.error(
            "a turn gave %r; a stop reason is one of %s", response.stop_reason, ", ".join(sorted(_REASONS))
        )
        raise InternalError(data="the agent gave no valid stop reason")
    return response
