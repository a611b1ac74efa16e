"""`initialize`, `session/new`, `session/fork`, `session/load`, `session/resume`."""

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from msgspec import UNSET, structs

from accord.errors import (
    AccordError,
    InvalidRequest,
    MethodNotFound,
    NotFound,
    NotOffered,
    RpcError,
    StoreError,
)
from accord.gateway.access.resource_limits import LimitLease
from accord.gateway.gateway_client import rpc_error
from accord.gateway.hosted_agent import PROTOCOL_VERSION, HostedAgent
from accord.gateway.live_sessions import LiveSession
from accord.gateway.methods.session_list import check_theirs
from accord.gateway.methods.session_restore import (
    RemainingHistory,
    check_folders,
    join,
    known_session,
    revive,
    revive_now,
    told_of,
    with_ours,
)
from accord.gateway.upstream import AgentReply, Upstream
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
    SessionUpdate,
)
from accord.schema.codec import encode
from accord.session import Event, ReplayEnded, ReplayStarted, SessionOpened

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient


# MERGED gateway.methods.opening: Coming in: `initialize`, and the two ways to a session that was not there before: new and fork.

ANNOUNCED: Final[dict[str, dict[str, object]]] = {
    "inbox": {},
    "sessions": {},
    "agents": {},
    "files": {},
    "terminals": {},
    "turn": {},
}


async def initialize(visitor: "GatewayClient", call: "ClientCall") -> None:
    """Agree with the client, starting the agent if it does not run. What the agent lacks, the gateway adds."""
    if visitor.capabilities is not None:
        raise InvalidRequest("`initialize` was said before")
    asked: InitializeRequest = call.read().value
    try:
        await visitor.agent.ready()
    except AccordError as error:
        raise _naming_others(visitor, rpc_error(error)) from error
    visitor.capabilities = asked.client_capabilities or ClientCapabilities()
    own = (visitor.capabilities.meta or {}).get("accord")
    visitor.announced = own if isinstance(own, dict) else {}
    call.answer(encode(welcome(visitor.agent, visitor.line.id, visitor.visa.read_only)))


def _naming_others(visitor: "GatewayClient", error: RpcError) -> RpcError:
    """The error, with the names of all agents the token covers: one that cannot start keeps nobody from the others."""
    data = cast("dict[str, object] | None", error.data)
    facts = data if isinstance(data, dict) else {}
    agents = [name for name in visitor.gateway.agents if visitor.visa.may_use(name)]
    return RpcError(error.message, {**facts, "agents": agents}, code=error.code)


