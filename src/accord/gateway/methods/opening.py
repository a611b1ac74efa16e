"""Coming in: `initialize`, and the four ways to a session: new, load, resume, fork.

A session that is live here is joined: the gateway replays its own log, the agent hears nothing of it. One that is not is
opened again through the agent, by load where it can, so that what happened elsewhere is there too.
"""

import asyncio
from collections.abc import Iterable
from os.path import isabs
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, structs

from accord.client import gates
from accord.errors import InvalidParams, InvalidRequest, NotFound, NotOffered, RpcError, StoreError
from accord.gateway.access.passes import Pass
from accord.gateway.hosted import PROTOCOL_VERSION, HostedAgent
from accord.gateway.line import Outgoing
from accord.gateway.sessions import LiveSession
from accord.gateway.upstream import Answer, Upstream
from accord.schema import (
    AgentCapabilities,
    ClientCapabilities,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    McpServer,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionInfoUpdate,
    SessionListCapabilities,
    SessionNotification,
    SessionResumeCapabilities,
    SessionUpdate,
)
from accord.schema.codec import encode
from accord.session import Event, ReplayEnded, ReplayStarted, SessionOpened
from accord.session.v1 import opened

if TYPE_CHECKING:
    from accord.gateway.visitor import Incoming, Visitor

ANNOUNCED: Final = {
    "resume": {"version": 1},
    "inbox": {},
    "sessions": {},
    "agents": {},
    "files": {},
    "terminals": {},
    "turn": {},
}
_PACE: Final = 1 << 20
"""Bytes of history that may lie unsent before the rest waits."""


async def initialize(visitor: "Visitor", call: "Incoming") -> None:
    """Agree with the client, starting the agent if it does not run. What the agent lacks, the gateway adds."""
    if visitor.capabilities is not None:
        raise InvalidRequest("`initialize` was said before")
    asked: InitializeRequest = call.read().value
    await visitor.agent.ready()
    visitor.capabilities = asked.client_capabilities or ClientCapabilities()
    own = (visitor.capabilities.meta or {}).get("accord")
    visitor.announced = own if isinstance(own, dict) else {}
    call.answer(encode(welcome(visitor.agent)))


def welcome(agent: HostedAgent) -> InitializeResponse:
    """The agent's own answer, with what the gateway does for it."""
    theirs = agent.capabilities
    sessions = theirs.session_capabilities or SessionCapabilities()
    forgets = sessions.delete or (SessionDeleteCapabilities() if not sessions.list else UNSET)
    capabilities: AgentCapabilities = structs.replace(
        theirs,
        load_session=True,
        session_capabilities=structs.replace(
            sessions,
            list=sessions.list or SessionListCapabilities(),
            resume=sessions.resume or SessionResumeCapabilities(),
            close=sessions.close or SessionCloseCapabilities(),
            delete=forgets,
        ),
        meta={**(theirs.meta or {}), "accord": {**ANNOUNCED, "gateway": {"version": 1, "agent": agent.name}}},
    )
    return structs.replace(agent.agreed, protocol_version=PROTOCOL_VERSION, agent_capabilities=capabilities)


async def new(visitor: "Visitor", call: "Incoming") -> None:
    """A new session, in a folder that the token covers."""
    body, asked = call.read()
    check_folders(visitor.visa, asked.cwd, asked.additional_directories or ())
    lease = visitor.gateway.meter.session(visitor.visa)
    try:
        upstream = await visitor.agent.ready()
        servers = _with_ours(visitor.agent, asked.mcp_servers or [])
        if len(servers) != len(asked.mcp_servers or []):
            body = encode(structs.replace(asked, mcp_servers=servers))
    except BaseException:
        lease.release()
        raise

    def done(answer: Answer) -> None:
        session = _born(visitor, call, upstream, answer, asked)
        if session is None:
            lease.release()
        elif session.lease is None:
            session.lease = lease

    visitor.forward(call, upstream, body, done)


async def fork(visitor: "Visitor", call: "Incoming") -> None:
    """A new session that begins as another one stands."""
    body, asked = call.read()
    check_folders(visitor.visa, asked.cwd, asked.additional_directories or ())
    upstream = await visitor.agent.ready()
    if not visitor.agent.offers("session/fork"):
        raise RpcError("Method not found", {"method": call.method}, code=-32601)
    source = visitor.gateway.sessions.find(visitor.agent.name, asked.session_id)
    if source is not None:
        check_folders(visitor.visa, source.cwd)
        await revive(visitor, source)

    def done(answer: Answer) -> None:
        session = _born(visitor, call, upstream, answer, asked)
        if session is not None and source is not None:
            reading = source.log.reading()
            session.log.append(*_whole(reading))

    visitor.forward(call, upstream, body, done)


