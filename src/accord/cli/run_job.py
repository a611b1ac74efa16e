"""One run: starts the agent, opens a session, runs one turn, handles Ctrl-C and limits.

Imported on first use.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from accord.cli import DONE, FAILED, INTERRUPTED, NO_PERMISSION, exit_code
from accord.cli.agent_choice import chosen_server
from accord.cli.command_parser import heard
from accord.cli.output import Output
from accord.cli.run_command import RunArguments
from accord.cli.terminal_user import TerminalForms, TerminalUser
from accord.client import (
    AgentEnded,
    AgentRestarted,
    ClientEvent,
    ClientFeatures,
    ClientHandlers,
    ClientOptions,
    ClientSession,
    RemoteAgent,
    SessionLost,
    SessionReattached,
    TimeLimits,
    run_in_terminal,
)
from accord.client.client_options import ClientReport, RestartPolicy
from accord.client.remote_agent import PendingAgent
from accord.errors import AccordError, AuthRequired, ConnectionClosed, LimitReached
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.attachments import AttachmentBuilder, mentions_in
from accord.frontend.consent import Consent, guarded_workspace
from accord.frontend.forms import ASK_USER
from accord.frontend.recording import Recorder, SessionRecording
from accord.frontend.session_choice import SessionChoice, apply_settings, reachable
from accord.frontend.sign_in import how_to_sign_in
from accord.policy.rules import PermissionDefault
from accord.schema import (
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    ContentBlock,
    SessionInfoUpdate,
    TextContent,
    UsageUpdate,
    UserMessageChunk,
)
from accord.session import ModeChanged, PermissionAsked, TurnCancelling, TurnEnded, TurnStarted

# MERGED cli.running.server: Which agent a run is with.


def find_server(given: RunArguments) -> ConfiguredAgent:
    """The agent. May ask whether a project's file counts. Raises UsageError."""
    if given.remote is not None:
        from accord.cli.agent_choice import server_at

        return server_at(given.remote)
    return chosen_server(given.agent, given.command, given.cwd, trust=given.trust)


# MERGED cli.running.turn: One turn: the prompt goes out, its events are shown and recorded, and it ends by an answer, an error or a limit.
#
# An agent that dies is started again and its session taken up. The prompt goes out again only if that was asked for, and
# only if nothing of it was done: nobody wants the same work twice.

_NOTHING_DONE: Final = (
    TurnStarted, TurnEnded, TurnCancelling, AgentEnded, AgentRestarted, SessionReattached, SessionLost, ModeChanged,
    AvailableCommandsUpdate, ConfigOptionUpdate, SessionInfoUpdate, UsageUpdate, UserMessageChunk,
)  # fmt: skip
"""Events that tell of no work on the prompt."""

_HERE: Final = ("the agent has died; starting it again", "started", "it runs again")
_AFAR: Final = ("the connection to the agent is lost; connecting again", "reached", "it is connected again")


@dataclass(slots=True)
class RunResult:
    """How a turn went."""

    ended: TurnEnded | None = None
    error: AccordError | None = None


