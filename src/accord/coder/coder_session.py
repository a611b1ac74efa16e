"""One session between turns: its log, its model history, the chosen mode and model, tokens and cost so far."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct, ValidationError, convert, field, to_builtins

from accord.agent.agent_session import AgentSession
from accord.clock import Clock
from accord.coder.model_history import KIND, Message, ModelHistory, fold
from accord.coder.models.model import Effort, RequestUsage
from accord.coder.models.model_name import ModelName
from accord.errors import StoreError
from accord.policy.request import MODES, Mode
from accord.schema.content import Usage as TurnUsage
from accord.schema.updates import Cost, PlanEntry, SessionUpdate, UsageUpdate
from accord.session import Event
from accord.session.events import TurnCancelling, TurnStarted, turn_ended
from accord.store.journal import Journal
from accord.store.records import LogRecord

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.mcp.host import McpHost
    from accord.coder.resources import CoderResources
    from accord.coder.session_runtime import SessionRuntime


# MERGED coder.spending: What a turn, and a session, has cost: tokens, and money where the prices are known.


class UsageTotal(Struct):
    """A sum of model requests."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached_read: int = 0
    cached_write: int = 0
    thought: int = 0
    cost: float = 0.0
    priced: bool = True
    """Whether the cost is that of every request."""

    def add(self, usage: RequestUsage) -> None:
        """One more request."""
        self.requests += 1
        self.input += usage.input
        self.output += usage.output
        self.cached_read += usage.cached_read
        self.cached_write += usage.cached_write
        self.thought += usage.thought
        self.cost += usage.cost or 0.0
        self.priced = self.priced and usage.cost is not None

    def of_turn(self) -> TurnUsage | None:
        """As the answer to a prompt says it; None where no model was asked."""
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

    def of_window(self, used: int, size: int) -> UsageUpdate:
        """How full the context is, and what the session has cost so far where that is known."""
        known = self.priced and self.requests > 0
        return UsageUpdate(max(used, 0), size, Cost(round(self.cost, 6), "USD") if known else UNSET)


# MERGED coder.conversation: One session of the coding agent between its turns: its log, what its model remembers, and what was chosen for it.
#
# What only a turn needs (tools, permissions, the sandbox) is on its `SessionRuntime`, made with the first prompt.

CHOSEN: Final = "chosen"
SPENT: Final = "spent"
SERVERS: Final = "servers"
"""The kinds of records, beside events and the model's history, in a session's log."""

_LOG = logging.getLogger("accord.coder")


class SessionChoices(Struct, omit_defaults=True):
    """What the user chose for a session beside its mode."""

    model: str
    effort: Effort | None = None


class StoredSessionState(Struct):
    """What the log of a session says about it, for one that is taken up again."""

    messages: list[Message] = []
    plan: Sequence[PlanEntry] = ()
    spending: UsageTotal = field(default_factory=UsageTotal)
    titled: bool = False
    mode: str | None = None
    chosen: SessionChoices | None = None
    servers: list[str] | None = None
    used: int = 0
    """Tokens in the context, as last reported."""

    def take(self, record: LogRecord) -> None:
        """Take in what a record says, unless it is an event. Raises `MsgspecError` where the model would not remember the truth;
        what else cannot be understood is left out."""
        if record.kind == KIND:
            fold(self.messages, record.data)
            return
        with suppress(ValidationError):
            if record.kind == SPENT:
                self.spending.add(convert(record.value, RequestUsage, strict=False))
            elif record.kind == CHOSEN:
                self.chosen = convert(record.value, SessionChoices)
            elif record.kind == SERVERS:
                self.servers = convert(record.value, list[str])