def _born(
    visitor: "Visitor", call: "Incoming", upstream: Upstream, answer: Answer, asked: Any
) -> LiveSession | None:
    """The agent named a new session: know it, and attach whoever asked, before anything else is heard of it."""
    entry = call.entry
    assert entry is not None
    try:
        read = upstream.result(entry, answer)
    except Exception as error:  # noqa: BLE001 - RpcError, BadAnswer, ConnectionClosed: told to the client as it is
        call.fail(error)
        return None
    gateway, agent = visitor.gateway, visitor.agent
    session = gateway.sessions.add(
        agent, read.value.session_id, asked.cwd, tuple(asked.additional_directories or ())
    )
    session.live = True
    session.mcp_servers = encode(asked.mcp_servers or [])
    session.opened(_opened(session, read.value))
    call.answer(read.body)
    gateway.attach(visitor, session)
    gateway.hearing.adopt(agent, session)
    gateway.overview.changed(session)
    return session


async def load(visitor: "Visitor", call: "Incoming") -> None:
    """Open a session with its history."""
    asked: LoadSessionRequest = call.read().value
    gateway, agent = visitor.gateway, visitor.agent
    async with gateway.opening(agent.name, asked.session_id):
        session = _known(visitor, asked.session_id)
        if session is None or not session.live:
            check_folders(visitor.visa, asked.cwd, asked.additional_directories or ())
        if session is not None and (session.live or visitor.visa.read_only):
            await _join(visitor, call, session)
            return
        if visitor.visa.read_only:
            raise _no_session(asked.session_id)
        upstream = await agent.ready()
        if agent.offers("session/load"):
            await _load(visitor, call, upstream, asked, session)
        elif session is None:
            raise _no_session(asked.session_id)
        else:
            try:
                await _revive(session)
            except (RpcError, NotOffered) as error:
                gateway.note("session %s of %s can only be read: %s", session.id, agent.name, error)
            await _join(visitor, call, session)


async def _load(
    visitor: "Visitor",
    call: "Incoming",
    upstream: Upstream,
    asked: LoadSessionRequest,
    known: LiveSession | None,
) -> None:
    """Through the agent: its replay goes to whoever asked, and into the log once it is complete."""
    gateway, agent = visitor.gateway, visitor.agent
    session = known or gateway.sessions.add(
        agent, asked.session_id, asked.cwd, tuple(asked.additional_directories or ())
    )
    session.cwd, session.additional = asked.cwd, tuple(asked.additional_directories or ())
    servers = _with_ours(agent, asked.mcp_servers or [])
    session.mcp_servers = encode(asked.mcp_servers or [])
    session.loading, session.loader = [], visitor
    over: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    entry = call.entry
    assert entry is not None

    def done(answer: Answer) -> None:
        replayed, session.loading, session.loader = session.loading or [], None, None
        try:
            read = upstream.result(entry, answer)
        except Exception as error:  # noqa: BLE001 - RpcError, BadAnswer, ConnectionClosed: told below
            if not over.done():
                over.set_result(error)
            return
        session.live = True
        session.log.append(ReplayStarted(), *replayed, ReplayEnded())
        session.opened(_opened(session, read.value))
        call.answer(read.body)
        gateway.attach(visitor, session)
        gateway.overview.changed(session)
        if not over.done():
            over.set_result(None)

    visitor.forward(call, upstream, encode(structs.replace(asked, mcp_servers=servers)), done)
    failure = await over
    if failure is None:
        return
    if known is None:
        gateway.sessions.forget(session)
        gateway.sessions.book.delete(agent.name, session.id)
        raise failure
    gateway.note("session %s of %s can only be read: %s", session.id, agent.name, failure)
    await _join(visitor, call, session)


async def resume(visitor: "Visitor", call: "Incoming") -> None:
    """Go on with a session, without its history."""
    asked: ResumeSessionRequest = call.read().value
    gateway, agent = visitor.gateway, visitor.agent
    async with gateway.opening(agent.name, asked.session_id):
        session = _known(visitor, asked.session_id)
        if session is None:
            if visitor.visa.read_only:
                raise _no_session(asked.session_id)
            check_folders(visitor.visa, asked.cwd, asked.additional_directories or ())
            session = gateway.sessions.add(
                agent, asked.session_id, asked.cwd, tuple(asked.additional_directories or ())
            )
            session.mcp_servers = encode(asked.mcp_servers or [])
            try:
                await _revive(session)
            except BaseException:
                gateway.sessions.forget(session)
                gateway.sessions.book.delete(agent.name, session.id)
                raise
        elif not session.live and not visitor.visa.read_only:
            await _revive(session)
        stands = session.settings.whole(SessionOpened(session.id))
        call.answer(encode(ResumeSessionResponse(modes=stands.modes, config_options=stands.config_options)))
        gateway.attach(visitor, session)
        for frame in session.latest:
            visitor.post(frame, session.id)


