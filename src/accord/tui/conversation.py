"""One session with one agent, from connecting to its end: prompts go out one after the other, events come in.

Knows nothing of the screen but a small contract. Everything about the session itself is in the client's own state.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from accord.client import (
    AgentEnded,
    ClientSession,
    RemoteAgent,
)
from accord.client.connect import Connecting
from accord.client.entering import Opening, reachable
from accord.client.recording import Recorder
from accord.client.servers import Server
from accord.client.settings import apply_settings
from accord.client.signin import how_to_sign_in
from accord.clock import Clock
from accord.errors import AccordError, AuthRequired
from accord.session import TurnCancelling, TurnEnded
from accord.trace import Ring
from accord.tui.blocks import blocks_of
from accord.tui.draft import Draft, DraftQueue
from accord.tui.offer import Offer
from accord.tui.recalled import recall
from accord.tui.signing import sign_in
from accord.tui.stage import Phase, Stage
from accord.tui.start import Start

if TYPE_CHECKING:
    from accord.tui.asking import Questions

_BREATH: Final = 100
"""Events after which keys get their turn."""


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
        self._signing = False
        self._recorder: Recorder | None = None
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
        if self._recorder is not None:
            self._recorder.close()

    # -- connecting ---------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        self._change("connecting")
        try:
            offer = self._offer()
            server = self.server = await asyncio.to_thread(self._start.find, offer.trusting())
            self.agent = await Connecting(
                self._start.remote or await asyncio.to_thread(server.launch, self._start.cwd),
                offer.handlers(server),
                offer.options(server),
            )
            self._opening = self._opening_for(self.agent, server)
            if self._recorder is None:
                self._recorder = Recorder(server.name, self._warn)
            await self._open(self._opening, await self._admitted(self._opening))
        except AuthRequired as error:
            await self._unconnected(error, "\n".join(self._ways_in(error)))
        except AccordError as error:
            await self._unconnected(error)

    async def _admitted(self, opening: Opening) -> ClientSession:
        while True:
            try:
                return await self._entered(opening)
            except AuthRequired as error:
                if not await self._sign_in(opening.agent, error):
                    raise

    async def _sign_in(self, agent: RemoteAgent, error: AuthRequired) -> bool:
        """Whether the user did something about it."""
        if self._questions is None or self.server is None:
            return False
        launch = None if self._start.remote is not None else self.server.launch(self._start.cwd)
        self._signing = True
        try:
            return await sign_in(agent, self.server.name, error, self._questions, launch, self._stage.note)
        finally:
            self._signing = False

    def _heard(self, line: str) -> None:
        """On stderr. Some agents print there what the user has to open to sign in, or a code to type."""
        self.ring.note_stderr(line)
        if self._signing:
            self._stage.note(line)

    async def _entered(self, opening: Opening) -> ClientSession:
        start = self._start
        records = self._recorder.records if self._recorder is not None else None
        session_id = start.session
        if session_id is None and start.newest:
            session_id = await opening.newest(records)
        if session_id is None:
            return await opening.new()
        session = await opening.again(session_id, whole=True)
        if not session.state.timeline and records is not None:
            recall(records, session, opening.name)
        return session

    async def _open(self, opening: Opening, session: ClientSession) -> None:
        await apply_settings(self._start, opening.agent, session)
        if self._recorder is not None:
            self._recorder.begin(session)
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

    def _offer(self) -> Offer:
        return Offer(self._start, self._questions, self._warn, self._clock, self.ring, self._heard)

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
        except AuthRequired as refused:
            error = refused
            if await self._sign_in(self.agent, refused):
                error = None
                self._queue.put_back(draft)
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
            if self._recorder is not None and self._recorder.recording is not None:
                self._recorder.recording.take(event)
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

    # -- what goes on -------------------------------------------------------------------------------------------

    def _change(self, phase: Phase) -> None:
        if self.phase != "closed":
            self.phase = phase
            self._stage.phase_changed(phase)

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
