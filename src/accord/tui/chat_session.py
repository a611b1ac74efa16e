"""One session with one agent: connects, signs in, prompts, follows, restarts.

Imported on first use: it loads accord.client.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from accord.client import (
    AgentCommand,
    AgentEnded,
    ClientFeatures,
    ClientHandlers,
    ClientOptions,
    ClientSession,
    RemoteAgent,
)
from accord.client.client_options import ClientReport
from accord.client.remote_agent import PendingAgent
from accord.clock import Clock
from accord.errors import AccordError, AuthRequired, StoreError
from accord.frontend.agent_config import ConfiguredAgent
from accord.frontend.agent_config.project_trust import Trusting, refuse
from accord.frontend.attachments import AttachmentBuilder, mentions_in
from accord.frontend.consent import Consent, guarded_workspace
from accord.frontend.forms import ASK_USER
from accord.frontend.recording import RecordedSessions, Recorder
from accord.frontend.session_choice import SessionChoice, apply_settings, reachable
from accord.frontend.sign_in import how_to_sign_in, what_to_set
from accord.policy.rules import PermissionDefault
from accord.safe_text import clean_line, one_line
from accord.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    AgentThoughtChunk,
    AuthMethod,
    AuthMethodTerminal,
    CompactionSummaryChunk,
    CompactionUpdate,
    ContentBlock,
    TextContent,
    UserMessageChunk,
)
from accord.schema.dialects import variables
from accord.session import (
    MessageChanged,
    PlanChanged,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
)
from accord.trace import FrameRing, TappedTransport
from accord.tui.chat_types import ChatStart, Draft, DraftQueue, Phase, SessionDisplay

if TYPE_CHECKING:
    from accord.tui.parts.markdown_part import Tone
    from accord.tui.question_dialogs import DialogHandler


# MERGED tui.signing: Signing in to an agent from the screen, when it says that somebody has to.


class SignInChooser(Protocol):
    """Who can be asked how."""

    async def sign_in(
        self, agent: str, why: str, methods: Sequence[AuthMethod], launch: AgentCommand | None
    ) -> AuthMethod | None:
        """One of the methods, or None: not now."""
        ...


async def sign_in(
    agent: RemoteAgent,
    name: str,
    error: AuthRequired,
    chooser: SignInChooser,
    launch: AgentCommand | None,
    note: "Callable[[str, Tone, str], None]",
) -> bool:
    """Let the user choose a way and go it; whether it is worth while to try again what was refused.

    `name` is what the user calls the agent, `launch` is how the agent was started here. Without one its program cannot be run in this terminal.
    """
    offered = error.methods or agent.auth_methods
    methods = [
        method for method in offered if launch is not None or not isinstance(method, AuthMethodTerminal)
    ]
    if not methods:
        return False
    method = await chooser.sign_in(name, str(error), methods, launch)
    if method is None:
        return False
    names = variables(method)
    if names is not None:
        _explain(names, name, launch, note)
        return False
    called = one_line(clean_line(method.name))
    try:
        if not isinstance(method, AuthMethodTerminal):
            note(f"Signing in by {called!r}: the agent may open a browser.", "quiet", "")
        await agent.sign_in(method)
    except AccordError as failure:
        note(str(failure), "bad", "")
    else:
        note(f"Signed in by {called!r}.", "good", "")
    return True


def _explain(
    names: Sequence[str], agent: str, launch: AgentCommand | None, note: "Callable[[str, Tone, str], None]"
) -> None:
    """A key in the environment: nothing to call, but to set, and to hand on."""
    listed = ", ".join(map(one_line, names))
    if launch is None:
        note(f"{agent} wants {listed} in its environment, on the machine where it runs.", "warn", "")
        return
    lines = list(what_to_set(names, agent, launch))
    if lines:
        note(
            f"{agent} wants {listed} in its environment; then start this client again.",
            "warn",
            "\n".join(lines),
        )
    else:
        note(f"{agent} gets {listed} already, and does not accept what it says.", "warn", "")


# MERGED tui.blocks: A draft as the blocks of a prompt: its text, the files it mentions, what is attached to it.


def blocks_of(
    draft: Draft, folders: Sequence[str], capabilities: AgentCapabilities, note: Callable[[str], None]
) -> list[ContentBlock]:
    """Reads files: for a thread. Raises UsageError where one cannot be read."""
    attaching = AttachmentBuilder(capabilities, note)
    found = mentions_in(draft.text, folders, "paste its path to attach it")
    for text in found.notes:
        note(text)
    printed = [attachment.text for attachment in draft.attachments if attachment.text]
    text = "\n\n".join(filter(None, (draft.text, *printed)))
    blocks: list[ContentBlock] = [TextContent(text)] if text.strip() else []
    blocks += [attaching.mentioned(path) for path in found.paths]
    blocks += [attaching.attached(attachment.path) for attachment in draft.attachments if attachment.path]
    return blocks


# MERGED tui.offer: What an agent is connected with: who may be asked, what it is offered, and under which options.


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """For one connection."""

    start: ChatStart
    questions: "DialogHandler | None"
    """None where nobody can be asked."""
    warn: Callable[[str], None]
    clock: Clock
    ring: FrameRing
    """Where the frames of the connection go, to be looked at."""
    heard: Callable[[str], None]
    """Gets what the agent writes to stderr."""

    def handlers(self, server: ConfiguredAgent) -> ClientHandlers:
        """What the agent may ask for."""
        asked = self.questions
        consent = Consent(server.policy(self._word(server)), asked, self.warn)
        # The agent of this package works on this machine anyway, and keeps its own rules: a detour over us gains nothing.
        offered = server.name != "accord" or bool(server.command)
        return ClientHandlers(
            permissions=consent,
            workspace=guarded_workspace(consent) if offered else None,
            forms=None if asked is None else asked.form,
            urls=None if asked is None else asked.address,
            login=None if asked is None else asked.login,
            extensions={} if asked is None else {ASK_USER: asked.question},
        )

    def options(self, server: ConfiguredAgent) -> ClientOptions:
        """How the connection is kept."""
        options = server.options(
            ClientOptions(
                clock=self.clock,
                observer=self._observe,
                wrap=lambda transport: TappedTransport(transport, self.ring, ours="client"),
                on_stderr=self.heard,
                features=ClientFeatures(
                    meta={"accord": {"extensions": [ASK_USER] if self.questions else []}}
                ),
            )
        )
        return replace(options, restart=None)  # the user sees what happened, and restarts it with one key

    def trusting(self) -> Trusting:
        """Whether a project's file counts."""
        return refuse if self.questions is None else self.questions.trusting()

    def _word(self, server: ConfiguredAgent) -> PermissionDefault | None:
        """What takes the place of the default in the user's rules: what was said, else what their file says, else by who is there."""
        said = self.start.permissions
        if said is None and self.questions is None and server.unattended is not None:
            return server.unattended
        if said is not None or (
            server.permissions is not None and server.permissions.permission_default is not None
        ):
            return said
        return "reads" if self.questions is None else "ask"

    def _observe(self, report: ClientReport) -> None:
        if report.kind == "oversized":
            self.warn(f"a message of the agent is left out: {report.detail}")


