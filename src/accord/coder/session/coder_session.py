"""One session between turns: its log, its model history, the chosen mode and model, usage and cost so far."""

import asyncio
import logging
import os
import time
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct, ValidationError, convert, field, to_builtins

from accord import telemetry
from accord.agent.agent_session import AgentSession
from accord.clock import Clock
from accord.coder.definitions.definition_folders import agent_folders
from accord.coder.model_history import HISTORY_RECORD, Message, ModelHistory, apply_entry
from accord.coder.models.model import Effort, RequestUsage
from accord.coder.models.model_name import ModelName
from accord.coder.session.steering import Steering
from accord.errors import InvalidParams, NotFound, StoreError
from accord.paths import config_folder
from accord.policy.mode_names import MODES, Mode, narrower
from accord.schema.content import Usage as TurnUsage
from accord.schema.updates import Cost, PlanEntry, UsageUpdate
from accord.store.journal import Journal
from accord.store.records import LogRecord

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.definitions.agents import AgentDefinition, AgentSet
    from accord.coder.mcp.host import McpHost
    from accord.coder.resources import CoderResources
    from accord.coder.session.rewind import SessionRewind
    from accord.coder.turn.session_runtime import SessionRuntime
    from accord.frontend.checkpoints.file_checkpoints import FileCheckpoints


class UsageTotal(Struct):
    """The sum of the tokens and costs of model requests."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached_read: int = 0
    cached_write: int = 0
    thought: int = 0
    cost: float = 0.0
    priced: bool = True
    """Whether the price of every request is known."""

    def add(self, usage: RequestUsage) -> None:
        """Add one request."""
        self.requests += 1
        self.input += usage.input
        self.output += usage.output
        self.cached_read += usage.cached_read
        self.cached_write += usage.cached_write
        self.thought += usage.thought
        self.cost += usage.cost or 0.0
        self.priced = self.priced and usage.cost is not None

    def turn_usage(self) -> TurnUsage | None:
        """The usage in the response to a prompt; None if the model was not asked."""
        if not self.requests:
            return None
        return TurnUsage(
            self.input + self.output,
            self.input,
            self.output,
            self.thought or UNSET,
            self.cached_read or UNSET,
            self.cached_write or UNSET,
        )

    def usage_update(self, used: int, size: int) -> UsageUpdate:
        """The context usage, with the cost of the session so far if it is known."""
        is_known = self.priced and self.requests > 0
        return UsageUpdate(max(used, 0), size, Cost(round(self.cost, 6), "USD") if is_known else UNSET)


class RemoteSession(Struct):
    """The session of another agent that answers for ours."""

    agent: str
    session_id: str


REMOTE_RECORD: Final = "remote"
CHOICES_RECORD: Final = "chosen"
USAGE_RECORD: Final = "spent"
SERVERS_RECORD: Final = "servers"
"""The kinds of records in a session's log, besides events and the model history."""

_LOG = logging.getLogger("accord.coder")
_CLEANED: Final = "checkpoints were cleaned up"


class SessionChoices(Struct, omit_defaults=True):
    """The model settings that the user chose for a session."""

    model: str
    effort: Effort | None = None
    named: bool = False
    """Whether the client chose the rehearsal by name, although no setting names it."""


class StoredSessionState(Struct):
    """The state of a stored session, read from its log."""

    messages: list[Message] = []
    plan: Sequence[PlanEntry] = ()
    usage: UsageTotal = field(default_factory=UsageTotal)
    has_title: bool = False
    mode: str | None = None
    choices: SessionChoices | None = None
    servers: list[str] | None = None
    remote: RemoteSession | None = None
    context_tokens: int = 0
    """Tokens in the context, as last reported."""

    def apply(self, record: LogRecord) -> None:
        """Apply a record that is not an event.

        Raises `MsgspecError` for a history entry that cannot be read. Other records that cannot be read are
        skipped.
        """
        if record.kind == HISTORY_RECORD:
            apply_entry(self.messages, record.data)
            return
        with suppress(ValidationError):
            if record.kind == USAGE_RECORD:
                self.usage.add(convert(record.value, RequestUsage, strict=False))
            elif record.kind == CHOICES_RECORD:
                self.choices = convert(record.value, SessionChoices)
            elif record.kind == REMOTE_RECORD:
                self.remote = convert(record.value, RemoteSession | None)
            elif record.kind == SERVERS_RECORD:
                self.servers = convert(record.value, list[str])