async def revive(visitor: "Visitor", session: LiveSession) -> None:
    """See that the running agent knows the session. Raises what the agent says, and InvalidRequest."""
    if not session.live:
        async with visitor.gateway.opening(session.agent.name, session.id):
            await _revive(session)


async def _revive(session: LiveSession) -> None:
    if session.live:
        return
    agent = session.agent
    upstream = await agent.ready()
    if session.live:
        return
    failure: BaseException = InvalidRequest(
        "The agent no longer has this session, and can neither resume nor load it: start a new one",
        {"sessionId": session.id},
    )
    for method, kind in (("session/resume", ResumeSessionRequest), ("session/load", LoadSessionRequest)):
        if agent.offers(method):
            try:
                await _reopen(session, upstream, method, kind)
            except RpcError as error:
                failure = error
            else:
                return
    raise failure


async def _reopen(session: LiveSession, upstream: Upstream, method: str, kind: Any) -> None:
    """Open it again without telling anybody: what a load replays is known here."""
    from accord.schema.methods import request

    entry = request("agent", method)
    assert entry is not None
    from accord.schema.codec import decode

    servers: list[McpServer] = decode(list[McpServer], session.mcp_servers)
    params = kind(
        session.id,
        session.cwd,
        _with_ours(session.agent, servers),
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
            session.opened(_opened(session, read.value))
        if not over.done():
            over.set_result(failure)

    session.silent = method == "session/load"
    upstream.call(method, encode(params), done)
    failure = await over
    if failure is not None:
        raise failure


async def _join(visitor: "Visitor", call: "Incoming", session: LiveSession) -> None:
    """Replay the log to one client, then attach it: it misses nothing and sees nothing twice."""
    gateway = visitor.gateway
    reading = session.log.reading()
    try:
        await _tell(visitor, session, reading.history())
        while True:
            rest = list(reading.more())
            if not rest:
                break
            await _tell(visitor, session, rest)
    except StoreError as error:
        raise RpcError(f"The history cannot be read: {error}") from None
    if session.title:
        _post(visitor, session, SessionInfoUpdate(title=session.title))
    stands = session.settings.whole(SessionOpened(session.id))
    if not session.live and stands.modes is UNSET and not stands.config_options:
        stands = reading.state.settings.whole(SessionOpened(session.id))
    call.answer(encode(LoadSessionResponse(modes=stands.modes, config_options=stands.config_options)))
    gateway.attach(visitor, session)
    for frame in session.latest:
        visitor.post(frame, session.id)


async def _tell(visitor: "Visitor", session: LiveSession, updates: Iterable[SessionUpdate]) -> None:
    gateway = visitor.gateway
    for update in updates:
        _post(visitor, session, update)
        if gateway.unsent_of(visitor) > _PACE:
            gateway.flush()
            await gateway.drained(visitor, _PACE)


def _post(visitor: "Visitor", session: LiveSession, update: SessionUpdate) -> None:
    if visitor.shows(update):
        notification = SessionNotification(session.id, update)
        body = b'{"jsonrpc":"2.0","method":"session/update","params":%s}' % encode(notification)
        visitor.post(Outgoing(body), session.id)


def _whole(reading: Any) -> list[Event]:
    for _ in reading.history():
        pass
    return list(reading.state.history.events())


def _known(visitor: "Visitor", session_id: str) -> LiveSession | None:
    """A session that is or was here, in a folder that the token covers."""
    gateway, agent = visitor.gateway, visitor.agent
    session = gateway.sessions.find(agent.name, session_id)
    if session is None:
        recorded = gateway.sessions.book.find(agent.name, session_id)
        if recorded is None:
            return None
        head = recorded.head
        check_folders(visitor.visa, head.cwd)
        return gateway.sessions.add(agent, session_id, head.cwd, head.additional_directories)
    check_folders(visitor.visa, session.cwd)
    return session


def check_folders(visa: Pass, cwd: str, additional: Iterable[str] = ()) -> None:
    """Refuse a folder that is not absolute, or that the token does not cover."""
    for folder in (cwd, *additional):
        if not isabs(folder):
            raise InvalidParams(f"the folder {folder!r} is not an absolute path")
        if not visa.may_enter(folder):
            raise InvalidParams(f"this token does not cover the folder {folder!r}")


def _opened(session: LiveSession, answer: Any) -> SessionOpened:
    return structs.replace(
        opened(session.id, answer), cwd=session.cwd, additional_directories=list(session.additional)
    )


def _with_ours(agent: HostedAgent, theirs: list[McpServer]) -> list[McpServer]:
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


def _no_session(session_id: str) -> NotFound:
    return NotFound("There is no such session", {"sessionId": session_id})
