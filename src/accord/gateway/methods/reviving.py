"""Opening a session again at an agent that does not know it any more, without anybody noticing."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, structs

from accord.client import gates
from accord.errors import InvalidRequest, NotOffered, RpcError
from accord.gateway.hosted import HostedAgent
from accord.gateway.sessions import LiveSession
from accord.gateway.upstream import Answer, Upstream
from accord.schema import LoadSessionRequest, McpServer, ResumeSessionRequest
from accord.schema.codec import decode, encode
from accord.schema.methods import request
from accord.session import SessionOpened
from accord.session.v1 import opened

if TYPE_CHECKING:
    from accord.gateway.visitor import Visitor

_TRIES: Final = 3
"""How often an agent that ends at once is started again for one request."""


async def revive(visitor: "Visitor", session: LiveSession) -> Upstream:
    """The running agent, which knows the session. Raises what the agent says, and InvalidRequest."""
    for _ in range(_TRIES):
        upstream = session.agent.upstream
        if session.live and upstream is not None:
            return upstream
        await visitor.gateway.finish(_revive(visitor, session))
    raise InvalidRequest("The agent ended again and again: see its log", {"sessionId": session.id})


async def _revive(visitor: "Visitor", session: LiveSession) -> None:
    async with visitor.gateway.opening(session.agent.name, session.id):
        await revive_now(visitor, session)


async def revive_now(visitor: "Visitor", session: LiveSession) -> None:
    """See that the running agent knows the session, for somebody who opens it alone."""
    agent = session.agent
    upstream = await agent.ready()
    if session.live:
        return
    failure: BaseException = InvalidRequest(
        "The agent no longer has this session, and can neither resume nor load it: start a new one",
        {"sessionId": session.id},
    )
    lease = await visitor.gateway.room(visitor.visa)
    try:
        for method, kind in (("session/resume", ResumeSessionRequest), ("session/load", LoadSessionRequest)):
            if agent.offers(method):
                try:
                    await _reopen(session, upstream, method, kind)
                except RpcError as error:
                    failure = error
                else:
                    session.count(lease, visitor.visa)
                    return
        raise failure
    except BaseException:
        lease.release()
        raise


async def _reopen(session: LiveSession, upstream: Upstream, method: str, kind: Any) -> None:
    """Open it again without telling anybody: what a load replays is known here."""
    entry = request("agent", method)
    assert entry is not None
    servers: list[McpServer] = decode(list[McpServer], session.mcp_servers)
    params = kind(
        session.id,
        session.cwd,
        with_ours(session.agent, servers),
        list(session.additional) if session.additional else UNSET,
    )
    over: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def done(answer: Answer) -> None:
        session.silent = False
        try:
            read = upstream.result(entry, answer)
        except Exception as error:  # noqa: BLE001 - RpcError, BadAnswer, ConnectionClosed: raised below
            failure: BaseException | None = error
        else:
            failure = None
            session.live = True
            session.opened(told_of(session, read.value))
        if not over.done():
            over.set_result(failure)

    session.silent = method == "session/load"
    upstream.call(method, encode(params), done)
    failure = await over
    if failure is not None:
        raise failure


def told_of(session: LiveSession, answer: Any) -> SessionOpened:
    """The event for the agent's answer, with the folders of the session."""
    return structs.replace(
        opened(session.id, answer), cwd=session.cwd, additional_directories=list(session.additional)
    )


def with_ours(agent: HostedAgent, theirs: list[McpServer]) -> list[McpServer]:
    """The MCP servers of a session: the client's, and those the gateway's owner gives every session of this agent."""
    names = {server.name for server in theirs}
    ours = [server for server in agent.source.mcp_servers() if server.name not in names]
    fitting: list[McpServer] = []
    for server in ours:
        try:
            gates.require_servers((server,), agent.capabilities)
        except NotOffered:
            continue
        fitting.append(server)
    return [*theirs, *fitting]
