"""Plans, compactions and subagents as updates, their ids, and which updates the client can take.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from msgspec import UNSET

from accord.agent.client import Client
from accord.errors import NotOffered, RpcError, UsageError
from accord.schema.base import Error
from accord.schema.content import ContentBlock, TextContent
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
    from accord.agent.agent_session import AgentSession


# MERGED agent.plans: Plans: the one of version 1, and several named ones (unstable) that fall back to it for clients without them.

Step: TypeAlias = (
    PlanEntry | str | tuple[str, PlanEntryStatus] | tuple[str, PlanEntryStatus, PlanEntryPriority]
)
"""A step of a plan: its text, its status (`pending` if left out) and its priority (`medium` if left out)."""


def entries(steps: Iterable[Step]) -> list[PlanEntry]:
    """The steps in the form of the wire."""
    return [_entry(step) for step in steps]


def _entry(step: Step) -> PlanEntry:
    match step:
        case PlanEntry():
            return step
        case str():
            return PlanEntry(step, "medium", "pending")
        case (text, status):
            return PlanEntry(text, "medium", status)
        case (text, status, priority):
            return PlanEntry(text, priority, status)


class PlanReporter:
    """The named plans of one session, by id."""

    def __init__(self) -> None:
        self._plans: dict[str, PlanUpdateContent] = {}

    def put(self, plan: PlanUpdateContent, *, several: bool) -> Plan | PlanUpdate:
        """Create or replace a plan; the update for a client that shows several plans, or only one."""
        self._plans[plan.plan_id] = plan
        return PlanUpdate(plan) if several else self._merged()

    def remove(self, plan_id: str, *, several: bool) -> Plan | PlanRemoved | None:
        """Take a plan away; nothing to send if there was none."""
        if self._plans.pop(plan_id, None) is None:
            return None
        return PlanRemoved(plan_id) if several else self._merged()

    def _merged(self) -> Plan:
        steps: list[PlanEntry] = []
        for plan in self._plans.values():
            steps += (
                plan.entries
                if isinstance(plan, PlanItems)
                else [PlanEntry(_heading(plan), "medium", "in_progress")]
            )
        return Plan(steps)


def _heading(plan: PlanFile | PlanMarkdown) -> str:
    if isinstance(plan, PlanFile):
        return plan.uri
    lines = (line.strip(" #*-\t") for line in plan.content.splitlines())
    return next((line for line in lines if line), plan.plan_id)


# MERGED agent.gates: What may be sent to this client? Updates behind a capability never go out without it.

_GATES: Final[dict[type, tuple[str, Callable[[Client], bool]]]] = {
    Notice: ("session.notices", lambda client: client.shows_notices),
    CompactionUpdate: ("session.compaction", lambda client: client.shows_compaction),
    CompactionSummaryChunk: ("session.compaction", lambda client: client.shows_compaction),
    PlanUpdate: ("plan", lambda client: client.shows_plans),
    PlanRemoved: ("plan", lambda client: client.shows_plans),
    SubagentUpdate: ("subagents", lambda client: client.shows_subagents),
    SessionMessage: ("subagents", lambda client: client.shows_subagents),
    SessionMessageChunk: ("subagents", lambda client: client.shows_subagents),
}


def admit(update: SessionUpdate, session: "AgentSession") -> SessionUpdate:
    """The update in the form this client takes it; raises NotOffered if it takes none."""
    kind = type(update)
    gate = _GATES.get(kind)
    if gate is not None and not gate[1](session.client):
        raise NotOffered(
            f"{kind.__name__} needs the client capability `{gate[0]}`, which this client does not have"
        )
    if isinstance(update, ConfigOptionUpdate):
        return ConfigOptionUpdate(session.pickers.shown(update.config_options), meta=update.meta)
    return update


# MERGED agent.blocks: What can be said: text, or a content block.

_BLOCKS: Final = get_args(ContentBlock)


def block_of(content: str | ContentBlock) -> ContentBlock:
    """The content block for it; raises UsageError for anything else."""
    if isinstance(content, str):
        return TextContent(content)
    if isinstance(content, _BLOCKS):
        return content
    raise UsageError(f"only text and content blocks can be said, not {type(content).__name__}")


# MERGED agent.compaction: The compaction of a session's context, as the client sees it: begun, summarised, and ended exactly once.


class Compaction:
    """`async with session.compaction() as compaction:`. Clients that do not show compactions are told nothing."""

    def __init__(self, session: "AgentSession") -> None:
        self.id = session.ids.compaction()
        self._session = session
        self._open = False

    async def __aenter__(self) -> "Compaction":
        self._open = True
        self._push(CompactionUpdate(self.id, "in_progress"))
        return self

    async def summary(self, content: str | ContentBlock) -> None:
        """Add a piece to the summary. Only what a user may read."""
        if not self._open:
            raise UsageError("the compaction has ended: its summary is complete")
        self._push(CompactionSummaryChunk(self.id, block_of(content)))
        await self._session.drain()

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
        if self._session.client.shows_compaction and self._session.state != "closed":
            self._session.push(update)


# MERGED agent.ids: The ids an agent mints: nobody can guess a session's, and no two things of a session share one, not even after a load.


def new_session_id() -> str:
    """A fresh id with 122 random bits, in the usual notation of a version 4 UUID."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class IdGenerator:
    """The ids of one activation of a session: a random part, and a number that counts up."""

    def __init__(self) -> None:
        self._random = os.urandom(6).hex()
        self._count = 0

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._random}-{self._count}"

    def message(self) -> str:
        """The id of a message."""
        return self._next("msg")

    def tool_call(self) -> str:
        """The id of a tool call."""
        return self._next("call")

    def compaction(self) -> str:
        """The id of a compaction."""
        return self._next("compaction")


