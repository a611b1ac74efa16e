"""Child sessions that an agent shows (unstable): announced on their parent first, then reporting under their own id."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET

from accord.errors import RpcError, UsageError
from accord.schema.content import ContentBlock
from accord.schema.rpc import Error
from accord.schema.subagents import (
    IdleStateUpdate,
    RequiresActionStateUpdate,
    RunningStateUpdate,
    SessionCancelCapabilities,
    SessionMessage,
    StateUpdate,
    SubagentSessionCapabilities,
    SubagentUpdate,
)
from accord.schema.updates import SessionUpdate

from .blocks import block_of
from .ids import new_session_id

if TYPE_CHECKING:
    from .session import AgentSession


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
