"""Joining a session that is here: the log is replayed to one client, which then sees what everybody sees."""

import asyncio
from collections.abc import Iterable
from os.path import isabs
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import UNSET

from accord.errors import InvalidParams, NotFound, RpcError, StoreError
from accord.gateway.access.passes import NOT_ALLOWED, Pass
from accord.gateway.line import PACE, Outgoing
from accord.gateway.logbook import Reading
from accord.gateway.sessions import LiveSession
from accord.schema import (
    LoadSessionResponse,
    SessionInfoUpdate,
    SessionNotification,
    SessionUpdate,
    ToolCall,
    ToolCallChange,
)
from accord.schema.codec import encode
from accord.session import SessionOpened
from accord.session.terminals import without_terminals

if TYPE_CHECKING:
    from accord.gateway.incoming import Incoming
    from accord.gateway.visitor import Visitor

_AT_ONCE: Final = 256
"""Updates of a history that are sent without a pause."""


class Rest(NamedTuple):
    """What is left of a history that the agent sent faster than the client read it."""

    updates: list[SessionUpdate]
    reading: Reading
    """Stands behind them."""
    answer: Any


async def join(visitor: "Visitor", call: "Incoming", session: LiveSession, rest: Rest | None = None) -> None:
    """Replay the log, or the rest of the agent's history, to one client, then attach it: it misses nothing and sees nothing
    twice.
    """
    session.joining += 1
    try:
        await _replay(visitor, call, session, rest)
    finally:
        session.joining -= 1


async def _replay(visitor: "Visitor", call: "Incoming", session: LiveSession, rest: Rest | None) -> None:
    gateway = visitor.gateway
    reading = rest.reading if rest is not None else session.log.reading()
    try:
        await _tell(visitor, session, rest.updates if rest is not None else reading.history())
        while True:
            more = list(reading.more())
            if not more:
                break
            await _tell(visitor, session, more)
    except StoreError as error:
        raise RpcError(f"The history cannot be read: {error}") from None
    known_session(visitor, session.id)  # it may have got other folders, which the token does not cover
    if gateway.sessions.find(session.agent.name, session.id) is not session:
        raise NotFound("There is no such session any more", {"sessionId": session.id})
    if rest is not None:
        call.give(rest.answer)
        gateway.attach(visitor, session)
        return
    if session.title:
        _post(visitor, session, SessionInfoUpdate(title=session.title))
    stands = session.settings.whole(SessionOpened(session.id))
    if not session.live and stands.modes is UNSET and not stands.config_options:
        stands = reading.state.settings.whole(SessionOpened(session.id))
    call.give(LoadSessionResponse(modes=stands.modes, config_options=stands.config_options))
    gateway.attach(visitor, session)
    for frame in session.latest:
        visitor.post(frame, session.id)


async def _tell(visitor: "Visitor", session: LiveSession, updates: Iterable[SessionUpdate]) -> None:
    gateway = visitor.gateway
    posted = 0
    for number, update in enumerate(updates, 1):
        posted += _post(visitor, session, update)
        if posted > PACE or number % _AT_ONCE == 0:
            posted = 0
            gateway.flush()
            await asyncio.sleep(0)  # everybody else goes on meanwhile
            await gateway.drained(visitor, PACE)


def _post(visitor: "Visitor", session: LiveSession, update: SessionUpdate) -> int:
    """Send it, if the client shows such updates; how many bytes that are."""
    if not visitor.shows(update):
        return 0
    if isinstance(update, ToolCall | ToolCallChange) and not visitor.announced.get("terminal"):
        update = without_terminals(update, session.printed)
    notification = SessionNotification(session.id, update)
    body = b'{"jsonrpc":"2.0","method":"session/update","params":%s}' % encode(notification)
    visitor.post(Outgoing(body), session.id)
    return len(body)


def known_session(visitor: "Visitor", session_id: str) -> LiveSession | None:
    """A session that is or was here, in folders that the token covers, all of them."""
    gateway, agent = visitor.gateway, visitor.agent
    session = gateway.sessions.find(agent.name, session_id)
    if session is None:
        recorded = gateway.sessions.book.find(agent.name, session_id)
        if recorded is None:
            return None
        head = recorded.head
        check_folders(visitor.visa, head.cwd, *head.additional_directories)
        return gateway.sessions.add(agent, session_id, head.cwd, head.additional_directories)
    check_folders(visitor.visa, *session.folders)
    return session


def check_folders(visa: Pass, *folders: str) -> None:
    """Refuse a folder that is not absolute, or that the token does not cover."""
    for folder in folders:
        if not isabs(folder):
            raise InvalidParams(f"the folder {folder!r} is not an absolute path")
        if not visa.may_enter(folder):
            raise RpcError(f"This token does not cover the folder {folder!r}", code=NOT_ALLOWED)
