"""One run of `accord run`: starts the agent, opens a session, runs one turn, handles Ctrl-C and limits.

An agent that dies is restarted and its session is resumed. The prompt is sent again only with `--retry`, and
only if the agent had not begun to work on it.

Imported on first use: it loads accord.client.
"""

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from accord.cli.agent_choice import choose_agent, configured_remote_agent
from accord.cli.budget_options import with_budgets
from accord.cli.command_parser import can_ask, signal_handlers
from accord.cli.exit_codes import DONE, FAILED, INTERRUPTED, NO_PERMISSION, exit_code
from accord.cli.model_check import check_model
from accord.cli.output import Output
from accord.cli.run_command import RunArguments
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
from accord.errors import AccordError, AuthRequired, ConnectionClosed, LimitReached, UsageError
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.attachments import AttachmentBuilder, find_mentions
from accord.frontend.display_text import notice_line
from accord.frontend.recording import Recorder, SessionRecording
from accord.frontend.session_choice import SessionChoice, apply_settings, supported_servers
from accord.policy.rules import PermissionDefault
from accord.schema import (
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    ContentBlock,
    Notice,
    SessionInfoUpdate,
    TextContent,
    UsageUpdate,
    UserMessageChunk,
)
from accord.schema.methods import AGENTAO_ASK_USER
from accord.session import ModeChanged, PermissionAsked, TurnCancelling, TurnEnded, TurnStarted

if TYPE_CHECKING:
    from accord.cli.output_schema import OutputSchema
    from accord.cli.steer_lines import SteeringLines
    from accord.cli.terminal_user import TerminalForms
    from accord.client import ElicitationForm, ElicitationUrl, PermissionRequest
    from accord.client.elicitation_forms import FormAnswer
    from accord.client.permissions import PermissionChoice
    from accord.frontend.consent import Consent
    from accord.policy import Policy
    from accord.workspace import Workspace

MAX_NOTES: Final = 20
_MAX_NOISE_LINES: Final = 3


_EVENTS_WITHOUT_WORK: Final = (
    TurnStarted, TurnEnded, TurnCancelling, AgentEnded, AgentRestarted, SessionReattached, SessionLost,
    ModeChanged, AvailableCommandsUpdate, ConfigOptionUpdate, SessionInfoUpdate, UsageUpdate,
    UserMessageChunk,
)  # fmt: skip
"""Events that do not mean that the agent works on the prompt."""


def run_agent(arguments: RunArguments) -> ConfiguredAgent:
    """Return the agent of a run. May ask the user to trust a project's file. Raises UsageError."""
    if arguments.remote is not None:
        return with_budgets(configured_remote_agent(arguments.remote, arguments.protocol), arguments.budgets)
    agent = choose_agent(
        arguments.agent,
        arguments.command,
        arguments.cwd,
        trust=arguments.trust,
        env=arguments.env,
        protocol=arguments.protocol,
    )
    return with_budgets(agent, arguments.budgets)


@dataclass(slots=True)
class RunResult:
    """How a turn ended."""

    ended: TurnEnded | None = None
    error: AccordError | None = None
    value: Any = UNSET
    """The value in the answer, for `--output-schema`."""


