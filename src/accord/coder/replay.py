"""Telling a client what happened in a session before: from the log, as few messages as say it all."""

from collections.abc import Iterator
from typing import Any, Final, cast

from accord.agent.session import AgentSession
from accord.errors import NotOffered
from accord.schema.tools import ToolCall
from accord.schema.updates import SessionInfoUpdate, SessionUpdate
from accord.session import SessionState
from accord.session.terminals import without_terminals
from accord.session.v1 import updates_of

_BREATH: Final = 64
"""After so many updates the client gets the chance to read."""


async def replay(session: AgentSession, state: SessionState) -> None:
    """Tell everything; waits while the client reads more slowly."""
    for number, update in enumerate(_updates(state), 1):
        _tell(session, update)
        if number % _BREATH == 0:
            await session.drain()


def replay_now(session: AgentSession, state: SessionState) -> None:
    """Tell everything at once, before anything else can be told."""
    for update in _updates(state):
        _tell(session, update)


def _updates(state: SessionState) -> Iterator[SessionUpdate]:
    for event in state.history.events():
        for update in updates_of(event):
            yield cast(SessionUpdate, _told(update))
    if state.title is not None:
        yield SessionInfoUpdate(state.title)
    if state.usage is not None:
        yield state.usage


def _told(update: Any) -> Any:
    """A terminal was one of a client that may be gone: what it showed is told as text."""
    return without_terminals(update, lambda _terminal: None) if isinstance(update, ToolCall) else update


def _tell(session: AgentSession, update: SessionUpdate) -> None:
    try:
        session.push(update)
    except NotOffered:
        pass  # another client had asked for it
