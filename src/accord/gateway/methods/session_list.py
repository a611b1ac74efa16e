"""Lists the sessions of the agent and of the gateway as one list; closes and deletes sessions."""

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from accord.clock import with_timeout
from accord.errors import AccordError, InvalidParams, NotFound, RpcError, SessionInUse, StoreError
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.contracts import SessionOwner
from accord.gateway.upstream import Upstream
from accord.schema import ListSessionsRequest, ListSessionsResponse, SessionInfo
from accord.schema.codec import encode, to_builtins

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient


PAGE_SIZE: Final = 100
_MAX_PAGES: Final = 50
"""Pages that are read from an agent whose list does not end."""
_LIST_TIMEOUT: Final = 15.0
"""Seconds for the agent's list; after that, the result has only the gateway's own sessions."""


async def list_sessions(client: "GatewayClient", call: "ClientCall") -> None:
    """List the sessions with a prompt of this agent that the token covers, most recently used first."""
    params: ListSessionsRequest = call.read_params().value
    after = _decode_cursor(params.cursor or None)
    sessions = await visible_sessions(client, params.cwd or None, used_only=True)
    entries = sorted(sessions.values(), key=_sort_key, reverse=True)
    if after is not None:
        entries = [entry for entry in entries if _sort_key(entry) < after]
    page = entries[:PAGE_SIZE]
    cursor = _encode_cursor(page[-1]) if len(entries) > PAGE_SIZE else UNSET
    call.answer(encode(ListSessionsResponse(page, cursor)))


async def visible_sessions(
    client: "GatewayClient", cwd: str | None = None, *, used_only: bool = False
) -> dict[str, SessionInfo]:
    """Return the sessions of this agent that the token covers, by id: the gateway's own and the agent's.

    `used_only` leaves out those of the gateway's own sessions that are archived, and those that have no
    prompt, unless the agent lists them.
    """
    gateway, agent, rights = client.gateway, client.agent, client.rights
    sessions: dict[str, SessionInfo] = {}
    owners = gateway.book.owners()
    owned: dict[str, SessionOwner] = {}
    unused: set[str] = set()
    archived: set[str] = set()
    for page in gateway.book.pages(agent.name, cwd):
        for recorded in page:
            info = recorded.summary.info()
            if (owner := owners.get(info.session_id)) is not None:
                owned[recorded.session_id] = owner
            info.session_id = recorded.session_id
            sessions[info.session_id] = info
            if used_only and recorded.summary.archived:
                archived.add(info.session_id)
            if used_only and not recorded.summary.is_used:
                unused.add(info.session_id)
        await asyncio.sleep(0)  # let other tasks run
    unused -= await _add_agent_sessions(client, cwd, sessions)
    for session in gateway.sessions.of(agent):
        if session.id in sessions and session.title:
            sessions[session.id].title = session.title
    for id, owner in owned.items():
        sessions[id].meta = {**(sessions[id].meta or {}), "accord": {"owner": to_builtins(owner)}}
    for id, info in sessions.items():
        if (node := gateway.book.node_of(agent.name, id)) is not None:
            members = {"node": node.node, "nodeLost": True} if node.is_lost else {"node": node.node}
            info.meta = {**(info.meta or {}), "accord": members}
        if info.title is None:
            info.title = UNSET  # some clients fail on a title that is null
    return {
        id: info
        for id, info in sessions.items()
        if id not in unused and id not in archived and rights.may_see(agent.name, id, _folders(info))
    }