@dataclass(slots=True)
class TurnRun:
    """Runs a turn in a session."""

    session: ClientSession
    output: Output
    recording: Callable[[], SessionRecording | None]
    served: Callable[[], int]
    """Changes with everything the agent asks of us: it is at work then."""
    deadline: float | None = None
    retries: int = 0
    """How often the prompt may go out again."""
    settle: Callable[[ClientSession], Awaitable[None]] | None = None
    """Sets anew what an agent that was started again may have forgotten."""
    reopen: Callable[[], Awaitable[ClientSession]] | None = None
    """Opens another session in place of one that was lost before anything was done in it; None where that would lose something."""
    stopping: Callable[[], None] | None = None
    """Told when the agent is asked to stop."""
    _seen: set[str] = field(default_factory=set[str])
    _shown: asyncio.Condition = field(default_factory=asyncio.Condition)
    _running: bool = False
    _expired: bool = False

    async def run(self, blocks: list[ContentBlock]) -> RunResult:
        """The turn, whole."""
        grace = self.session.agent.options.limits.cancel
        limit = None if self.deadline is None else self.deadline + grace
        loop = asyncio.get_running_loop()
        timer = None if self.deadline is None else loop.call_later(self.deadline, self._out_of_time)
        try:
            async with asyncio.timeout(limit):
                result = await self._attempts(blocks)
        except TimeoutError:
            result = RunResult()
        finally:
            if timer is not None:
                timer.cancel()
        if self._expired:
            result.error = LimitReached(f"the turn was not over within {self.deadline:g} s (--deadline)")
        return result

    def stop(self) -> bool:
        """Ask the agent to stop; whether there was something to stop."""
        if not self.session.running:
            return False
        if self.stopping is not None:
            self.stopping()
        self.session.cancel()
        return True

    async def caught_up(self, session: ClientSession) -> None:
        """Wait until the question that the agent has just asked was taken from the events: all before it is shown then."""
        asked = next(reversed(session.state.permissions), None)
        if session is not self.session or asked is None:
            return
        async with self._shown:
            await self._shown.wait_for(lambda: not self._running or asked in self._seen)

    async def _attempts(self, blocks: list[ContentBlock]) -> RunResult:
        while True:
            served = self.served()
            result, worked = await self._once(blocks)
            if not isinstance(result.error, ConnectionClosed) or self._expired:
                return result
            untouched = not worked and self.served() == served
            again = self.retries > 0 and untouched
            back = await self._taken_up(again)
            if self.retries > 0 and not untouched:
                self.output.note("the prompt is not sent again: the agent had begun to work on it")
            if not (again and back):
                return result
            self.retries -= 1
            self.output.note("the prompt is sent again")

    async def _once(self, blocks: list[ContentBlock]) -> tuple[RunResult, bool]:
        result, worked = RunResult(), False
        self._running = True
        try:
            async for event in self.session.prompt(blocks):
                worked = worked or not isinstance(event, _NOTHING_DONE)
                if isinstance(event, TurnEnded):
                    result.ended = event
                self._take(event)
                if isinstance(event, PermissionAsked):
                    self._seen.add(event.permission_id)
                    await self._tell_shown()
        except AccordError as error:
            result.error = error
        finally:
            self._running = False
            await self._tell_shown()
        return result, worked

    def _take(self, event: ClientEvent) -> None:
        if (recording := self.recording()) is not None:
            recording.take(event)
        self.output.event(event)

    async def _tell_shown(self) -> None:
        async with self._shown:
            self._shown.notify_all()

    async def _taken_up(self, again: bool) -> bool:
        """Whether the session can go on after its agent died."""
        agent = self.session.agent
        if agent.options.restart is None:
            return False
        died, started, back = _AFAR if agent.remote else _HERE
        self.output.note(died)
        try:
            await agent.ready()
        except AccordError as error:
            self.output.note(f"it could not be {started} again: {error}")
            return False
        if not agent.connected:
            return False  # it has been started again often enough
        if self.session.lost is None:
            self.output.note(f"{back}; its session {self.session.id} goes on")
            if again and self.settle is not None:
                await self.settle(self.session)
            return True
        self.output.note(f"{back}, but its session is lost: {self.session.lost}")
        if not again or self.reopen is None:
            return False
        self.session = await self.reopen()
        return True

    def _out_of_time(self) -> None:
        self._expired = True
        self.stop()


# MERGED cli.running.interrupts: Ctrl-C: the first asks the agent to stop, the second ends it, the third does not wait for that. SIGTERM and SIGHUP end it.


