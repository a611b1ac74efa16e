"""One session with one agent: connects, signs in, sends prompts, follows events, restarts.

Reports to a `SessionDisplay`; the state of the session itself is in the client.

Imported on first use: it loads accord.client.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from accord.client import (
    AgentEnded,
    ClientEvent,
    ClientSession,
    RemoteAgent,
)
from accord.client.event_stream import EventStream
from accord.client.remote_agent import PendingAgent
from accord.clock import Clock, OwnedTasks, within
from accord.errors import AccordError, AuthRequired, RpcError, UsageError
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.recording import Recorder
from accord.frontend.rewind import RewindTarget
from accord.frontend.session_choice import SessionChoice, apply_settings, copy_settings, supported_servers
from accord.frontend.sign_in import clear_error, failure_hints
from accord.frontend.stored_sessions import full_session_id
from accord.schema import (
    ContentBlock,
)
from accord.schema.content import text_of_blocks
from accord.session import (
    Event,
    TurnCancelling,
    TurnEnded,
)
from accord.trace import FrameRing
from accord.tui.chat_types import ChatStart, Draft, DraftQueue, Phase, SessionDisplay
from accord.tui.session_rewinds import SessionRewinds
from accord.tui.session_setup import ConnectionOptions, prompt_blocks, restore_history, sign_in

if TYPE_CHECKING:
    from accord.tui.question_dialogs import DialogHandler


_RECONNECT_PAUSES: Final = (1.0, 2.0, 5.0, 10.0)
"""Seconds before each further attempt to reach a lost gateway; the last one repeats."""
_REFUSED: Final = ("(HTTP 401)", "(HTTP 403)")
_YIELD_AFTER: Final = 100
"""Number of events after which other tasks, such as key presses, may run."""


class ChatSession:
    """One tab's session: connects, sends prompts, restarts the agent."""

    def __init__(
        self,
        start: ChatStart,
        display: SessionDisplay,
        dialogs: "DialogHandler | None",
        queue: DraftQueue,
        clock: Clock,
    ) -> None:
        """Without `dialogs` the user is never asked."""
        self.phase: Phase = "connecting"
        self.agent: RemoteAgent | None = None
        self.session: ClientSession | None = None
        self.configured_agent: ConfiguredAgent | None = None
        self._start = start
        self._display = display
        self._dialogs = dialogs
        self._queue = queue
        self._clock = clock
        self.ring: FrameRing = FrameRing(clock=clock)
        """The latest messages, for the wire view."""
        self._choice: SessionChoice | None = None
        self._signing_in = False
        self._recorder: Recorder | None = None
        self._tasks = OwnedTasks()
        self._events: EventStream[ClientEvent] | None = None
        """The events of the session, in turns and between them. They are queued only here."""
        self._reconnect_now = asyncio.Event()
        self._rewinds: SessionRewinds | None = None
        self._shown = asyncio.Event()
        self._last_end: TurnEnded | None = None

    # -- commands --

    def begin(self) -> None:
        """Connect, then send queued prompts."""
        self._spawn(self._connect())

    def advance(self) -> None:
        """Send the next queued prompt if no turn runs."""
        if self.phase != "ready" or self.session is None or self.session.running:
            return
        draft = self._queue.next()
        if draft is not None:
            self._set_phase("running")
            self._display.queue_changed()
            self._spawn(self._turn(self.session, draft))

    def steer(self, draft: Draft) -> bool:
        """Send a draft to the running turn. Return False if it has to wait for the end of the turn."""
        session, agent = self.session, self.agent
        if self.phase != "running" or session is None or agent is None or not agent.can_steer:
            return False
        if draft.text.lstrip().startswith("/"):
            return False  # a command is a prompt of its own
        self._spawn(self._steer(session, agent, draft))
        return True

    async def _steer(self, session: ClientSession, agent: RemoteAgent, draft: Draft) -> None:
        try:
            if await session.steer(await self._blocks(agent, draft)):
                return
        except AccordError as error:
            self._display.note(f"the message waits for the end of the turn: {error}", "warn")
        self._queue.add(draft)
        self._display.queue_changed()
        self.advance()

    def cancel(self) -> bool:
        """Cancel the turn. Return whether one was running."""
        if self.session is None or not self.session.running:
            return False
        self._queue.paused = len(self._queue) > 0
        self.session.cancel()
        self._display.queue_changed()
        return True

    def restart(self) -> None:
        """Restart the agent, or retry to connect."""
        if self.phase == "lost":
            self._reconnect_now.set()
        elif self.phase in ("dead", "failed"):
            self._spawn(self._connect() if self.agent is None else self._restart(self.agent))

    async def aclose(self) -> None:
        """End the agent and all tasks."""
        self._set_phase("closed")
        agent, self.agent = self.agent, None
        await self._tasks.end()
        if self._rewinds is not None:
            await self._rewinds.aclose()
        if agent is not None:
            await agent.aclose()
        if self._recorder is not None:
            self._recorder.close()

    # -- connecting --

    async def _connect(self) -> None:
        self._set_phase("connecting")
        try:
            options = self._options()
            configured_agent = self.configured_agent = await asyncio.to_thread(
                self._start.find_agent, options.trusting()
            )
            self.agent = await PendingAgent(
                await asyncio.to_thread(configured_agent.launch, self._start.cwd)
                if self._start.remote is None
                else replace(self._start.remote, on_link=self._display.link_changed),
                options.handlers(configured_agent),
                options.options(configured_agent),
            )
            self._choice = self._session_choice(self.agent, configured_agent)
            if self._recorder is None:
                self._recorder = Recorder(configured_agent.name, self._warn)
            await self._start_session(self._choice, await self._open_or_sign_in(self._choice))
        except AccordError as failure:
            if isinstance(failure, UsageError) and self._recorder is not None:
                self._recorder.report_failure()  # such as a session that was not found
            error = clear_error(failure, None if self._start.remote is not None else self.configured_agent)
            await self._connection_failed(error, "\n".join(self._hints(error)))

    async def _open_or_sign_in(self, choice: SessionChoice) -> ClientSession:
        while True:
            try:
                return await self._open_session(choice)
            except AuthRequired as error:
                if not await self._sign_in(choice.agent, error):
                    raise

    async def sign_in(self) -> bool:
        """Let the user sign in to the agent. Return whether that was done."""
        error = AuthRequired("sign in, or choose another way to pay for the model")
        return self.agent is not None and await self._sign_in(self.agent, error)

    async def _sign_in(self, agent: RemoteAgent, error: AuthRequired) -> bool:
        """Ask the user to sign in. Return whether to retry."""
        if self._dialogs is None or self.configured_agent is None:
            return False
        launch = None if self._start.remote is not None else self.configured_agent.launch(self._start.cwd)
        self._signing_in = True
        try:
            return await sign_in(
                agent, self.configured_agent.name, error, self._dialogs, launch, self._display.note
            )
        finally:
            self._signing_in = False

    def _stderr_line(self, line: str) -> None:
        """Record a line of stderr. During sign-in, show it: it may contain an address or a code."""
        self.ring.add_stderr(line)
        if self._signing_in:
            self._display.note(line)

    async def _open_session(self, choice: SessionChoice) -> ClientSession:
        start = self._start
        records = self._recorder.records if self._recorder is not None else None
        session_id = start.session
        if session_id is None and start.newest:
            session_id = await choice.newest(records)
        if session_id is None:
            return await choice.new()
        if session_id == start.session:
            session_id = await full_session_id(session_id, choice, records)
        session = await choice.reopen(session_id, with_history=True)
        if not session.state.timeline and records is not None:
            restore_history(records, session, choice.name)
        return session

    async def _start_session(self, choice: SessionChoice, session: ClientSession) -> None:
        await apply_settings(self._start, choice.agent, session)
        await self._show_session(session, choice.agent)
        if self._rewinds is None:
            self._rewinds = SessionRewinds(choice.agent, choice.name, self._switch)
        self._rewinds.opened(session, self._recorder.records if self._recorder is not None else None)
        self._set_phase("ready")
        self.advance()

    async def _show_session(self, session: ClientSession, agent: RemoteAgent) -> None:
        """Show and record a session from now on, instead of the one before."""
        if self._events is not None:
            await self._events.aclose()
        if self._recorder is not None:
            self._recorder.begin(session)
        self.session = session
        self._display.opened(session, agent)
        self._events = session.events()
        self._spawn(self._follow(self._events))

    @property
    def rewind_target(self) -> RewindTarget | None:
        """The session as something that can go back to earlier messages; None if it cannot now."""
        return None if self.phase != "ready" or self._rewinds is None else self._rewinds.target

    async def _switch(self, session: ClientSession | None, events: Iterable[Event]) -> ClientSession:
        choice, old = self._choice, self.session
        assert choice is not None, "a session is open"
        assert old is not None, "a session is open"
        self._set_phase("connecting")
        try:
            if session is None:
                session = await choice.new()
                await apply_settings(self._start, choice.agent, session)
                await copy_settings(old, session)
                for event in events:
                    session.state.apply(event)
            await self._show_session(session, choice.agent)
        finally:
            self._set_phase("ready")
        return session

    async def _connection_failed(self, error: AccordError, details: str = "") -> None:
        agent, self.agent = self.agent, None
        self._set_phase("failed")
        self._display.failed(error, details)
        if agent is not None:
            await agent.aclose()

    def _hints(self, error: AccordError) -> list[str]:
        if self.configured_agent is None:
            return []
        agent = None if self._start.remote is not None else self.configured_agent
        return list(failure_hints(error, agent, self._start.cwd, named=not self._start.from_command))

    def _session_choice(self, agent: RemoteAgent, configured_agent: ConfiguredAgent) -> SessionChoice:
        servers = supported_servers(configured_agent.mcp_servers(), agent, self._warn)
        return SessionChoice(agent, configured_agent.name, self._start.cwd, self._start.add_dir, servers)

    def _options(self) -> ConnectionOptions:
        return ConnectionOptions(
            self._start,
            self._dialogs,
            self._warn,
            self._clock,
            self.ring,
            self._stderr_line,
            self._before_change,
        )

    async def _before_change(self, paths: Sequence[str]) -> None:
        if self._rewinds is not None:
            await self._rewinds.keep(paths)

    # -- turns --

    async def _turn(self, session: ClientSession, draft: Draft) -> None:
        assert self.agent is not None
        self._last_end = None
        error: AccordError | None = None
        try:
            blocks = await self._blocks(self.agent, draft)
            if self._rewinds is not None:
                blocks += await self._rewinds.begin_turn(text_of_blocks(blocks[:1]))
            await session.ask(blocks)  # `_follow` shows the events
        except AuthRequired as failure:
            error = failure
            if await self._sign_in(self.agent, failure):
                error = None
                self._queue.prepend(draft)
        except AccordError as failure:
            error = failure
        if self._rewinds is not None:
            self._rewinds.end_turn(answered=error is None)
        await self._wait_until_shown()
        ended = self._last_end
        cancelled = ended is not None and ended.stop_reason == "cancelled"
        if cancelled or (error is not None and self.phase != "lost"):
            self._pause_queue()
        if error is not None:
            for hint in self._hints(error):
                self._display.note(hint, "warn")
        if self.phase in ("running", "cancelling"):
            self._set_phase("ready")
        self._display.turn_ended(ended, error)
        self.advance()

    async def _blocks(self, agent: RemoteAgent, draft: Draft) -> list[ContentBlock]:
        folders = (self._start.cwd, *self._start.add_dir)
        return await asyncio.to_thread(
            prompt_blocks, draft, folders, agent.capabilities, self._warn_from_thread
        )

    async def _wait_until_shown(self) -> None:
        """Wait until `_follow` has shown the end of the turn. A turn that could not start has none."""
        while self._last_end is None and self._events is not None and self._events.has_events:
            self._shown.clear()
            await self._shown.wait()

    def _warn(self, text: str) -> None:
        self._display.note(text, "warn")

    def _warn_from_thread(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self._display.note, text, "warn")

    def _pause_queue(self) -> None:
        self._queue.paused = len(self._queue) > 0
        self._display.queue_changed()

    async def _follow(self, events: EventStream[ClientEvent]) -> None:
        count = 0
        async for event in events:
            if self._recorder is not None and self._recorder.recording is not None:
                self._recorder.recording.append(event)
            if isinstance(event, AgentEnded):
                self._agent_ended(event)
            elif isinstance(event, TurnCancelling) and self.phase == "running":
                self._set_phase("cancelling")
            elif isinstance(event, TurnEnded):
                self._last_end = event
            self._display.event_received(event)
            count += 1
            if count % _YIELD_AFTER == 0:
                await asyncio.sleep(0)
            if self._last_end is not None or not events.has_events:
                self._shown.set()

    def _agent_ended(self, event: AgentEnded) -> None:
        agent = self.agent
        if agent is None or not agent.remote:
            self._set_phase("dead")
        elif self.phase != "lost":
            self._set_phase("lost")
            self._spawn(self._reconnect(agent, event.error))

    async def _reconnect(self, agent: RemoteAgent, error: AccordError) -> None:
        """Reach a lost gateway again: at once, then with pauses, until it refuses this client."""
        for attempt in count():
            if attempt:
                await self._pause(_RECONNECT_PAUSES[min(attempt, len(_RECONNECT_PAUSES)) - 1])
            try:
                await self._restart_agent(agent)
                return
            except AccordError as failure:
                error = failure
            if isinstance(error, UsageError | AuthRequired) or any(part in str(error) for part in _REFUSED):
                break
        self._set_phase("dead")
        self._display.note(f"cannot reconnect to the gateway: {error}", "bad")

    async def _pause(self, seconds: float) -> None:
        """Wait, but only until the user wants to reconnect now."""
        self._reconnect_now.clear()
        now = asyncio.ensure_future(self._reconnect_now.wait())
        try:
            await within(self._clock, seconds, now)
        finally:
            now.cancel()

    async def _restart(self, agent: RemoteAgent) -> None:
        self._set_phase("connecting")
        try:
            await self._restart_agent(agent)
        except AccordError as error:
            self._set_phase("dead")
            self._display.note(f"cannot restart the agent: {error}", "bad")

    async def _restart_agent(self, agent: RemoteAgent) -> None:
        session, choice = self.session, self._choice
        await agent.restart()
        assert choice is not None
        outcome = "Connected to the gateway again" if agent.remote else "The agent was restarted"
        if session is not None and session.lost is None:
            if agent.remote:
                session = await self._read_missed(choice, session)
            await apply_settings(self._start, agent, session)
            self._display.note(f"{outcome}; the session continues.", "good")
            self._set_phase("ready")
            self.advance()
            return
        lost_reason = session.lost if session is not None else None
        await self._start_session(choice, await choice.new())
        self._display.note(f"{outcome}, in a new session; the old one was lost ({lost_reason}).", "warn")

    async def _read_missed(self, choice: SessionChoice, session: ClientSession) -> ClientSession:
        """Read what the gateway has logged while it could not be reached."""
        with contextlib.suppress(RpcError):
            return await choice.reopen(session.id, with_history=True)
        return session

    # -- helpers --

    def _set_phase(self, phase: Phase) -> None:
        if self.phase != "closed":
            self.phase = phase
            self._display.phase_changed(phase)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks.start(coroutine)
