"""Undo and rewind of a chat session: the agent's own, or that of this client for agents that have none.

Imported on first use: it loads accord.client.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice

from accord.client import ClientSession, RemoteAgent
from accord.errors import AccordError
from accord.frontend.client_rewind import ClientRewind, clean_copies, history_block, user_messages
from accord.frontend.recording import RecordedSessions
from accord.frontend.rewind import RewindTarget
from accord.frontend.transcript import conversation_markdown
from accord.schema import ContentBlock
from accord.session import Event

SessionSwitch = Callable[[ClientSession | None, Iterable[Event]], Awaitable[ClientSession]]
"""Goes on in another session, or in a new one with these events; returns it."""


class SessionRewinds:
    """Follows the session of a chat, and goes back in it."""

    def __init__(self, agent: RemoteAgent, name: str, switch: SessionSwitch) -> None:
        """`name` is the agent's name in the recordings."""
        self._agent = agent
        self._name = name
        self._switch = switch
        self._session: ClientSession | None = None
        self._own: ClientRewind | None = None
        self._previous: tuple[ClientSession, ClientRewind, str] | None = None
        """What to go back to with a redo."""
        self._history = ""
        """The earlier conversation that the agent does not know yet."""
        self._kept: set[str] = set()

    def opened(self, session: ClientSession, records: RecordedSessions | None) -> None:
        """Follow a session that was opened."""
        self._session = session
        if self._agent.can_rewind or self._agent.remote:
            return
        if self._own is None and records is not None:
            asyncio.get_running_loop().run_in_executor(None, clean_copies)
        self._own = ClientRewind(session, self._name, self)
        self._previous, self._history = None, ""

    @property
    def target(self) -> RewindTarget | None:
        """The session as something that can go back; None if nothing can."""
        return self._session if self._agent.can_rewind else self._own

    # -- during a turn ---------------------------------------------------------------------------------------

    async def begin_turn(self, text: str) -> list[ContentBlock]:
        """Keep the files before a prompt; returns further blocks for the agent."""
        if self._own is None:
            return []
        self._kept.clear()
        blocks = await self._own.begin_turn(text)
        previous, self._previous = self._previous, None
        if previous is not None:
            await previous[1].aclose()
            with contextlib.suppress(AccordError):
                await previous[0].close()  # most agents cannot
        if self._history:
            prompts = self._agent.capabilities.prompt_capabilities or None
            blocks.append(history_block(self._history, embedded=bool(prompts and prompts.embedded_context)))
        return blocks

    def end_turn(self, *, answered: bool) -> None:
        """Find what the turn changed."""
        if self._own is not None:
            self._own.end_turn()
        if answered:
            self._history = ""

    async def keep(self, paths: Sequence[str]) -> None:
        """Keep files that the agent is about to change."""
        new = [path for path in paths if path not in self._kept]
        if self._own is not None and new:
            self._kept.update(new)
            await self._own.keep(new)

    # -- going back, as `ClientRewind` needs it --------------------------------------------------------------

    async def branch(self, before: int) -> None:
        old, rewind = self._session, self._own
        assert old is not None, "a session is open"
        assert rewind is not None, "a session is open"
        timeline = old.state.timeline
        message = user_messages(timeline)[before]
        end = next(at for at, entry in enumerate(timeline) if entry is message)
        history = conversation_markdown(timeline[:end]) if end else ""
        session = await self._switch(None, list(islice(old.state.history.iter_events(), end)))
        if self._previous is not None:
            await self._previous[1].aclose()
        self._previous = (old, rewind, self._history)
        self._session, self._own = session, rewind.branch(session, self._name, before)
        self._history = history

    async def rejoin(self) -> None:
        if self._previous is None:
            return
        session, rewind, history = self._previous
        await self._switch(session, ())
        if self._own is not None:
            await self._own.aclose()
        self._session, self._own, self._history, self._previous = session, rewind, history, None

    async def aclose(self) -> None:
        for rewind in (self._own, self._previous[1] if self._previous else None):
            if rewind is not None:
                await rewind.aclose()