class Interrupts:
    """Counts them, from the start of the agent to the end of the run."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.count = 0
        self.stop_turn: Callable[[], bool] | None = None
        """Asks the agent to stop; says whether there was a turn to stop."""
        self._note = note
        self._task: asyncio.Task[Any] | None = None

    @contextmanager
    def watched(self) -> Generator[None]:
        """While the block runs, interrupts are ours. What ends the agent cancels the task that runs the block."""
        self._task = asyncio.current_task()
        reactions = {signal.SIGINT: self.interrupt}
        if sys.platform != "win32":
            reactions |= {signal.SIGTERM: self.end, signal.SIGHUP: self.end}
        with heard(reactions):
            yield

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.count += 1
        if self.count == 1 and self.stop_turn is not None and self.stop_turn():
            self._note("stopping; Ctrl-C again ends the agent")
        else:
            self._end()

    def end(self) -> None:
        """The process is asked to go."""
        self.count += 1
        self._end()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()


# MERGED cli.running.notes: Notes about what an agent was not given: each told once, and no more than a few, however often it asks.

MOST: Final = 20


class NoteFilter:
    """Passes notes on. What is told again is dropped; behind the last one stands that there is more."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def __call__(self, text: str) -> None:
        """Tell it, unless it was told or enough was."""
        if text in self._told or len(self._told) > MOST:
            return
        self._told.add(text)
        self._tell(text if len(self._told) <= MOST else "more of that follows, which is not told")


# MERGED cli.running.job: The whole of `accord run`: start the agent, open a session, run the turn, and say how it went.

_NOISE_TOLD: Final = 3


