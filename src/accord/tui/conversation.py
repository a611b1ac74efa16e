"""One session with one agent, from connecting to its end: prompts go out one after the other, events come in.

Knows nothing of the screen but a small contract. Everything about the session itself is in the client's own state.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from accord.client import (
    AgentEnded,
    ClientEvent,
    ClientHandlers,
    ClientOptions,
    ClientSession,
    Features,
    RemoteAgent,
)
from accord.client.askuser import ASK_USER
from accord.client.connect import Connecting
from accord.client.consent import Consent
from accord.client.entering import Opening, reachable
from accord.client.guarded import guarded_workspace
from accord.client.options import ClientReport
from accord.client.recording import Recording, Records
from accord.client.servers import Server
from accord.client.servers.trusting import Trusting, refuse
from accord.client.settings import apply_settings
from accord.client.signin import how_to_sign_in
from accord.clock import Clock
from accord.errors import AccordError, AuthRequired, StoreError
from accord.policy.rules import Word
from accord.session import TurnCancelling, TurnEnded
from accord.trace import Ring, Tapped
from accord.tui.blocks import blocks_of
from accord.tui.draft import Draft, DraftQueue
from accord.tui.recalled import recall
from accord.tui.start import Start

if TYPE_CHECKING:
    from accord.tui.asking import Questions
    from accord.tui.parts.note import Tone

Phase: TypeAlias = Literal["connecting", "ready", "running", "cancelling", "dead", "failed", "closed"]

_BREATH: Final = 100
"""Events after which keys get their turn."""


class Stage(Protocol):
    """Where the conversation is shown. Called on the event loop."""

    def phase_changed(self, phase: Phase) -> None:
        """Something else goes on now."""
        ...

    def opened(self, session: ClientSession, agent: RemoteAgent) -> None:
        """The session is there, its history in its state."""
        ...

    def happened(self, event: ClientEvent) -> None:
        """An event of the session."""
        ...

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Tell the user something."""
        ...

    def failed(self, error: AccordError, details: str) -> None:
        """It could not be connected, or its session not opened; `details` say what to do."""
        ...

    def turn_over(self, ended: TurnEnded | None, error: AccordError | None) -> None:
        """A turn is over, or could not begin; all its events have been shown."""
        ...

    def queue_changed(self) -> None:
        """A prompt left the queue, or returned to it."""
        ...