async def _add_agent_sessions(
    client: "GatewayClient", cwd: str | None, sessions: dict[str, SessionInfo]
) -> set[str]:
    """Add the sessions that the agent lists, and return their ids. A failure is only logged."""
    gateway, agent = client.gateway, client.agent
    listed: set[str] = set()
    try:
        upstream = await agent.ensure_started()
        if agent.supports("session/list"):
            names = gateway.book.names
            renamed = dict[str, str]() if names is None else names.renamed(agent.name)
            for info in await with_timeout(_agent_sessions(upstream, cwd), _LIST_TIMEOUT, gateway.clock):
                info.session_id = renamed.get(info.session_id, info.session_id)
                logged = sessions.get(info.session_id)
                listed.add(info.session_id)
                if logged is None:
                    sessions[info.session_id] = info
                elif (info.updated_at or "") >= (logged.updated_at or ""):
                    # Keep the folders of the gateway's session, and its title if the agent has none.
                    info.title = info.title or logged.title or UNSET
                    info.cwd, info.additional_directories = logged.cwd, logged.additional_directories
                    sessions[info.session_id] = info
    except TimeoutError:
        gateway.log_warning(
            "cannot list the sessions of %s: no answer to session/list within %g s", agent.name, _LIST_TIMEOUT
        )
    except AccordError as error:
        gateway.log_warning("cannot list the sessions of %s: %s", agent.name, error)
    return listed


async def require_listed(client: "GatewayClient", session_id: str) -> None:
    """Raise NotFound unless the agent lists this session in a folder of the token.

    For sessions that the gateway has not logged. The folder in the client's request proves nothing: the agent
    would open its session wherever it is.
    """
    if client.rights.folders is not None and session_id not in await visible_sessions(client):
        raise NotFound("session not found", {"sessionId": session_id})


async def _agent_sessions(upstream: Upstream, cwd: str | None) -> list[SessionInfo]:
    sessions: list[SessionInfo] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        params = ListSessionsRequest(cwd=cwd if cwd is not None else UNSET, cursor=cursor or UNSET)
        page: ListSessionsResponse = await upstream.request("session/list", params)
        sessions += page.sessions
        if not page.next_cursor or page.next_cursor == cursor:
            break
        cursor = page.next_cursor
    return sessions


async def close(client: "GatewayClient", call: "ClientCall") -> None:
    """Detach this client. The last client closes the session at the agent and cancels its turn."""
    params = call.read_params().value
    session = client.sessions.get(params.session_id)
    if session is not None:
        gateway = client.gateway
        gateway.detach(client, session)
        if not session.clients and not client.rights.read_only:
            await gateway.close_session(session)
            gateway.forget_unused(session)  # another gateway can open it now
    call.answer(b"{}")


async def delete(client: "GatewayClient", call: "ClientCall") -> None:
    """Delete a session, at the agent and here."""
    params = call.read_params().value
    gateway, agent = client.gateway, client.agent
    session = gateway.sessions.find(agent.name, params.session_id)
    recorded = gateway.book.find(agent.name, params.session_id)
    folders: tuple[str, ...] = ()
    if session is not None:
        folders = session.folders
    elif recorded is not None:
        folders = _folders(recorded.summary.info())
    elif client.rights.folders is not None:
        info = (await visible_sessions(client)).get(params.session_id)
        if info is None:
            call.answer(b"{}")  # the token covers no such session
            return
        folders = _folders(info)
    check_folders(client.rights, *folders)
    gateway.book.require_unowned(agent.name, params.session_id)
    upstream = await agent.ensure_started()
    if session is not None:
        gateway.cancel(session, "the session was deleted")
    if agent.supports("session/delete"):
        await upstream.request("session/delete", params)
    if session is not None:
        await gateway.remove_session(session)
    try:
        await gateway.book.delete(agent.name, params.session_id)
    except SessionInUse as error:
        raise RpcError(str(error)) from None
    except StoreError as error:
        raise RpcError(f"the session is not deleted: {error}; try again") from None
    gateway.overview.notify_removed(agent.name, params.session_id, folders)
    call.answer(b"{}")


def _folders(info: SessionInfo) -> tuple[str, ...]:
    return info.cwd, *(info.additional_directories or ())


def _sort_key(info: SessionInfo) -> tuple[str, str]:
    return info.updated_at or "", info.session_id


def _encode_cursor(info: SessionInfo) -> str:
    return base64.urlsafe_b64encode("\n".join(_sort_key(info)).encode()).decode()


def _decode_cursor(cursor: str | None) -> tuple[str, str] | None:
    if cursor is None:
        return None
    try:
        updated, _, session_id = base64.urlsafe_b64decode(cursor).decode().partition("\n")
    except (binascii.Error, ValueError):
        raise InvalidParams(f"invalid cursor {cursor[:40]!r}") from None
    return updated, session_id
