"""Coming in: `initialize`, and the four ways to a session: new, load, resume, fork.

A session that is live here is joined: the gateway replays its own log, the agent hears nothing of it. One that is not is
opened again through the agent, by load where it can, so that what happened elsewhere is there too.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, structs

from accord.errors import InvalidRequest, NotFound, NotOffered, RpcError
from accord.gateway.hosted import PROTOCOL_VERSION, HostedAgent
from accord.gateway.methods.joining import check_folders, join, known_session
from accord.gateway.methods.reviving import revive, revive_now, told_of, with_ours
from accord.gateway.sessions import LiveSession
from accord.gateway.upstream import Answer, Upstream
from accord.schema import (
    AgentCapabilities,
    ClientCapabilities,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
)
from accord.schema.codec import encode
from accord.session import Event, ReplayEnded, ReplayStarted, SessionOpened

if TYPE_CHECKING:
    from accord.gateway.visitor import Incoming, Visitor

ANNOUNCED: Final[dict[str, dict[str, object]]] = {
    "inbox": {},
    "sessions": {},
    "agents": {},
    "files": {},
    "terminals": {},
    "turn": {},
}


async def initialize(visitor: "Visitor", call: "Incoming") -> None:
    """Agree with the client, starting the agent if it does not run. What the agent lacks, the gateway adds."""
    if visitor.capabilities is not None:
        raise InvalidRequest("`initialize` was said before")
    asked: InitializeRequest = call.read().value
    await visitor.agent.ready()
    visitor.capabilities = asked.client_capabilities or ClientCapabilities()
    own = (visitor.capabilities.meta or {}).get("accord")
    visitor.announced = own if isinstance(own, dict) else {}
    call.answer(encode(welcome(visitor.agent, visitor.line.id)))


def welcome(agent: HostedAgent, connection_id: str) -> InitializeResponse:
    """The agent's own answer, with what the gateway does for it. Browsers cannot read the header that names the connection."""
    theirs = agent.capabilities
    own = {
        **ANNOUNCED,
        "resume": {"version": 1, "connectionId": connection_id},
        "gateway": {"version": 1, "agent": agent.name},
    }
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
        meta={**(theirs.meta or {}), "accord": own},
    )
    return structs.replace(agent.agreed, protocol_version=PROTOCOL_VERSION, agent_capabilities=capabilities)


async def new(visitor: "Visitor", call: "Incoming") -> None:
    """A new session, in a folder that the token covers."""
    body, asked = call.read()
    check_folders(visitor.visa, asked.cwd, asked.additional_directories or ())
    lease = visitor.gateway.meter.session(visitor.visa)
    try:
        upstream = await visitor.agent.ready()
        servers = with_ours(visitor.agent, asked.mcp_servers or [])
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
    session.opened(told_of(session, read.value))
    call.give(read.value, read.body)
    gateway.attach(visitor, session)
    gateway.hearing.adopt(agent, session)
    gateway.overview.changed(session)
    return session


async def load(visitor: "Visitor", call: "Incoming") -> None:
    """Open a session with its history."""
    asked: LoadSessionRequest = call.read().value
    gateway, agent = visitor.gateway, visitor.agent
    async with gateway.opening(agent.name, asked.session_id):
        session = known_session(visitor, asked.session_id)
        if session is None or not session.live:
            check_folders(visitor.visa, asked.cwd, asked.additional_directories or ())
        if session is not None and (session.live or visitor.visa.read_only):
            await join(visitor, call, session)
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
                await revive_now(session)
            except (RpcError, NotOffered) as error:
                gateway.note("session %s of %s can only be read: %s", session.id, agent.name, error)
            await join(visitor, call, session)


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
    servers = with_ours(agent, asked.mcp_servers or [])
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
        session.opened(told_of(session, read.value))
        call.give(read.value, read.body)
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
    await join(visitor, call, session)


async def resume(visitor: "Visitor", call: "Incoming") -> None:
    """Go on with a session, without its history."""
    asked: ResumeSessionRequest = call.read().value
    gateway, agent = visitor.gateway, visitor.agent
    async with gateway.opening(agent.name, asked.session_id):
        session = known_session(visitor, asked.session_id)
        if session is None:
            if visitor.visa.read_only:
                raise _no_session(asked.session_id)
            check_folders(visitor.visa, asked.cwd, asked.additional_directories or ())
            session = gateway.sessions.add(
                agent, asked.session_id, asked.cwd, tuple(asked.additional_directories or ())
            )
            session.mcp_servers = encode(asked.mcp_servers or [])
            try:
                await revive_now(session)
            except BaseException:
                gateway.sessions.forget(session)
                gateway.sessions.book.delete(agent.name, session.id)
                raise
        elif not session.live and not visitor.visa.read_only:
            await revive_now(session)
        stands = session.settings.whole(SessionOpened(session.id))
        call.give(ResumeSessionResponse(modes=stands.modes, config_options=stands.config_options))
        gateway.attach(visitor, session)
        for frame in session.latest:
            visitor.post(frame, session.id)


def _whole(reading: Any) -> list[Event]:
    for _ in reading.history():
        pass
    return list(reading.state.history.events())


def _no_session(session_id: str) -> NotFound:
    return NotFound("There is no such session", {"sessionId": session_id})