class CoderSession:
    """A session of the coding agent; the `data` of its `AgentSession`.

    What only turns need (tools, permissions, the sandbox) is in its `SessionRuntime`, created with the first
    prompt.
    """

    def __init__(
        self,
        resources: "CoderResources",
        agent_session: AgentSession,
        journal: Journal,
        model: ModelName,
        stored: StoredSessionState,
    ) -> None:
        self.resources = resources
        self.agent_session = agent_session
        self.journal = journal
        self.model: ModelName = model
        self.model_is_named: bool = True
        """False for the rehearsal if it is used only because no model is set up."""
        self.remote_session: RemoteSession | None = stored.remote
        self._named_by_client = stored.choices is not None and stored.choices.named
        self.effort: Effort | None = resources.config.models.effort
        self.history: ModelHistory = ModelHistory(journal, stored.messages)
        self.plan: Sequence[PlanEntry] = stored.plan
        self.reported_tools: set[str] = set()
        """Tools that the model does not get, as the user knows."""
        self.usage: UsageTotal = stored.usage
        self.has_title: bool = stored.has_title
        self.is_fork: bool = False
        """Whether it was created from another session in this process."""
        self.context_tokens: int = stored.context_tokens
        self.mode_before_plan: Mode = "ask"
        self.agent: AgentDefinition | None = None
        """The custom agent that the user chose as the mode, as it was then."""
        self._mode_before_agent: Mode = narrower("ask", mode_of(resources.first_mode))
        self.mcp: McpHost | None = None
        self.steering: Steering = Steering()
        self.rewind_lock: asyncio.Lock = asyncio.Lock()
        """Held while the session goes back; a prompt waits for its end."""
        self._runtime: SessionRuntime | None = None
        self._runtime_lock = asyncio.Lock()
        self.logged_turn: Turn | None = None
        """The turn whose end is not logged yet."""
        self.prompt_id: str = ""
        """The message id of the prompt of the current turn."""
        if stored.choices is not None:
            self.effort = stored.choices.effort
        agent_session.data = self
        agent_session.on_update = journal.append  # logged before it is sent

    @property
    def id(self) -> str:
        return self.agent_session.id

    @property
    def clock(self) -> Clock:
        return self.resources.options.clock

    @cached_property
    def checkpoints(self) -> "FileCheckpoints":
        """The files that turns have changed."""
        from accord.frontend.checkpoints.checkpoint_store import CheckpointStore, checkpoints_folder
        from accord.frontend.checkpoints.file_checkpoints import FileCheckpoints

        store = CheckpointStore(checkpoints_folder(self.resources.options.store), self.id)
        return FileCheckpoints(store, self.agent_session.roots)

    @property
    def knows_agents(self) -> bool:
        """Whether there are or were files of custom agents."""
        return "agents" in self.__dict__

    @cached_property
    def agents(self) -> "AgentSet":
        """The custom agents."""
        from accord.coder.definitions.agents import AgentSet

        return AgentSet()

    @cached_property
    def rewinds(self) -> "SessionRewind":
        """Goes back to earlier messages."""
        from accord.coder.session.rewind import SessionRewind

        return SessionRewind(self)

    # -- log -------------------------------------------------------------------------------------------------

    @contextmanager
    def unlogged(self) -> Generator[None]:
        """Send updates that are in the log already."""
        listener, self.agent_session.on_update = self.agent_session.on_update, None
        try:
            yield
        finally:
            self.agent_session.on_update = listener

    def add_usage(self, usage: RequestUsage) -> None:
        """Add the usage of one model request and log it."""
        self.usage.add(usage)
        self.journal.record(USAGE_RECORD, to_builtins(usage))

    def log_choices(self) -> None:
        """Log the chosen model and effort."""
        choices = SessionChoices(str(self.model), self.effort, self._named_by_client)
        self.journal.record(CHOICES_RECORD, to_builtins(choices))

    def list_changed(self) -> None:
        """Tell clients that follow the list of sessions that this entry has changed."""
        if (index := self.resources.session_index) is not None:
            index.changed(self.id, self.agent_session.cwd)

    # -- settings --------------------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """The current mode. A custom agent works in the mode before it, or in a narrower one of its own."""
        if self.agent is not None:
            return self.agent.effective_mode(self._mode_before_agent)
        mode = self.agent_session.mode
        return mode_of(mode) if mode in MODES else narrower("ask", self._mode_before_agent)

    def first_mode(self, name: str) -> str:
        """The mode to open the session with: a mode or a custom agent. Reads the agents if there are any."""
        if agent_folders().exist(self.agent_session.cwd):
            self.agents.load(self.agent_session.cwd)
            self.agent = self.agents.usable.get(name)
        return name if self.agent is not None else mode_of(name)

    def before_mode_change(self, mode_id: str) -> None:
        """Call this before the mode of the session changes. Raises InvalidParams for an unusable agent."""
        previous, agent = self.mode, None
        if mode_id not in MODES and (agent := self.agents.usable.get(mode_id)) is None:
            raise InvalidParams(f"the agent {mode_id!r} cannot be used: its file is gone, or not trusted")
        if mode_id == "plan" and previous != "plan":
            self.mode_before_plan = previous
        if agent is not None and self.agent is None:
            self._mode_before_agent = previous
        self.agent = agent
        # The mode changes only after this call; open permission requests are decided again then.
        asyncio.get_running_loop().call_soon(self._mode_changed)

    def _mode_changed(self) -> None:
        if self._runtime is not None:
            self._runtime.mode_changed()

    def use_model(self, model: ModelName) -> None:
        """Use this model from the next request on. The client named it."""
        self._named_by_client |= not self.model_is_named and model == self.model
        self.model = model
        self.model_is_named = True
        self.log_choices()

    def use_remote_session(self, remote: RemoteSession | None) -> None:
        """Remember the session of another agent that answers for this one; None forgets it."""
        if remote != self.remote_session:
            self.remote_session = remote
            self.journal.record(REMOTE_RECORD, to_builtins(remote))

    def use_effort(self, effort: Effort | None) -> None:
        """Use this reasoning effort from the next request on."""
        self.effort = effort
        self.log_choices()

    # -- background work -------------------------------------------------------------------------------------

    async def start_background_work(self) -> None:
        """Start the MCP servers, offer the slash commands and list the models, once the session is open."""
        if self.agent_session.mcp_servers or self._has_own_servers():
            from accord.coder.mcp.host import start_servers

            with telemetry.continued(self.agent_session.request.meta):
                self.mcp = start_servers(self)
        runtime = await self.runtime()
        await runtime.offer_commands()
        await runtime.report_sandbox()
        from accord.coder.session.session_options import ask_for_models

        await ask_for_models(self)
        await _clean_checkpoints(self.resources)

    def _has_own_servers(self) -> bool:
        """Whether the user's config may name MCP servers."""
        names = self.resources.config.mapping.get("mcp", {})
        return any(isinstance(value, dict) for value in dict(names).values()) or os.path.exists(
            os.path.join(config_folder(), "mcp.json")
        )

    def spawn(self, work: "Coroutine[Any, Any, None]") -> None:
        """Run a task beside the turns, unless the session is closed."""
        if self.agent_session.state == "closed":
            work.close()
        else:
            self.agent_session.spawn(work)

    # -- turns -----------------------------------------------------------------------------------------------

    async def runtime(self) -> "SessionRuntime":
        """The runtime for turns, created on first use."""
        async with self._runtime_lock:
            if self._runtime is None:
                # In a thread, so that other sessions are served meanwhile.
                await asyncio.to_thread(import_module, "accord.coder.turn.session_runtime")
                from accord.coder.turn.session_runtime import SessionRuntime

                self._runtime = await SessionRuntime.create(self)
            return self._runtime

    @property
    def existing_runtime(self) -> "SessionRuntime | None":
        """The runtime, if a turn has created it."""
        return self._runtime

    async def aclose(self) -> None:
        """Release everything except the log in the store."""
        runtime, self._runtime = self._runtime, None
        try:
            if runtime is not None:
                await runtime.aclose()
            if self.mcp is not None:
                await self.mcp.aclose()
            if "checkpoints" in self.__dict__:
                await self.checkpoints.aclose()
        finally:
            try:
                self.journal.close()
            except StoreError as error:
                _LOG.error("%s", error)


def prompt_id(seq: int) -> str:
    """The message id of a prompt, from the number of its record in the log."""
    return f"prompt-{seq}"


async def _clean_checkpoints(resources: "CoderResources") -> None:
    """Remove the checkpoints of deleted and long unused sessions, once per process."""
    store = resources.options.store
    if _CLEANED in resources.reported_messages or not (store is None or isinstance(store, os.PathLike)):
        return
    resources.reported_messages.add(_CLEANED)
    from accord.frontend.checkpoints.checkpoint_store import checkpoints_folder, clean_up, stored_sessions

    folder = checkpoints_folder(store)
    deleted: set[str] = set()
    with suppress(OSError, StoreError):
        for session_id in await asyncio.to_thread(stored_sessions, folder):
            try:
                resources.store.summary(session_id)
            except NotFound:
                deleted.add(session_id)
        await asyncio.to_thread(clean_up, folder, deleted, time.time())


def mode_of(name: Any) -> Mode:
    """The mode with this name; `ask` for an unknown name."""
    for mode in MODES:
        if mode == name:
            return mode
    return "ask"