class RunJob:
    """One run."""

    def __init__(
        self,
        given: RunArguments,
        prompt: str,
        server: ConfiguredAgent,
        output: Output,
        person: TerminalUser | None,
    ) -> None:
        self._given = given
        self._prompt = prompt
        self._server = server
        self._output = output
        self._person = person
        policy = server.policy(_word(given, server, person is not None))
        self._consent = Consent(policy, person, NoteFilter(output.note))
        self._asking = TerminalForms(person, NoteFilter(output.note))
        self._interrupts = Interrupts(output.note)
        self._noise = 0
        self._code: int | None = None
        self._recorder: Recorder | None = None

    async def run(self) -> int:
        """Everything, to the last line."""
        try:
            with self._interrupts.watched():
                await self._connected()
        except AccordError as error:
            self._finish(RunResult(error=error))
        except asyncio.CancelledError:
            if not self._interrupts.count:
                raise
            self._finish(RunResult())
        finally:
            if self._recorder is not None:
                self._recorder.close()
        assert self._code is not None, "every way out tells how it went"
        return self._code

    async def _connected(self) -> None:
        source = self._given.remote or self._server.launch(self._given.cwd)
        async with PendingAgent(source, self._handlers(), self._options()) as agent:
            servers = reachable(self._server.mcp_servers(), agent, self._output.note)
            opening = SessionChoice(agent, self._server.name, self._given.cwd, self._given.add_dir, servers)
            self._recorder = recorder = Recorder(self._server.name, self._output.note)
            session = await self._opened(opening, recorder)
            self._finish(await self._turn(opening, session, recorder).run(self._blocks(agent)))

    # -- what the agent is started with -------------------------------------------------------------------------

    def _handlers(self) -> ClientHandlers:
        # The agent of this package works on this machine anyway, and keeps its own rules: a detour over us gains nothing.
        offered = self._server.name != "accord" or bool(self._server.command)
        return ClientHandlers(
            permissions=self._consent,
            workspace=guarded_workspace(self._consent) if offered else None,
            forms=self._asking.form,
            urls=self._asking.address,
            login=run_in_terminal,  # by `accord agents login`: said here so that the agent tells of such ways, too
            extensions={ASK_USER: self._asking.question},
        )

    def _options(self) -> ClientOptions:
        given = self._given
        limits = TimeLimits() if given.timeout is None else TimeLimits(silence=given.timeout)
        return self._server.options(
            ClientOptions(
                limits=limits,
                strict=given.strict,
                observer=self._observe,
                restart=RestartPolicy(),
                features=ClientFeatures(meta={"accord": {"extensions": [ASK_USER]}}),
            )
        )

    def _observe(self, report: ClientReport) -> None:
        if report.kind == "oversized":
            self._output.note(f"a message of the agent is left out: {report.detail}")
        if report.kind != "noise":
            return
        self._noise += 1
        if self._noise <= _NOISE_TOLD:
            line = report.frame[:200].decode(errors="replace")
            self._output.note(f"the agent printed what is no message: {line}")
        elif self._noise == _NOISE_TOLD + 1:
            self._output.note("it prints more of that, which is not shown")

    # -- the session and its turn -------------------------------------------------------------------------------

    async def _opened(self, opening: SessionChoice, recorder: Recorder) -> ClientSession:
        if self._given.session is not None:
            session = await opening.again(self._given.session)
        elif self._given.newest:
            session = await opening.again(await opening.newest(recorder.records))
        else:
            session = await opening.new()
        await apply_settings(self._given, opening.agent, session)
        recorder.begin(session)
        self._output.opened(session, opening.agent)
        return session

    def _turn(self, opening: SessionChoice, session: ClientSession, recorder: Recorder) -> TurnRun:
        given, restart = self._given, session.agent.options.restart
        turn = TurnRun(
            session,
            self._output,
            lambda: recorder.recording,
            served=lambda: self._consent.done + self._asking.done,
            deadline=given.deadline,
            retries=restart.max_restarts if given.retry and restart is not None else 0,
            settle=lambda session: apply_settings(given, opening.agent, session),
            reopen=None if given.session or given.newest else lambda: self._opened(opening, recorder),
            stopping=None if self._person is None else self._person.dismiss,
        )
        self._consent.caught_up = turn.caught_up
        self._interrupts.stop_turn = turn.stop
        return turn

    def _blocks(self, agent: RemoteAgent) -> list[ContentBlock]:
        given, note = self._given, self._output.note
        found = mentions_in(self._prompt, (given.cwd, *given.add_dir))
        for text in found.notes:
            note(text)
        attaching = AttachmentBuilder(agent.capabilities, note)
        blocks: list[ContentBlock] = [TextContent(self._prompt)]
        blocks += [attaching.mentioned(path) for path in found.paths]
        blocks += [attaching.attached(path) for path in given.attach]
        return blocks

    # -- how it went --------------------------------------------------------------------------------------------

    def _finish(self, result: RunResult) -> None:
        """Say how it went. What comes later, while the agent is being ended, changes nothing any more."""
        if self._code is not None:
            return
        if isinstance(result.error, AuthRequired):
            for line in self._ways_to_sign_in(result.error):
                self._output.note(line)
        self._code = self._exit_code(result)
        self._output.finished(result.ended, result.error, self._code)

    def _ways_to_sign_in(self, error: AuthRequired) -> Iterable[str]:
        if self._given.remote is not None:
            return (
                f"sign in by {method.name!r} on the machine where the agent runs" for method in error.methods
            )
        name = None if self._given.command else self._server.name
        return how_to_sign_in(error, name, self._server.launch(self._given.cwd))

    def _exit_code(self, result: RunResult) -> int:
        if self._interrupts.count:
            return INTERRUPTED
        if result.error is not None:
            return exit_code(result.error)
        if result.ended is not None and result.ended.stop_reason not in ("end_turn", "cancelled"):
            return FAILED
        if self._consent.refused:
            return NO_PERMISSION
        return DONE if result.ended is not None and result.ended.stop_reason == "end_turn" else FAILED


def _word(given: RunArguments, server: ConfiguredAgent, somebody: bool) -> PermissionDefault | None:
    """What takes the place of the default in the user's rules: what was said, else what their file says, else by who is there."""
    if given.permissions is not None:
        return given.permissions
    if not somebody and server.unattended is not None:
        return server.unattended
    if server.permissions is not None and server.permissions.permission_default is not None:
        return None
    return "ask" if somebody else "reads"