class Conversation:
    """Connects, opens, prompts, restarts."""

    def __init__(
        self, start: Start, stage: Stage, questions: "Questions | None", queue: DraftQueue, clock: Clock
    ) -> None:
        """Without `questions` nobody is there who could be asked."""
        self.phase: Phase = "connecting"
        self.agent: RemoteAgent | None = None
        self.session: ClientSession | None = None
        self.server: Server | None = None
        self._start = start
        self._stage = stage
        self._questions = questions
        self._queue = queue
        self._clock = clock
        self.ring = Ring(clock=clock)
        """What crosses the connection, for whoever looks."""
        self._opening: Opening | None = None
        self._records: Records | None = None
        self._recording: Recording | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._shown = asyncio.Condition()
        self._last_shown: TurnEnded | None = None

    # -- what the user does -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Connect, and go on with what waits."""
        self._own(self._connect())

    def advance(self) -> None:
        """Send the next prompt, if one waits and nothing runs."""
        if self.phase != "ready" or self.session is None or self.session.running:
            return
        draft = self._queue.next()
        if draft is not None:
            self._change("running")
            self._stage.queue_changed()
            self._own(self._turn(self.session, draft))

    def cancel(self) -> bool:
        """Ask the agent to stop; whether there was something to stop."""
        if self.session is None or not self.session.running:
            return False
        self._queue.held = len(self._queue) > 0
        self.session.cancel()
        self._stage.queue_changed()
        return True

    def restart(self) -> None:
        """Start the agent again, or try once more to connect."""
        if self.phase in ("dead", "failed"):
            self._own(self._connect() if self.agent is None else self._restart(self.agent))

    async def aclose(self) -> None:
        """End the agent and everything that runs."""
        self._change("closed")
        agent, self.agent = self.agent, None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if agent is not None:
            await agent.aclose()
        self._close_records()

    # -- connecting ---------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        self._change("connecting")
        try:
            server = self.server = await asyncio.to_thread(self._start.find, self._trusting())
            self.agent = await Connecting(
                self._start.remote or await asyncio.to_thread(server.launch, self._start.cwd),
                self._handlers(server),
                self._options(server),
            )
            self._opening = self._opening_for(self.agent, server)
            if self._records is None:
                self._records = self._open_records()
            await self._open(self._opening, await self._entered(self._opening))
        except AuthRequired as error:
            await self._unconnected(error, "\n".join(self._ways_in(error)))
        except AccordError as error:
            await self._unconnected(error)

    async def _entered(self, opening: Opening) -> ClientSession:
        start = self._start
        session_id = start.session
        if session_id is None and start.newest:
            session_id = await opening.newest(self._records)
        if session_id is None:
            return await opening.new()
        session = await opening.again(session_id, whole=True)
        if not session.state.timeline and self._records is not None:
            recall(self._records, session, opening.name)
        return session

    async def _open(self, opening: Opening, session: ClientSession) -> None:
        await apply_settings(self._start, opening.agent, session)
        self._record(session)
        self.session = session
        self._stage.opened(session, opening.agent)
        self._own(self._follow(session))
        self._change("ready")
        self.advance()

    async def _unconnected(self, error: AccordError, details: str = "") -> None:
        agent, self.agent = self.agent, None
        self._change("failed")
        self._stage.failed(error, details)
        if agent is not None:
            await agent.aclose()

    def _ways_in(self, error: AuthRequired) -> list[str]:
        server = self.server
        if server is None:
            return []
        if self._start.remote is not None:
            return [
                f"sign in by {method.name!r} on the machine where the agent runs" for method in error.methods
            ]
        name = None if server.place == "the command behind --" else server.name
        return list(how_to_sign_in(error, name, server.launch(self._start.cwd)))

    def _opening_for(self, agent: RemoteAgent, server: Server) -> Opening:
        servers = reachable(server.mcp_servers(), agent, self._warn)
        return Opening(agent, server.name, self._start.cwd, self._start.add_dir, servers)

    def _handlers(self, server: Server) -> ClientHandlers:
        asked = self._questions
        consent = Consent(server.policy(self._word(server)), asked, self._warn)
        # The agent of this package works on this machine anyway, and keeps its own rules: a detour over us gains nothing.
        offered = server.name != "accord" or bool(server.command)
        return ClientHandlers(
            permissions=consent,
            workspace=guarded_workspace(consent) if offered else None,
            forms=None if asked is None else asked.form,
            urls=None if asked is None else asked.address,
            extensions={} if asked is None else {ASK_USER: asked.question},
        )

    def _word(self, server: Server) -> Word | None:
        """What takes the place of the default in the user's rules: what was said, else what their file says, else by who is there."""
        said = self._start.permissions
        if said is None and self._questions is None and server.unattended is not None:
            return server.unattended
        if said is not None or (server.permissions is not None and server.permissions.word is not None):
            return said
        return "reads" if self._questions is None else "ask"

    def _trusting(self) -> Trusting:
        return refuse if self._questions is None else self._questions.trusting()

    def _options(self, server: Server) -> ClientOptions:
        options = server.options(
            ClientOptions(
                clock=self._clock,
                observer=self._observe,
                wrap=lambda transport: Tapped(transport, self.ring, ours="client"),
                on_stderr=self.ring.note_stderr,
                features=Features(meta={"accord": {"extensions": [ASK_USER] if self._questions else []}}),
            )
        )
        return replace(options, restart=None)  # the user sees what happened, and restarts it with one key

    def _observe(self, report: ClientReport) -> None:
        if report.kind == "oversized":
            self._stage.note(f"a message of the agent is left out: {report.detail}", "warn")

    # -- turns --------------------------------------------------------------------------------------------------

    async def _turn(self, session: ClientSession, draft: Draft) -> None:
        assert self.agent is not None
        folders = (self._start.cwd, *self._start.add_dir)
        ended: TurnEnded | None = None
        error: AccordError | None = None
        try:
            blocks = await asyncio.to_thread(
                blocks_of, draft, folders, self.agent.capabilities, self._soon_note
            )
            async for event in session.prompt(blocks):
                if isinstance(event, TurnEnded):
                    ended = event
        except AccordError as failure:
            error = failure
        if ended is not None:
            await self._until_shown(ended)
        if error is not None or (ended is not None and ended.stop_reason == "cancelled"):
            self._hold()
        if self.phase in ("running", "cancelling"):
            self._change("ready")
        self._stage.turn_over(ended, error)
        self.advance()

    async def _until_shown(self, ended: TurnEnded) -> None:
        """Events reach the stage on another way than the turn's own."""
        async with self._shown:
            await self._shown.wait_for(lambda: self._last_shown is ended)

    def _warn(self, text: str) -> None:
        self._stage.note(text, "warn")

    def _soon_note(self, text: str) -> None:
        """A note from a thread."""
        self._loop.call_soon_threadsafe(self._stage.note, text, "warn")

    def _hold(self) -> None:
        self._queue.held = len(self._queue) > 0
        self._stage.queue_changed()

    async def _follow(self, session: ClientSession) -> None:
        taken = 0
        async for event in session.events():
            if self._recording is not None:
                self._recording.take(event)
            if isinstance(event, AgentEnded):
                self._change("dead")
            elif isinstance(event, TurnCancelling) and self.phase == "running":
                self._change("cancelling")
            self._stage.happened(event)
            taken += 1
            if taken % _BREATH == 0:
                await asyncio.sleep(0)
            if isinstance(event, TurnEnded):
                async with self._shown:
                    self._last_shown = event
                    self._shown.notify_all()

    async def _restart(self, agent: RemoteAgent) -> None:
        self._change("connecting")
        session = self.session
        try:
            await agent.restart()
            if session is not None and session.lost is None:
                await apply_settings(self._start, agent, session)
                self._stage.note("The agent runs again; the session goes on.", "good")
                self._change("ready")
                self.advance()
                return
            lost = session.lost if session is not None else None
            assert self._opening is not None
            fresh = await self._opening.new()
            await self._open(self._opening, fresh)
            self._stage.note(
                f"The agent runs again, in a new session: the old one was lost ({lost}).", "warn"
            )
        except AccordError as error:
            self._change("dead")
            self._stage.note(f"It could not be started again: {error}", "bad")

    # -- what is kept of it -------------------------------------------------------------------------------------

    def _open_records(self) -> Records | None:
        try:
            return Records.open()
        except StoreError as error:
            self._warn(f"this session is not recorded: {error}")
            return None

    def _record(self, session: ClientSession) -> None:
        if self._recording is not None:
            self._recording.close()
        if self._records is not None and self.server is not None:
            self._recording = self._records.record(session, agent=self.server.name, failed=self._warn)

    def _close_records(self) -> None:
        if self._recording is not None:
            self._recording.close()
        if self._records is not None:
            try:
                self._records.close()
            except StoreError:
                pass  # nobody is there any more to be told

    def _change(self, phase: Phase) -> None:
        if self.phase != "closed":
            self.phase = phase
            self._stage.phase_changed(phase)

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