# MERGED tui.recalled: The history of a session whose agent takes it up without telling it again: what was recorded here the last time.

_HISTORY: Final = (
    AgentMessageChunk, AgentThoughtChunk, UserMessageChunk, MessageChanged, ToolCallChanged, PlanChanged,
    CompactionUpdate, CompactionSummaryChunk, TurnStarted, TurnEnded, TurnCancelling,
)  # fmt: skip


def recall(records: RecordedSessions, session: ClientSession, agent: str) -> None:
    """Let the session's state have what is known of its history; settings stay as the agent says they are."""
    try:
        recorded = records.find(session.id, agent=agent)
        if recorded is None:
            return
        for event in records.events(recorded):
            if isinstance(event, _HISTORY):
                session.state.apply(event)
    except StoreError:
        return  # then it begins without
    if session.state.turn != "idle":
        session.state.apply(TurnEnded())


# MERGED tui.conversation: One session with one agent, from connecting to its end: prompts go out one after the other, events come in.
#
# Knows nothing of the screen but a small contract. Everything about the session itself is in the client's own state.

_BREATH: Final = 100
"""Events after which keys get their turn."""


class ChatSession:
    """Connects, opens, prompts, restarts."""

    def __init__(
        self,
        start: ChatStart,
        stage: SessionDisplay,
        questions: "DialogHandler | None",
        queue: DraftQueue,
        clock: Clock,
    ) -> None:
        """Without `questions` nobody is there who could be asked."""
        self.phase: Phase = "connecting"
        self.agent: RemoteAgent | None = None
        self.session: ClientSession | None = None
        self.server: ConfiguredAgent | None = None
        self._start = start
        self._stage = stage
        self._questions = questions
        self._queue = queue
        self._clock = clock
        self.ring = FrameRing(clock=clock)
        """What crosses the connection, for whoever looks."""
        self._opening: SessionChoice | None = None
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
            self.agent = await PendingAgent(
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

    async def _admitted(self, opening: SessionChoice) -> ClientSession:
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

    async def _entered(self, opening: SessionChoice) -> ClientSession:
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

    async def _open(self, opening: SessionChoice, session: ClientSession) -> None:
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

    def _opening_for(self, agent: RemoteAgent, server: ConfiguredAgent) -> SessionChoice:
        servers = reachable(server.mcp_servers(), agent, self._warn)
        return SessionChoice(agent, server.name, self._start.cwd, self._start.add_dir, servers)

    def _offer(self) -> ConnectionOptions:
        return ConnectionOptions(
            self._start, self._questions, self._warn, self._clock, self.ring, self._heard
        )

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