class CoderSession:
    """A session as the coding agent holds it; the `data` of its `AgentSession`."""

    def __init__(
        self,
        coder: "CoderResources",
        session: AgentSession,
        journal: Journal,
        model: ModelName,
        past: StoredSessionState,
    ) -> None:
        self.coder = coder
        self.session = session
        self.journal = journal
        self.model = model
        self.effort: Effort | None = coder.config.models.effort
        self.history = ModelHistory(journal, past.messages)
        self.plan: Sequence[PlanEntry] = past.plan
        self.spending = past.spending
        self.titled = past.titled
        self.used = past.used
        self.mode_before_plan: Mode = "ask"
        self.mcp: McpHost | None = None
        self._bench: SessionRuntime | None = None
        self._making = asyncio.Lock()
        self._turn: Turn | None = None
        """The turn whose end is not logged yet."""
        if past.chosen is not None:
            self.effort = past.chosen.effort

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def clock(self) -> Clock:
        """What time it is."""
        return self.coder.start.clock

    # -- its log ---------------------------------------------------------------------------------------------

    def log(self, update: SessionUpdate) -> None:
        """Log what the client is about to be told."""
        self.journal.append(update)

    def turn_begins(self, turn: "Turn") -> None:
        """Log a prompt. A turn before it that was answered without having stopped counts as over by now."""
        unstopped, self._turn = self._turn, turn
        if unstopped is not None:
            self.journal.append(TurnCancelling(), turn_ended("cancelled"))
        self.journal.append(TurnStarted(turn.blocks))

    def turn_ends(self, turn: "Turn", *how: Event) -> None:
        """Log the end of a turn, unless it comes so late that it is logged already, or that the session is closed."""
        if self._turn is turn:
            self._turn = None
            if not self.journal.closed:
                self.journal.append(*how)

    def spend(self, usage: RequestUsage) -> None:
        """A request of the session has used this."""
        self.spending.add(usage)
        self.journal.record(SPENT, to_builtins(usage))

    def note_choice(self) -> None:
        """Log the model and what else is chosen."""
        self.journal.record(CHOSEN, to_builtins(SessionChoices(str(self.model), self.effort)))

    # -- what is chosen --------------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """The mode in force; what is no known mode is the careful one."""
        return mode_of(self.session.mode)

    def mode_chosen(self, mode_id: str) -> None:
        """The client or the agent is about to change the mode."""
        if mode_id == "plan" and self.mode != "plan":
            self.mode_before_plan = self.mode
        # The mode is another only after this; whoever decided by the old one looks again then.
        asyncio.get_running_loop().call_soon(self._mode_changed)

    def _mode_changed(self) -> None:
        if self._bench is not None:
            self._bench.mode_changed()

    def use_model(self, model: ModelName) -> None:
        """Think with this model from the next request on."""
        self.model = model
        self.note_choice()

    def use_effort(self, effort: Effort | None) -> None:
        """Think this hard from the next request on."""
        self.effort = effort
        self.note_choice()

    # -- its background --------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """What goes on once the session is open: its servers start, its commands are offered, its models are listed."""
        if self.session.mcp_servers:
            from accord.coder.mcp.host import start_servers

            self.mcp = start_servers(self)
        bench = await self.bench()
        await bench.offer_commands()
        await bench.announce()
        from accord.coder.session_options import ask_for_models

        await ask_for_models(self)

    def soon(self, work: "Coroutine[Any, Any, None]") -> None:
        """Do something beside the turns, unless the session is closed by now."""
        if self.session.state == "closed":
            work.close()
        else:
            self.session.spawn(work)

    # -- its turns -------------------------------------------------------------------------------------------

    async def bench(self) -> "SessionRuntime":
        """What turns work with, made on first use."""
        async with self._making:
            if self._bench is None:
                await asyncio.to_thread(
                    import_module, "accord.coder.session_runtime"
                )  # others are served meanwhile
                from accord.coder.session_runtime import SessionRuntime

                self._bench = await SessionRuntime.make(self)
            return self._bench

    @property
    def made_bench(self) -> "SessionRuntime | None":
        """The workbench, if a turn has needed one yet."""
        return self._bench

    async def aclose(self) -> None:
        """Free what the session holds; its log stays."""
        bench, self._bench = self._bench, None
        try:
            if bench is not None:
                await bench.aclose()
            if self.mcp is not None:
                await self.mcp.aclose()
        finally:
            try:
                self.journal.close()
            except StoreError as error:
                _LOG.error("%s", error)


def mode_of(name: Any) -> Mode:
    """The mode of this name; `ask` for anything else."""
    for mode in MODES:
        if mode == name:
            return mode
    return "ask"