@dataclass(slots=True)
class TurnRun:
    """Runs one turn: shows and records its events until an answer, an error or a limit ends it."""

    session: ClientSession
    output: Output
    recording: Callable[[], SessionRecording | None]
    requests_served: Callable[[], int]
    """Counts the agent's requests to this client. A change means that the agent works."""
    deadline: float | None = None
    retries: int = 0
    """How often the prompt may be sent again."""
    apply_settings: Callable[[ClientSession], Awaitable[None]] | None = None
    """Applies the settings again after a restart."""
    reopen: Callable[[], Awaitable[ClientSession]] | None = None
    """Opens a new session if the old one is lost before any work. None if that would lose history."""
    interrupted: TurnEnded | None = None
    """The end of the turn if this process ends it, by a signal, before the agent does."""
    _earlier_notices: list[Notice] = field(default_factory=list[Notice])
    _shown_requests: set[str] = field(default_factory=set[str])
    _request_shown: asyncio.Condition = field(default_factory=asyncio.Condition)
    _running: bool = False
    _expired: bool = False

    async def run(self, blocks: list[ContentBlock]) -> RunResult:
        """Run the turn to its end."""
        grace = self.session.agent.options.limits.cancel
        limit = None if self.deadline is None else self.deadline + grace
        loop = asyncio.get_running_loop()
        timer = None if self.deadline is None else loop.call_later(self.deadline, self._expire)
        try:
            async with asyncio.timeout(limit):
                result = await self._attempts(blocks)
        except TimeoutError:
            result = RunResult()
        finally:
            if timer is not None:
                timer.cancel()
        if self._expired:
            result.error = LimitReached(f"the turn did not end within {self.deadline:g} s (--deadline)")
        return result

    def show_earlier_notices(self, shown: list[Notice]) -> None:
        """Show what the agent has reported since the session was opened, but not what was `shown` then."""
        self._earlier_notices = list(self.session.state.notices)
        for notice in self._earlier_notices:
            if not any(notice is other for other in shown):
                self._show(notice)

    def stop(self) -> bool:
        """Ask the agent to stop. Returns False if no turn was running."""
        if not self.session.running:
            return False
        self.session.cancel()
        return True

    async def wait_until_request_shown(self, session: ClientSession) -> None:
        """Wait until the newest permission request of the session, and everything before it, is shown."""
        newest = next(reversed(session.state.permissions), None)
        if session is not self.session or newest is None:
            return
        async with self._request_shown:
            await self._request_shown.wait_for(lambda: not self._running or newest in self._shown_requests)

    async def _attempts(self, blocks: list[ContentBlock]) -> RunResult:
        while True:
            requests_before = self.requests_served()
            result, worked = await self._attempt(blocks)
            if not isinstance(result.error, ConnectionClosed) or self._expired:
                return result
            prompt_unused = not worked and self.requests_served() == requests_before
            retry = self.retries > 0 and prompt_unused
            resumed = await self._resume(retry)
            if self.retries > 0 and not prompt_unused:
                self.output.note("not sending the prompt again: the agent had begun to work on it")
            if not (retry and resumed):
                return result
            self.retries -= 1
            self.output.note("sending the prompt again")

    async def _attempt(self, blocks: list[ContentBlock]) -> tuple[RunResult, bool]:
        """Send the prompt once. Returns the result and whether the agent worked on it."""
        result, started, worked = RunResult(), False, False
        self._running = True
        try:
            async for event in self.session.prompt(blocks):
                started = started or isinstance(event, TurnStarted)
                worked = worked or not isinstance(event, _EVENTS_WITHOUT_WORK)
                if isinstance(event, TurnEnded):
                    result.ended = event
                if any(event is notice for notice in self._earlier_notices):
                    continue  # its event comes with the end of the read that brought it
                self._show(event)
                if isinstance(event, PermissionAsked):
                    self._shown_requests.add(event.permission_id)
                    await self._notify_request_shown()
        except AccordError as error:
            result.error = error
        except asyncio.CancelledError:
            if started and result.ended is None:
                self.interrupted = TurnEnded("cancelled", "cancelled")
                with suppress(BrokenPipeError, AccordError):
                    self._show(self.interrupted)
            raise
        finally:
            self._running = False
            await self._notify_request_shown()
        return result, worked

    def _show(self, event: ClientEvent) -> None:
        if (recording := self.recording()) is not None:
            recording.append(event)
        self.output.event(event)

    async def _notify_request_shown(self) -> None:
        async with self._request_shown:
            self._request_shown.notify_all()

    async def _resume(self, retry: bool) -> bool:
        """Wait for the restart of a dead agent. Returns whether its session can continue."""
        agent = self.session.agent
        if agent.options.restart is None:
            return False
        if agent.remote:
            self.output.note("the connection to the agent is lost; reconnecting")
        else:
            self.output.note("the agent died; restarting it")
        try:
            await agent.ready()
        except AccordError as error:
            self.output.note(f"{'reconnecting' if agent.remote else 'the restart'} failed: {error}")
            return False
        if not agent.connected:
            return False  # no restarts are left
        outcome = "reconnected" if agent.remote else "the agent was restarted"
        if self.session.lost is None:
            self.output.note(f"{outcome}; session {self.session.id} continues")
            if retry and self.apply_settings is not None:
                await self.apply_settings(self.session)
            return True
        self.output.note(f"{outcome}, but its session is lost: {self.session.lost}")
        if not retry or self.reopen is None:
            return False
        self.session = await self.reopen()
        return True

    def _expire(self) -> None:
        self._expired = True
        self.stop()


