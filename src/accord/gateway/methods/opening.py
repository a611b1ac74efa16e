"""Coming in: `initialize`, and the two ways to a session that was not there before: new and fork."""

from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import UNSET, structs

from accord.errors import AccordError, InvalidRequest, MethodNotFound, RpcError
from accord.gateway.access.limits import Lease
from accord.gateway.ending import rpc_error
from accord.gateway.hosted import PROTOCOL_VERSION, HostedAgent
from accord.gateway.methods.joining import check_folders, known_session
from accord.gateway.methods.listing import check_theirs
from accord.gateway.methods.reviving import revive, told_of, with_ours
from accord.gateway.sessions import LiveSession
from accord.gateway.upstream import Answer, Upstream
from accord.schema import (
    AgentCapabilities,
    ClientCapabilities,
    InitializeRequest,
    InitializeResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
)
from accord.schema.codec import encode
from accord.session import Event

if TYPE_CHECKING:
    from accord.gateway.incoming import Incoming
    from accord.gateway.visitor import Visitor

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
    try:
        await visitor.agent.ready()
    except AccordError as error:
        raise _naming_others(visitor, rpc_error(error)) from error
    visitor.capabilities = asked.client_capabilities or ClientCapabilities()
    own = (visitor.capabilities.meta or {}).get("accord")
    visitor.announced = own if isinstance(own, dict) else {}
    call.answer(encode(welcome(visitor.agent, visitor.line.id, visitor.visa.read_only)))


def _naming_others(visitor: "Visitor", error: RpcError) -> RpcError:
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


async def new(visitor: "Visitor", call: "Incoming") -> None:
    """A new session, in a folder that the token covers."""
    body, asked = call.read()
    check_folders(visitor.visa, asked.cwd, *(asked.additional_directories or ()))
    upstream = await visitor.agent.ready()
    servers = with_ours(visitor.agent, asked.mcp_servers or [])
    if len(servers) != len(asked.mcp_servers or []):
        body = encode(structs.replace(asked, mcp_servers=servers))
    lease = await visitor.gateway.room(visitor.visa)

    def done(answer: Answer) -> None:
        _born(visitor, call, upstream, answer, asked, lease)

    visitor.forward(call, upstream, body, done)


async def fork(visitor: "Visitor", call: "Incoming") -> None:
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

    def done(answer: Answer) -> None:
        session = _born(visitor, call, upstream, answer, asked, lease)
        if session is not None and source is not None:
            session.log.append(*_whole(source.log.reading()))

    visitor.forward(call, upstream, body, done)


def _born(
    visitor: "Visitor", call: "Incoming", upstream: Upstream, answer: Answer, asked: Any, lease: Lease
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
