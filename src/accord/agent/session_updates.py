"""Updates for plans, compactions and subagents, the ids in them, and what the client can receive.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from msgspec import UNSET

from accord.agent.client import Client, check_valid
from accord.agent.session_options import SessionOptions
from accord.errors import NotOffered, RpcError, UsageError
from accord.schema.base import Error
from accord.schema.content import (
    ContentBlock,
    TextContent,
)
from accord.schema.session_requests import ConfigOptionUpdate
from accord.schema.updates import (
    CompactionSummaryChunk,
    CompactionUpdate,
    IdleStateUpdate,
    Notice,
    Plan,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    PlanFile,
    PlanItems,
    PlanMarkdown,
    PlanRemoved,
    PlanUpdate,
    PlanUpdateContent,
    RequiresActionStateUpdate,
    RunningStateUpdate,
    SessionCancelCapabilities,
    SessionMessage,
    SessionMessageChunk,
    SessionUpdate,
    StateUpdate,
    SubagentSessionCapabilities,
    SubagentUpdate,
)

if TYPE_CHECKING:
    from accord.agent.agent_session import AgentSessionCore

Step: TypeAlias = (
    PlanEntry | str | tuple[str, PlanEntryStatus] | tuple[str, PlanEntryStatus, PlanEntryPriority]
)
"""A step of a plan: text, status (default `pending`) and priority (default `medium`)."""

_REQUIRED_CAPABILITIES: Final[dict[type, tuple[str, Callable[[Client], bool]]]] = {
    Notice: ("session.notices", lambda client: client.shows_notices),
    CompactionUpdate: ("session.compaction", lambda client: client.shows_compaction),
    CompactionSummaryChunk: ("session.compaction", lambda client: client.shows_compaction),
    PlanUpdate: ("plan", lambda client: client.shows_several_plans),
    PlanRemoved: ("plan", lambda client: client.shows_several_plans),
    SubagentUpdate: ("subagents", lambda client: client.shows_subagents),
    SessionMessage: ("subagents", lambda client: client.shows_subagents),
    SessionMessageChunk: ("subagents", lambda client: client.shows_subagents),
}
_CONTENT_BLOCKS: Final = get_args(ContentBlock)
_UPDATES: Final = frozenset(get_args(SessionUpdate))


class Compaction:
    """`async with session.compaction() as compaction:`. Sends nothing to clients without compactions."""

    def __init__(self, core: "AgentSessionCore") -> None:
        self.id: str = core.ids.compaction()
        self._core = core
        self._open = False

    async def __aenter__(self) -> "Compaction":
        self._open = True
        self._push(CompactionUpdate(self.id, "in_progress"))
        await self._core.session.drain()
        return self

    async def summary(self, content: str | ContentBlock) -> None:
        """Append to the summary, which is shown to the user."""
        if not self._open:
            raise UsageError("the compaction has ended; cannot append to its summary")
        self._push(CompactionSummaryChunk(self.id, content_block(content)))
        await self._core.session.drain()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if error is None:
            self._push(CompactionUpdate(self.id, "completed"))
        elif isinstance(error, asyncio.CancelledError):
            self._push(CompactionUpdate(self.id, "cancelled"))
        else:
            self._push(CompactionUpdate(self.id, "failed", UNSET, str(error) or type(error).__name__))

    def _push(self, update: SessionUpdate) -> None:
        if self._core.session.client.shows_compaction and not self._core.closed:
            self._core.push(update)


class Subagent:
    """A child session (unstable), announced on its parent. Sends nothing to clients without subagents."""

    def __init__(
        self, parent: "AgentSessionCore", title: str | None, cancel: Callable[[], object] | None
    ) -> None:
        self.id: str = new_session_id()
        self.shown: bool = parent.session.client.shows_subagents
        """Whether the client shows subagents."""
        self._parent = parent
        if self.shown:
            parent.push(
                SubagentUpdate(
                    self.id,
                    title=UNSET if title is None else title,
                    capabilities=UNSET
                    if cancel is None
                    else SubagentSessionCapabilities(SessionCancelCapabilities()),
                    state=RunningStateUpdate(),
                )
            )
            parent.children[self.id] = cancel

    async def set_directories(self, cwd: str, *additional_directories: str) -> None:
        """Show that the child works in other directories than its parent."""
        roots = [cwd, *additional_directories]
        relative = [root for root in roots if not os.path.isabs(root)]
        if relative:
            raise UsageError(f"directories of a subagent must be absolute: {', '.join(relative)}")
        await self._send(
            SubagentUpdate(self.id, cwd=cwd, additional_directories=list(additional_directories))
        )

    async def set_description(self, description: str) -> None:
        await self._send(SubagentUpdate(self.id, description=description))

    async def set_running(self) -> None:
        await self._set_state(RunningStateUpdate())

    async def set_requires_action(self) -> None:
        """Show that the child waits for the user."""
        await self._set_state(RequiresActionStateUpdate())

    async def set_idle(self, stop_reason: str = "end_turn") -> None:
        """Show that the child has finished its turn."""
        await self._set_state(IdleStateUpdate(stop_reason))

    async def set_failed(self, error: RpcError) -> None:
        """Show that the child stopped with an error."""
        data = error.data if error.has_data else UNSET
        await self._set_state(IdleStateUpdate("error", error=Error(error.code, error.message, data)))

    async def add_message(self, content: str | ContentBlock) -> None:
        """Show a message from the parent to the child."""
        await self._send(
            SessionMessage(
                self._parent.ids.message(),
                sender_session_id=self._parent.session.id,
                recipient_session_id=self.id,
                content=[content_block(content)],
            )
        )

    async def update(self, update: SessionUpdate) -> None:
        """Send an update of the child: a message, a tool call, a plan."""
        if self.shown:
            self._parent.push_child(self.id, update)
        await self._parent.session.drain()

    async def _set_state(self, state: StateUpdate) -> None:
        await self._send(SubagentUpdate(self.id, state=state))

    async def _send(self, update: SubagentUpdate | SessionMessage) -> None:
        if self.shown:
            self._parent.push(update)
        await self._parent.session.drain()


def plan_entry(step: Step) -> PlanEntry:
    """Return the entry for a step; raise UsageError for anything else."""
    match step:
        case PlanEntry():
            return step
        case str():
            return PlanEntry(step, "medium", "pending")
        case (text, status):
            return PlanEntry(text, "medium", status)
        case (text, status, priority):
            return PlanEntry(text, priority, status)
        case _:
            raise UsageError(f"cannot show {step!r} as a step; pass a text, a tuple or a PlanEntry")


class PlanReporter:
    """The named plans of one session. A client without named plans gets all of them as one plan."""

    def __init__(self) -> None:
        self._plans: dict[str, PlanUpdateContent] = {}

    def put(self, plan: PlanUpdateContent, *, separate: bool) -> Plan | PlanUpdate:
        """Create or replace a plan; return the update: this plan if `separate`, else all plans merged."""
        check_valid(plan)
        self._plans[plan.plan_id] = plan
        return PlanUpdate(plan) if separate else self._merged_plan()

    def remove(self, plan_id: str, *, separate: bool) -> Plan | PlanRemoved | None:
        """Remove a plan; return None if it did not exist."""
        if self._plans.pop(plan_id, None) is None:
            return None
        return PlanRemoved(plan_id) if separate else self._merged_plan()

    def _merged_plan(self) -> Plan:
        steps: list[PlanEntry] = []
        for plan in self._plans.values():
            steps += (
                plan.entries
                if isinstance(plan, PlanItems)
                else [PlanEntry(_plan_title(plan), "medium", "in_progress")]
            )
        return Plan(steps)


def _plan_title(plan: PlanFile | PlanMarkdown) -> str:
    if isinstance(plan, PlanFile):
        return plan.uri
    lines = (line.strip(" #*-\t") for line in plan.content.splitlines())
    return next((line for line in lines if line), plan.plan_id)


def new_session_id() -> str:
    """Return a random version 4 UUID. Importing `uuid` would slow the start down."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class IdGenerator:
    """Generates ids that stay unique after the session is loaded again: a random part and a counter."""

    def __init__(self) -> None:
        self._random = os.urandom(6).hex()
        self._count = 0

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._random}-{self._count}"

    def message(self) -> str:
        return self._next("msg")

    def tool_call(self) -> str:
        return self._next("call")

    def compaction(self) -> str:
        return self._next("compaction")


def adapt_update(update: SessionUpdate, client: Client, options: SessionOptions) -> SessionUpdate:
    """Return the update in the form that the client supports; raise NotOffered if there is none."""
    kind = type(update)
    if kind not in _UPDATES:
        raise UsageError(f"cannot send {kind.__name__}; pass a session update of accord.schema")
    requirement = _REQUIRED_CAPABILITIES.get(kind)
    if requirement is not None and not requirement[1](client):
        raise NotOffered(f"the client cannot receive {kind.__name__}: no capability `{requirement[0]}`")
    if isinstance(update, ConfigOptionUpdate):
        update = ConfigOptionUpdate(options.for_client(update.config_options), meta=update.meta)
    check_valid(update)
    return update


def content_block(content: str | ContentBlock) -> ContentBlock:
    """Return the content block for a text or a block; raise UsageError for anything else."""
    if isinstance(content, str):
        return TextContent(content)
    if isinstance(content, _CONTENT_BLOCKS):
        check_valid(content)
        return content
    raise UsageError(f"cannot send {type(content).__name__}; pass a string or a content block")