class Interrupts:
    """Counts interrupts.

    The first Ctrl-C asks the agent to stop, the second ends it, the third does not wait. SIGTERM and SIGHUP
    end the agent. An agent that is already ending gets its time, which is bounded: killed at once, it would
    leave its temporary files behind.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.count: int = 0
        self.stop_turn: Callable[[], bool] | None = None
        """Asks the agent to stop. Returns False if no turn was running."""
        self.ending: bool = False
        """Whether the agent is being ended."""
        self._send_note = note
        self._task: asyncio.Task[Any] | None = None

    @contextmanager
    def installed(self) -> Generator[None]:
        """Handle interrupts while the block runs. To end the agent, the task of the block is canceled."""
        self._task = asyncio.current_task()
        handlers = {signal.SIGINT: self.interrupt}
        if sys.platform != "win32":
            handlers |= {signal.SIGTERM: self.end, signal.SIGHUP: self.end}
        with signal_handlers(handlers):
            yield

    def interrupt(self) -> None:
        """Handle Ctrl-C."""
        self.count += 1
        if self.count == 1 and self.stop_turn is not None and self.stop_turn():
            self._send_note("stopping; press Ctrl-C again to end the agent")
        elif not self.ending or self.count > 2:
            self._end_agent()

    def end(self) -> None:
        """Handle SIGTERM and SIGHUP."""
        self.count += 1
        if not self.ending:
            self._end_agent()

    def _end_agent(self) -> None:
        self.ending = True
        if self._task is not None:
            self._task.cancel()


class NoteFilter:
    """Passes notes on, each text once, and no more than `MAX_NOTES`."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._send_note = note
        self._texts: set[str] = set()

    def __call__(self, text: str) -> None:
        """Pass the note on, unless it is a repetition or the limit is reached."""
        if text in self._texts or len(self._texts) > MAX_NOTES:
            return
        self._texts.add(text)
        self._send_note(text if len(self._texts) <= MAX_NOTES else "further notes of this kind are not shown")


class RequestAnswers:
    """Answers the agent's requests. The first one loads the policy and the terminal questions.

    Most short runs have none, and start much faster without them.
    """

    def __init__(self, policy: "Callable[[], Policy]", output: Output, *, interactive: bool) -> None:
        self.wait_until_shown: Callable[[ClientSession], Awaitable[None]] | None = None
        """Waits until everything that the agent sent before its request has been shown."""
        self.steering: SteeringLines | None = None
        """Reads stdin between the questions."""
        self._policy = policy
        self._output = output
        self._interactive = interactive

    @property
    def count(self) -> int:
        """The number of requests so far."""
        if "_loaded" not in self.__dict__:
            return 0
        consent, forms = self._loaded
        return consent.request_count + forms.requests

    @property
    def any_refused(self) -> bool:
        """Whether a permission was refused."""
        return "_loaded" in self.__dict__ and bool(self._loaded[0].refused)

    def handlers(self, *, with_files: bool) -> ClientHandlers:
        """Return the handlers of a client. `with_files` offers the agent files and terminals."""
        return ClientHandlers(
            permissions=self._permission,
            workspace=self._workspace if with_files else None,
            forms=self._form,
            urls=self._address,
            # Never called: it makes the agent list its terminal methods, for `accord agents login`.
            login=run_in_terminal,
            extensions={AGENTAO_ASK_USER: self._question},
        )

    @cached_property
    def _loaded(self) -> "tuple[Consent, TerminalForms]":
        from accord.cli.terminal_user import TerminalForms, TerminalUser
        from accord.frontend.consent import Consent

        user = TerminalUser(self._output) if self._interactive else None
        consent = Consent(self._policy(), user, NoteFilter(self._output.note))
        consent.wait_until_shown = self._wait_until_shown
        return consent, TerminalForms(user, NoteFilter(self._output.note))

    async def _wait_until_shown(self, session: ClientSession) -> None:
        if self.wait_until_shown is not None:
            await self.wait_until_shown(session)

    def _asking(self) -> AbstractContextManager[None]:
        return nullcontext() if self.steering is None else self.steering.paused()

    async def _permission(self, request: "PermissionRequest") -> "PermissionChoice":
        with self._asking():
            return await self._loaded[0](request)

    def _workspace(self, session: ClientSession) -> "Workspace":
        from accord.frontend.consent import permission_workspace

        return permission_workspace(self._loaded[0])(session)

    async def _form(self, form: "ElicitationForm") -> "FormAnswer":
        with self._asking():
            return await self._loaded[1].form(form)

    async def _address(self, address: "ElicitationUrl") -> bool | None:
        with self._asking():
            return await self._loaded[1].address(address)

    async def _question(self, params: Any) -> dict[str, Any]:
        with self._asking():
            return await self._loaded[1].question(params)