# MERGED agent.subagent: Child sessions that an agent shows (unstable): announced on their parent first, then reporting under their own id.


class Subagent:
    """One child of a session. To a client that shows no subagents, nothing of it is sent."""

    def __init__(
        self, parent: "AgentSession", title: str | None, cancel: Callable[[], object] | None
    ) -> None:
        self.id = new_session_id()
        self.parent = parent
        self.shown = parent.client.shows_subagents
        self._cancel = cancel
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
            parent.children[self.id] = self

    def cancelled(self) -> None:
        """The user stops the child: only if it was announced as something that can be stopped."""
        if self._cancel is not None:
            self._cancel()

    async def works_in(self, cwd: str, *additional_directories: str) -> None:
        """The child has directories of its own, not its parent's."""
        roots = [cwd, *additional_directories]
        relative = [root for root in roots if not os.path.isabs(root)]
        if relative:
            raise UsageError(f"directories of a subagent are absolute, these are not: {', '.join(relative)}")
        await self._patch(
            SubagentUpdate(self.id, cwd=cwd, additional_directories=list(additional_directories))
        )

    async def describe(self, description: str) -> None:
        """Say what the child is for."""
        await self._patch(SubagentUpdate(self.id, description=description))

    async def running(self) -> None:
        """The child works again."""
        await self._state(RunningStateUpdate())

    async def requires_action(self) -> None:
        """The child waits for somebody."""
        await self._state(RequiresActionStateUpdate())

    async def idle(self, stop_reason: str = "end_turn") -> None:
        """The child has finished what it was asked, for now."""
        await self._state(IdleStateUpdate(stop_reason))

    async def failed(self, error: RpcError) -> None:
        """The child stopped on an error."""
        data = error.data if error.has_data else UNSET
        await self._state(IdleStateUpdate("error", error=Error(error.code, error.message, data)))

    async def sent(self, content: str | ContentBlock) -> None:
        """The parent has sent the child a message."""
        await self._patch(
            SessionMessage(
                self.parent.ids.message(),
                sender_session_id=self.parent.id,
                recipient_session_id=self.id,
                content=[block_of(content)],
            )
        )

    async def update(self, update: SessionUpdate) -> None:
        """Something happened in the child: a message, a tool call, a plan."""
        if self.shown:
            await self.parent.update_child(self.id, update)

    async def _state(self, state: StateUpdate) -> None:
        await self._patch(SubagentUpdate(self.id, state=state))

    async def _patch(self, update: SubagentUpdate | SessionMessage) -> None:
        if self.shown:
            await self.parent.update(update)