def welcome(agent: HostedAgent, connection_id: str, read_only: bool = False) -> InitializeResponse:
    """The agent's own answer, with what the gateway does for it. Browsers cannot read the header that names the connection."""
    theirs = agent.capabilities
    own = {
        **ANNOUNCED,
        "resume": {"version": 1, "connectionId": connection_id},
        "gateway": {"version": 1, "agent": agent.name, **({"readOnly": True} if read_only else {})},
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


async def new(visitor: "GatewayClient", call: "ClientCall") -> None:
    """A new session, in a folder that the token covers."""
    body, asked = call.read()
    check_folders(visitor.visa, asked.cwd, *(asked.additional_directories or ()))
    upstream = await visitor.agent.ready()
    servers = with_ours(visitor.agent, asked.mcp_servers or [])
    if len(servers) != len(asked.mcp_servers or []):
        body = encode(structs.replace(asked, mcp_servers=servers))
    lease = await visitor.gateway.room(visitor.visa)

    def done(answer: AgentReply) -> None:
        _born(visitor, call, upstream, answer, asked, lease)

    visitor.forward(call, upstream, body, done)


async def fork(visitor: "GatewayClient", call: "ClientCall") -> None:
    """A new session that begins as another one stands."""
    body, asked = call.read()
    check_folders(visitor.visa, asked.cwd, *(asked.additional_directories or ()))
    upstream = await visitor.agent.ready()
    if not visitor.agent.offers("session/fork"):
        raise MethodNotFound(data={"method": call.method})
    source = known_session(visitor, asked.session_id)
    if source is not None:
        upstream = await revive(visitor, source)
    else:
        await check_theirs(visitor, asked.session_id)
    lease = await visitor.gateway.room(visitor.visa)

    def done(answer: AgentReply) -> None:
        session = _born(visitor, call, upstream, answer, asked, lease)
        if session is not None and source is not None:
            session.log.append(*_whole(source.log.reading()))

    visitor.forward(call, upstream, body, done)


def _born(
    visitor: "GatewayClient",
    call: "ClientCall",
    upstream: Upstream,
    answer: AgentReply,
    asked: Any,
    lease: LimitLease,
) -> LiveSession | None:
    """The agent named a new session: know it, and attach whoever asked, before anything else is heard of it."""
    entry = call.entry
    assert entry is not None
    try:
        read = upstream.result(entry, answer)
    except Exception as error:  # noqa: BLE001 - RpcError, BadAnswer, ConnectionClosed: told to the client as it is
        lease.release()
        call.fail(error)
        return None
    gateway, agent = visitor.gateway, visitor.agent
    session = gateway.begin(
        agent, read.value.session_id, asked.cwd, tuple(asked.additional_directories or ())
    )
    session.live = True
    session.count(lease, visitor.visa)
    session.mcp_servers = encode(asked.mcp_servers or [])
    session.opened(told_of(session, read.value))
    call.give(read.value, read.body)
    gateway.attach(visitor, session)
    gateway.hearing.adopt(agent, session)
    gateway.overview.changed(session)
    return session


def _whole(reading: Any) -> list[Event]:
    for _ in reading.history():
        pass
    return list(reading.state.history.events())


# MERGED gateway.methods.loading: Back to a session: load, with its history, and resume, without.
#
# A session that is live here is joined: the gateway replays its own log, the agent hears nothing of it. One that is not is
# opened again through the agent, by load where it can, so that what happened elsewhere is there too. Once begun, that goes on
# to its end also without the client that wanted it, and one at a time; the history is then sent to each client at its own pace.

Found: TypeAlias = tuple[LiveSession, RemainingHistory | None]


async def load(visitor: "GatewayClient", call: "ClientCall") -> None:
    """Open a session with its history."""
    asked: LoadSessionRequest = call.read().value
    session, rest = await visitor.gateway.finish(_to_join(visitor, call, asked))
    if not call.over:
        await join(visitor, call, session, rest)


async def _to_join(visitor: "GatewayClient", call: "ClientCall", asked: LoadSessionRequest) -> Found:
    """The session whose log is to be replayed; the call is over if the agent has replayed it itself."""
    gateway, agent, read_only = visitor.gateway, visitor.agent, visitor.visa.read_only
    async with gateway.opening(agent.name, asked.session_id):
        session = known_session(visitor, asked.session_id)
        if session is None or not session.live:
            check_folders(visitor.visa, asked.cwd, *(asked.additional_directories or ()))
        if session is not None and (session.live or read_only):
            return session, None
        if read_only:
            raise _no_session(asked.session_id)
        upstream = await agent.ready()
        if session is None:
            if not agent.offers("session/load"):
                raise _no_session(asked.session_id)
            await check_theirs(visitor, asked.session_id)
        if agent.offers("session/load"):
            return await _load(visitor, call, upstream, asked, session)
        assert session is not None
        try:
            await revive_now(visitor, session)
        except (RpcError, NotOffered) as error:
            gateway.note("session %s of %s can only be read: %s", session.id, agent.name, error)
        return session, None


async def _load(
    visitor: "GatewayClient",
    call: "ClientCall",
    upstream: Upstream,
    asked: LoadSessionRequest,
    known: LiveSession | None,
) -> Found:
    """Through the agent: its replay goes to whoever asked, as far as that one reads so fast, and into the log once it is
    complete.
    """
    gateway, agent = visitor.gateway, visitor.agent
    lease = await gateway.room(visitor.visa)
    additional = tuple(asked.additional_directories or ())
    session = known or gateway.sessions.add(agent, asked.session_id, asked.cwd, additional)
    before = session.additional
    gateway.move(session, additional)  # a session that is known stays in its folder
    servers = with_ours(agent, asked.mcp_servers or [])
    session.mcp_servers = encode(asked.mcp_servers or [])
    session.loading, session.loader, session.held = [], visitor, None
    over: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    entry = call.entry
    assert entry is not None
    shown = False
    rest: RemainingHistory | None = None

    def done(answer: AgentReply) -> None:
        nonlocal rest, shown
        replayed, session.loading, session.loader = session.loading or [], None, None
        held, session.held = session.held, None
        shown = bool(replayed)
        try:
            read = upstream.result(entry, answer)
        except Exception as error:  # noqa: BLE001 - RpcError, BadAnswer, ConnectionClosed: told below
            lease.release()
            over.set_result(error)
            return
        session.live = True
        session.count(lease, visitor.visa)
        session.log.append(ReplayStarted(), *replayed, ReplayEnded())
        session.opened(told_of(session, read.value))
        if held is None:
            taken_back = call.over
            call.give(read.value, read.body)
            if not taken_back:
                gateway.attach(visitor, session)
        else:
            reading = session.log.reading()
            try:
                reading.skip()
            except StoreError as error:
                gateway.note("session %s of %s: %s", session.id, agent.name, error)
            rest = RemainingHistory(cast(list[SessionUpdate], replayed[held:]), reading, read.value)
        gateway.overview.changed(session)
        over.set_result(None)

    body = encode(structs.replace(asked, cwd=session.cwd, mcp_servers=servers))
    visitor.forward(call, upstream, body, done)
    failure = await over
    if failure is None:
        return session, rest
    if known is None:
        gateway.sessions.forget(session)
        gateway.sessions.book.delete(agent.name, session.id)
        raise failure
    gateway.move(session, before)
    if shown:  # the whole log behind a part of the history would show that part twice
        raise failure
    gateway.note("session %s of %s can only be read: %s", session.id, agent.name, failure)
    return session, None


async def resume(visitor: "GatewayClient", call: "ClientCall") -> None:
    """Go on with a session, without its history."""
    asked: ResumeSessionRequest = call.read().value
    gateway = visitor.gateway
    session = await gateway.finish(_to_resume(visitor, asked))
    stands = session.settings.whole(SessionOpened(session.id))
    call.give(ResumeSessionResponse(modes=stands.modes, config_options=stands.config_options))
    gateway.attach(visitor, session)
    for frame in session.latest:
        visitor.post(frame, session.id)


async def _to_resume(visitor: "GatewayClient", asked: ResumeSessionRequest) -> LiveSession:
    gateway, agent, read_only = visitor.gateway, visitor.agent, visitor.visa.read_only
    additional = tuple(asked.additional_directories or ())
    async with gateway.opening(agent.name, asked.session_id):
        session = known_session(visitor, asked.session_id)
        if session is not None and (session.live or read_only):
            return session
        if read_only:
            raise _no_session(asked.session_id)
        check_folders(visitor.visa, asked.cwd, *additional)
        if session is not None:
            gateway.move(session, additional)
            session.mcp_servers = encode(asked.mcp_servers or [])
            await revive_now(visitor, session)
            return session
        await check_theirs(visitor, asked.session_id)
        session = gateway.sessions.add(agent, asked.session_id, asked.cwd, additional)
        session.mcp_servers = encode(asked.mcp_servers or [])
        try:
            await revive_now(visitor, session)
        except BaseException:
            gateway.sessions.forget(session)
            gateway.sessions.book.delete(agent.name, session.id)
            raise
        return session


def _no_session(session_id: str) -> NotFound:
    return NotFound("There is no such session", {"sessionId": session_id})