class RunJob:
    """Runs one turn with an agent and prints the result."""

    def __init__(
        self,
        arguments: RunArguments,
        prompt: str,
        agent: ConfiguredAgent,
        output: Output,
        schema: "OutputSchema | None" = None,
    ) -> None:
        self._arguments = arguments
        self._prompt = prompt
        self._agent = agent
        self._output = output
        self._schema = schema
        interactive = can_ask()
        default = _permission_default(arguments, agent, interactive=interactive)
        self._answers = RequestAnswers(lambda: agent.policy(default), output, interactive=interactive)
        self._interrupts = Interrupts(output.note)
        self._noise_lines = 0
        self._code: int | None = None
        self._recorder: Recorder | None = None
        self._shown_notices: list[Notice] = []
        self._turn_run: TurnRun | None = None

    async def run(self) -> int:
        """Run the turn, print the result and return the exit code."""
        try:
            with self._interrupts.installed():
                await self._connect_and_run()
        except AccordError as error:
            self._finish(RunResult(error=error))
        except asyncio.CancelledError:
            if not self._interrupts.count:
                raise
            self._finish(RunResult(ended=self._turn_run.interrupted if self._turn_run else None))
        finally:
            if self._recorder is not None:
                self._recorder.close()
        assert self._code is not None, "every path sets the exit code"
        return self._code

    async def _connect_and_run(self) -> None:
        arguments = self._arguments
        source = (
            self._agent.launch(arguments.cwd)
            if arguments.remote is None
            else replace(arguments.remote, on_link=self._show_link)
        )
        handlers = self._answers.handlers(with_files=self._agent.uses_client_files)
        # The task runs while the agent starts, which then has a processor of its own.
        recorder_opened = asyncio.create_task(self._open_recorder())
        async with PendingAgent(source, handlers, self._options()) as agent:
            mcp_servers = supported_servers(self._agent.mcp_servers(), agent, self._output.note)
            choice = SessionChoice(agent, self._agent.name, arguments.cwd, arguments.add_dir, mcp_servers)
            recorder = await recorder_opened
            try:
                session = await self._open_session(choice, recorder)
            except UsageError:  # such as a session that was not found
                recorder.report_failure()
                raise
            gc.enable()
            with self._steering(session):
                turn = self._turn(choice, session, recorder)
                blocks = self._blocks(agent)
                turn.show_earlier_notices(self._shown_notices)
                result = await turn.run(blocks)
                if self._schema is not None:
                    result = await self._schema.check(turn, result, self._output.note)
                self._finish(result)

    def _steering(self, session: ClientSession) -> AbstractContextManager[None]:
        """Send the lines of stdin to the turn while the block runs (`--steer`)."""
        if not self._arguments.steer:
            return nullcontext()
        from accord.cli.steer_lines import SteeringLines

        self._answers.steering = SteeringLines(sys.stdin.fileno(), self._output.note)
        return self._answers.steering.sent_to(session)

    async def _open_recorder(self) -> Recorder:
        self._recorder = Recorder(self._agent.name, self._output.note)
        return self._recorder

    def _options(self) -> ClientOptions:
        timeout = self._arguments.timeout
        return self._agent.options(
            ClientOptions(
                limits=TimeLimits() if timeout is None else TimeLimits(silence=timeout),
                strict=self._arguments.strict,
                observer=self._observe,
                restart=RestartPolicy(),
                on_stderr=self._show_stderr if self._arguments.stderr else None,
                on_notice=self._show_notice,
                features=ClientFeatures(meta={"accord": {"extensions": [AGENTAO_ASK_USER]}}),
            )
        )

    def _show_link(self, lost: str) -> None:
        """Show that the server cannot be reached now, or is back: the turn may go on there."""
        self._output.note(f"the server is lost ({lost}); reconnecting" if lost else "connected again")

    def _show_notice(self, session_id: str, notice: Notice) -> None:
        """Show what is reported while the session is opened: it may take long."""
        self._shown_notices.append(notice)
        self._output.note(notice_line(notice))

    def _show_stderr(self, line: str) -> None:
        self._output.note(f"agent: {line}")

    def _observe(self, report: ClientReport) -> None:
        if report.kind == "oversized":
            self._output.note(f"ignored a message of the agent: {report.detail}")
        if report.kind != "noise":
            return
        self._noise_lines += 1
        if self._noise_lines <= _MAX_NOISE_LINES:
            line = report.frame[:200].decode(errors="replace")
            self._output.note(f"ignored non-JSON output from the agent: {line}")
        elif self._noise_lines == _MAX_NOISE_LINES + 1:
            self._output.note("further non-JSON output is not shown")

    async def _open_session(self, choice: SessionChoice, recorder: Recorder) -> ClientSession:
        if self._arguments.session is not None:
            from accord.frontend.stored_sessions import full_session_id

            session = await choice.reopen(
                await full_session_id(self._arguments.session, choice, recorder.records)
            )
        elif self._arguments.newest:
            session = await choice.reopen(await choice.newest(recorder.records))
        else:
            session = await choice.new()
        await apply_settings(self._arguments, choice.agent, session)
        if self._arguments.model is None and self._arguments.remote is None and self._agent.is_built_in:
            await check_model(session, self._agent, self._arguments.cwd, self._prompt, self._output.note)
        recorder.begin(session)
        self._output.opened(session, choice.agent)
        return session

    def _turn(self, choice: SessionChoice, session: ClientSession, recorder: Recorder) -> TurnRun:
        arguments, restart = self._arguments, session.agent.options.restart
        has_history = arguments.session or arguments.newest
        turn = self._turn_run = TurnRun(
            session,
            self._output,
            lambda: recorder.recording,
            requests_served=lambda: self._answers.count,
            deadline=arguments.deadline,
            retries=restart.max_restarts if arguments.retry and restart is not None else 0,
            apply_settings=lambda session: apply_settings(arguments, choice.agent, session),
            reopen=None if has_history else lambda: self._open_session(choice, recorder),
        )
        self._answers.wait_until_shown = turn.wait_until_request_shown
        self._interrupts.stop_turn = turn.stop
        return turn

    def _blocks(self, agent: RemoteAgent) -> list[ContentBlock]:
        arguments, note = self._arguments, self._output.note
        mentions = find_mentions(self._prompt, (arguments.cwd, *arguments.add_dir))
        for text in mentions.notes:
            note(text)
        attachments = AttachmentBuilder(agent.capabilities, note)
        blocks: list[ContentBlock] = [TextContent(self._prompt)]
        blocks += [attachments.for_mention(path) for path in mentions.paths]
        blocks += [attachments.for_attachment(path) for path in arguments.attach]
        if self._schema is not None:
            blocks.append(TextContent(self._schema.instruction))
        return blocks

    def _finish(self, result: RunResult) -> None:
        """Print the result, once. Errors while the agent is being ended change nothing."""
        if self._code is not None:
            return
        self._interrupts.ending = True
        if result.error is not None:
            from accord.frontend.sign_in import clear_error

            result.error = clear_error(result.error, self._agent if self._arguments.remote is None else None)
        if result.error is not None and not self._interrupts.count:
            hints = list(self._hints(result.error))
            for line in hints:
                self._output.note(line)
            if hints and isinstance(result.error, AuthRequired):
                result.error.methods = ()  # the notes name them, with what to do
        self._code = self._exit_code(result)
        self._output.finished(result.ended, result.error, self._code, result.value)

    def _hints(self, error: AccordError) -> Iterable[str]:
        from accord.frontend.sign_in import failure_hints

        arguments = self._arguments
        return failure_hints(
            error,
            None if arguments.remote is not None else self._agent,
            arguments.cwd,
            named=not arguments.command,
        )

    def _exit_code(self, result: RunResult) -> int:
        if self._interrupts.count:
            return INTERRUPTED
        if result.error is not None:
            return exit_code(result.error)
        if result.ended is not None and result.ended.stop_reason not in ("end_turn", "cancelled"):
            return FAILED
        if self._answers.any_refused:
            return NO_PERMISSION
        return DONE if result.ended is not None and result.ended.stop_reason == "end_turn" else FAILED


def _permission_default(
    arguments: RunArguments, agent: ConfiguredAgent, *, interactive: bool
) -> PermissionDefault | None:
    """Return the default of the permission rules: the option, else the configuration, else ask or reads.

    None keeps the default of the configuration.
    """
    if arguments.permissions is not None:
        return arguments.permissions
    if not interactive and agent.unattended is not None:
        return agent.unattended
    if agent.permissions is not None and agent.permissions.permission_default is not None:
        return None
    return "ask" if interactive else "reads"
