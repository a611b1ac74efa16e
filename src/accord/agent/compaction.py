"""The compaction of a session's context, as the client sees it: begun, summarised, and ended exactly once."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import UNSET

from accord.errors import UsageError
from accord.schema.content import ContentBlock
from accord.schema.updates import CompactionSummaryChunk, CompactionUpdate, SessionUpdate

from .blocks import block_of

if TYPE_CHECKING:
    from .session import AgentSession


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
