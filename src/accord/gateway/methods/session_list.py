"""The sessions there are: the agent's own list and the gateway's, as one; closing and deleting."""

import asyncio
import base64
import binascii
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import UNSET

from accord.clock import Clock, within
from accord.errors import AccordError, InvalidParams, NotFound, RequestTimeout, RpcError, SessionInUse
from accord.gateway.methods.session_restore import check_folders
from accord.gateway.upstream import Upstream
from accord.schema import ListSessionsRequest, ListSessionsResponse, SessionInfo
from accord.schema.codec import encode

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient

T = TypeVar("T")

PAGE: Final = 100
_PAGES_MOST: Final = 50
"""Of an agent that never ends its list, so many pages are read."""
_PATIENCE: Final = 15.0
"""Seconds that its list may take; then the gateway's own is all there is."""


async def list_sessions(visitor: "GatewayClient", call: "ClientCall") -> None:
    """Those of this agent that the token covers, the ones used last first."""
    asked: ListSessionsRequest = call.read().value
    after = _place(asked.cursor or None)
    found = await sessions_for(visitor, asked.cwd or None)
    entries = sorted(found.values(), key=_order, reverse=True)
    if after is not None:
        entries = [entry for entry in entries if _order(entry) < after]
    page = entries[:PAGE]
    cursor = _cursor(page[-1]) if len(entries) > PAGE else UNSET
    call.answer(encode(ListSessionsResponse(page, cursor)))


async def sessions_for(visitor: "GatewayClient", cwd: str | None = None) -> dict[str, SessionInfo]:
    """All of this agent that the token covers, by id: the gateway's own, and what the agent lists."""
    gateway, agent, visa = visitor.gateway, visitor.agent, visitor.visa
    found: dict[str, SessionInfo] = {}
    for recorded in gateway.sessions.book.list(agent.name, cwd):
        info = recorded.head.info()
        info.session_id = recorded.session_id
        found[info.session_id] = info
    try:
        upstream = await agent.ready()
        if agent.offers("session/list"):
            for info in await _in_time(gateway.clock, _theirs(upstream, cwd)):
                known = found.get(info.session_id)
                if known is None:
                    found[info.session_id] = info
                elif (info.updated_at or "") >= (known.updated_at or ""):
                    # In the folders it was opened in here, and under the name it has here if the agent gave it none.
                    info.title = info.title or known.title
                    info.cwd, info.additional_directories = known.cwd, known.additional_directories
                    found[info.session_id] = info
    except AccordError as error:
        gateway.note("the sessions of %s cannot be listed: %s", agent.name, error)
    for session in gateway.sessions.of(agent):
        if session.id in found and session.title:
            found[session.id].title = session.title
    return {id: info for id, info in found.items() if visa.covers(agent.name, _folders(info))}


async def check_theirs(visitor: "GatewayClient", session_id: str) -> None:
    """A session that was never here: a token that is bound to folders opens it only if the agent lists it in them.

    The folder that a client names says nothing: the agent would open its session all the same, wherever it lies.
    """
    if visitor.visa.folders is not None and session_id not in await sessions_for(visitor):
        raise NotFound("There is no such session", {"sessionId": session_id})


async def _in_time(clock: Clock, work: Coroutine[Any, Any, T]) -> T:
    asking = asyncio.ensure_future(work)
    try:
        if not await within(clock, _PATIENCE, asking):
            raise RequestTimeout(f"session/list was not answered within {_PATIENCE:g} s")
        return asking.result()
    finally:
        asking.cancel()


async def _theirs(upstream: Upstream, cwd: str | None) -> list[SessionInfo]:
    found: list[SessionInfo] = []
    cursor: str | None = None
    for _ in range(_PAGES_MOST):
        asked = ListSessionsRequest(cwd=cwd if cwd is not None else UNSET, cursor=cursor or UNSET)
        page: ListSessionsResponse = await upstream.ask("session/list", asked)
        found += page.sessions
        if not page.next_cursor or page.next_cursor == cursor:
            break
        cursor = page.next_cursor
    return found


async def close(visitor: "GatewayClient", call: "ClientCall") -> None:
    """This client leaves the session. With the last one it is closed at the agent, and what runs in it is cancelled."""
    asked = call.read().value
    session = visitor.sessions.get(asked.session_id)
    if session is not None:
        gateway = visitor.gateway
        gateway.detach(visitor, session)
        if not session.visitors and not visitor.visa.read_only:
            await gateway.close_session(session)
    call.answer(b"{}")


async def delete(visitor: "GatewayClient", call: "ClientCall") -> None:
    """Remove a session for good, at the agent and here."""
    asked = call.read().value
    gateway, agent = visitor.gateway, visitor.agent
    session = gateway.sessions.find(agent.name, asked.session_id)
    recorded = gateway.sessions.book.find(agent.name, asked.session_id)
    folders: tuple[str, ...] = ()
    if session is not None:
        folders = session.folders
    elif recorded is not None:
        folders = _folders(recorded.head.info())
    elif visitor.visa.folders is not None:
        theirs = (await sessions_for(visitor)).get(asked.session_id)
        if theirs is None:
            call.answer(b"{}")  # nothing that this token could delete
            return
        folders = _folders(theirs)
    check_folders(visitor.visa, *folders)
    upstream = await agent.ready()
    if session is not None:
        gateway.cancel(session, "the session was deleted")
    if agent.offers("session/delete"):
        await upstream.ask("session/delete", asked)
    if session is not None:
        await gateway.drop_session(session)
    try:
        gateway.sessions.book.delete(agent.name, asked.session_id)
    except SessionInUse as error:
        raise RpcError(str(error)) from None
    gateway.overview.removed(agent.name, asked.session_id, folders)
    call.answer(b"{}")


def _folders(info: SessionInfo) -> tuple[str, ...]:
    return info.cwd, *(info.additional_directories or ())


def _order(info: SessionInfo) -> tuple[str, str]:
    return info.updated_at or "", info.session_id


def _cursor(info: SessionInfo) -> str:
    return base64.urlsafe_b64encode("\n".join(_order(info)).encode()).decode()


def _place(cursor: str | None) -> tuple[str, str] | None:
    if cursor is None:
        return None
    try:
        updated, _, session_id = base64.urlsafe_b64decode(cursor).decode().partition("\n")
    except (binascii.Error, ValueError):
        raise InvalidParams(f"the cursor {cursor[:40]!r} is none of this gateway's") from None
    return updated, session_id
