"""The life of one agent as the client knows it: started, agreed with, perhaps dead and started again, closed.

Everything that outlasts a single process is here: the sessions, what is offered, and the tasks that belong to them.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeAlias

from accord.client.agent_connection import ConnectionSetup, InitializedConnection
from accord.client.agent_requests import AgentRequestRoutes
from accord.client.client_events import AgentEnded, AgentEvent, AgentRestarted
from accord.client.client_options import ClientOptions, DialectReport, Restarts, bounded
from accord.client.client_session import ClientSession, SessionSetup
from accord.client.elicitation_forms import ElicitationRequests
from accord.client.event_stream import EventQueue, UnreadCounter
from accord.client.handlers import AgentCommand, ClientHandlers
from accord.client.session_registry import SessionRegistry, reattach
from accord.clock import within
from accord.errors import AccordError, ConnectionClosed, HandshakeFailed, RequestTimeout, UsageError
from accord.schema.message_reader import MessageReader
from accord.wire.calls import ConnectionReport
from accord.wire.remote.address import RemoteLauncher
from accord.wire.transport import Transport, TransportEnd

Source: TypeAlias = AgentCommand | RemoteLauncher | Transport
"""Where the connection comes from: a program or an address, which can be had again, or a transport, which can not."""


class AgentHandle:
    """One agent, from `start` to `aclose`."""

    def __init__(self, source: Source, handlers: ClientHandlers, options: ClientOptions) -> None:
        self.source = source
        self.handlers = handlers
        self.options = options
        self.asking = 0
        """Requests of the agent that wait for the user."""
        self.sessions = SessionRegistry(self.report)
        self.elicitations = ElicitationRequests(self)
        self._reader = MessageReader(
            strict=options.strict, report=self._dialect, active_session=self.sessions.active
        )
        self._routes = AgentRequestRoutes(self, self._reader)
        self._restarts = Restarts(options.restart, options.clock)
        self._restarting: asyncio.Task[Any] | None = None
        self._link: InitializedConnection | None = None
        self._failure: AccordError | None = None  # why the latest restart did not work
        self._dead: AgentEnded | None = None  # what the agent's latest end was, until it lives again
        self._closing = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._listeners: tuple[EventQueue[AgentEvent], ...] = ()

    @property
    def link(self) -> InitializedConnection:
        """The connection of the moment; it may have ended."""
        assert self._link is not None, "the handle is given out once the agent has started"
        return self._link

    @property
    def name(self) -> str:
        """What to call the agent: what it calls itself, or the program's name."""
        info = self._link.agreed.agent_info if self._link is not None else None
        if info:
            return info.title or info.name
        return self._program

    @property
    def remote(self) -> bool:
        """Whether the agent is at an address, not a program that was started here."""
        return isinstance(self.source, RemoteLauncher)

    @property
    def _program(self) -> str:
        return str(self.source) if isinstance(self.source, AgentCommand | RemoteLauncher) else "the agent"

    async def start(self) -> None:
        """Start the agent for the first time."""
        self._link = await self._open()

    async def ready(self) -> InitializedConnection:
        """The connection to call on: waits while the agent is being started again."""
        while self._restarting is not None and not self._restarting.done():
            await asyncio.wait([self._restarting])
        if self._closing:
            raise UsageError("the connection to the agent was closed by this side")
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        return self.link

    async def restart(self) -> None:
        """Start the program again, or connect again, and take the sessions up again."""
        if not isinstance(self.source, AgentCommand | RemoteLauncher):
            raise UsageError(
                "this agent cannot be restarted: it was not started here, but handed over as a transport"
            )
        if self._restarting is None or self._restarting.done():
            self._restarting = self.own(self._restart())
        await asyncio.shield(self._restarting)

    async def aclose(self) -> None:
        """End the agent and everything that belongs to it. Bounded; harmless twice."""
        self._closing = True
        if self._restarting is not None:
            self._restarting.cancel()
        if self._link is not None:
            await self._link.aclose()
        for session in self.sessions:
            await session.shut("this side closed the connection")
        for task in self._tasks:
            task.cancel()
        leftovers = asyncio.gather(*self._tasks, return_exceptions=True)
        await within(self.options.clock, self.options.buffers.grace, leftovers)
        for inbox in self._listeners:
            inbox.close()

    # -- one process after the other ----------------------------------------------------------------------------

    async def _open(self) -> InitializedConnection:
        opened: list[InitializedConnection] = []

        async def opening() -> InitializedConnection:
            transport = await self._transport()
            link = InitializedConnection(transport, self._wiring())
            opened.append(link)
            self.sessions.ledger.move_to(link.connection)
            can_rerun = isinstance(self.source, AgentCommand)
            await link.handshake(self.handlers.capabilities(self.options.features, can_rerun=can_rerun))
            return link

        def expired() -> Exception:
            if opened:
                return opened[0].startup_expired()
            return RequestTimeout(
                f"{self._program} could not be {'reached' if self.remote else 'started'} within {self.options.limits.startup:g} s"
            )

        try:
            return await bounded(opening(), expired, self.options.clock, self.options.limits.startup)
        except BaseException:
            for link in opened:
                await link.aclose()
            raise

    async def _transport(self) -> Transport:
        transport = self.source
        if isinstance(transport, AgentCommand | RemoteLauncher):
            transport = await transport.start(self.options.on_stderr, self.options.largest_message)
        if self.options.wrap is None:
            return transport
        try:
            return self.options.wrap(transport)
        except BaseException:
            await transport.aclose()
            raise

    def _wiring(self) -> ConnectionSetup:
        return ConnectionSetup(
            name=self._program,
            options=self.options,
            reader=self._reader,
            requests=self._routes.requests,
            notifications=self._routes.notifications,
            asking=lambda: self.asking > 0,
            ended=self._link_ended,
        )

    def _link_ended(self, link: InitializedConnection, end: TransportEnd) -> None:
        if link is not self._link or link.closing:
            return
        self._tell_end(link.death(end))
        self.elicitations.forget()
        if self._restarting is not None and not self._restarting.done():
            return  # it died again while its sessions were taken up; that attempt fails by itself
        pause = (
            self._restarts.next_pause() if isinstance(self.source, AgentCommand | RemoteLauncher) else None
        )
        if pause is not None:
            self._restarting = self.own(self._restart_after(pause))

    async def _restart_after(self, pause: float | None) -> None:
        while pause is not None:
            await self.options.clock.sleep(pause)
            try:
                await self._restart()
            except AccordError as error:
                self._tell_end(
                    error
                    if isinstance(error, ConnectionClosed)
                    else HandshakeFailed(f"not restarted: {error}")
                )
                pause = self._restarts.next_pause()
            else:
                return

    async def _restart(self) -> None:
        try:
            await self._start_over()
        except AccordError as error:
            self._failure = error
            raise
        self._failure = None

    async def _start_over(self) -> None:
        await self.link.aclose()
        for session in self.sessions:
            if session.parent is not None:
                await session.shut("its parent's agent was restarted")
        self._link = link = await self._open()
        self._dead = None
        self._restarts.count += 1
        self.tell_everybody(AgentRestarted(self._restarts.count))
        for session in self.sessions:
            if session.parent is None and session.lost is None:
                await reattach(self, session, link)

    # -- who is told --------------------------------------------------------------------------------------------

    def _tell_end(self, error: ConnectionClosed) -> None:
        self._dead = event = AgentEnded(error)
        for session in self.sessions:
            session.agent_ended(event)
        self.tell(event)

    def tell_everybody(self, event: "AgentEnded | AgentRestarted") -> None:
        """An event of the agent that its sessions hear of, too."""
        for session in self.sessions:
            session.tell(event)
        self.tell(event)

    def tell(self, event: AgentEvent) -> None:
        """An event of the agent, for those who listen to it."""
        for inbox in self._listeners:
            inbox.put(event, 0)

    def listen(self) -> EventQueue[AgentEvent]:
        """A queue that hears the events of the agent from now on."""
        inbox: EventQueue[AgentEvent] = EventQueue(UnreadCounter())
        if self._dead is not None:
            inbox.put(self._dead, 0)
        if self._closing:
            inbox.close()
        self._listeners += (inbox,)
        return inbox

    def leave(self, inbox: EventQueue[AgentEvent]) -> None:
        """This queue hears nothing more."""
        self._listeners = tuple(other for other in self._listeners if other is not inbox)

    def child_announced(self, parent: ClientSession, session_id: str) -> None:
        """A session told of a child: from now on the child's own updates and requests are served."""
        if session_id != parent.id and self.sessions.find(session_id) is None:
            cwd, extra = parent.state.roots_of(session_id) or (parent.setup.cwd, [])
            self.sessions.add(ClientSession(self, session_id, SessionSetup(cwd, tuple(extra)), parent))

    def report(self, what: str) -> None:
        """Something that was survived on this side."""
        self.options.observe(ConnectionReport("failed", what))

    def _dialect(self, row: int, text: str) -> None:
        self.options.observe(DialectReport(row, text))

    def own(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start some work that ends, at the latest, with this agent."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for the task has it; the loop need not complain that nobody looked
