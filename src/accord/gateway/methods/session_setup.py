"""`initialize`, `session/new`, `session/fork`, `session/load`, `session/resume`.

A client that loads a live session joins it: the gateway replays its own log, and the agent is not involved.
A session that is not live is opened by the agent, with `session/load` if possible, so that the history
includes what happened elsewhere. Loading continues even if the client disconnects. One task at a time opens
a session. Each client receives the history at its own speed.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from msgspec import UNSET, structs

from accord.client.agent_lifecycle import PROTOCOL_VERSION
from accord.errors import (
    AccordError,
    InvalidRequest,
    MethodNotFound,
    NotFound,
    NotOffered,
    RpcError,
    StoreError,
)
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.access.resource_limits import LimitLease
from accord.gateway.client_features import with_accord_meta
from accord.gateway.contracts import SessionNames
from accord.gateway.gateway_client import rpc_error
from accord.gateway.hosted_agent import HostedAgent
from accord.gateway.live_sessions import LiveSession
from accord.gateway.methods.session_list import require_listed
from accord.gateway.methods.session_restore import (
    RemainingHistory,
    add_gateway_servers,
    ensure_open_at_agent,
    find_session,
    join,
    opened_event,
    reopen,
    send_current_updates,
    show_live_state,
)
from accord.gateway.upstream import AgentReply, OfficialMessage, Upstream
from accord.schema import (
    AgentCapabilities,
    CloseSessionRequest,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionDeleteCapabilities,
    SessionInfoUpdate,
    SessionListCapabilities,
    SessionResumeCapabilities,
)
from accord.schema.codec import encode
from accord.session import Event, ReplayEnded, ReplayStarted, SessionOpened

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient


EXTENSIONS: Final[dict[str, dict[str, object]]] = {
    "inbox": {},
    "sessions": {},
    "agents": {},
    "files": {},
    "terminals": {},
    "turn": {},
}


async def initialize(client: "GatewayClient", call: "ClientCall") -> None:
    """Initialize the client, and start the agent if needed. The gateway adds what the agent lacks."""
    if client.capabilities is not None and client.extensions.get("turn") != "answer":
        raise InvalidRequest("the connection is already initialized")
    params: InitializeRequest = call.read_params().value
    try:
        await client.agent.ensure_started()
    except AccordError as error:
        raise _with_agent_names(client, rpc_error(error)) from error
    client.set_capabilities(params.client_capabilities or None)
    response = initialize_response(client.agent, client.connection.id, client.rights)
    if client.takes_events and response.agent_capabilities:
        meta = with_accord_meta(response.agent_capabilities.meta, events={})
        response.agent_capabilities = structs.replace(response.agent_capabilities, meta=meta)
    call.answer(encode(response))


def _with_agent_names(client: "GatewayClient", error: RpcError) -> RpcError:
    """Add the names of the agents that the token covers, so that the client can try another one."""
    data = cast("dict[str, object] | None", error.data)
    members = data if isinstance(data, dict) else {} if data is None else {"details": data}
    agents = [name for name in client.gateway.agents if client.rights.may_use(name)]
    return RpcError(error.message, {**members, "agents": agents}, code=error.code)


def initialize_response(agent: HostedAgent, connection_id: str, rights: TokenRights) -> InitializeResponse:
    """Return the agent's answer with the gateway's additions.

    It names the connection, because browsers cannot read the header.
    """
    agent_capabilities = agent.capabilities
    gateway: dict[str, object] = {"version": 1, "agent": agent.name}
    if rights.read_only:
        gateway["readOnly"] = True
    if rights.session:
        gateway["session"] = rights.session
    if not rights.may_add_mcp_servers:
        gateway["mcpServers"] = False
    extensions = {**EXTENSIONS, "resume": {"version": 1, "connectionId": connection_id}, "gateway": gateway}
    sessions = agent_capabilities.session_capabilities or SessionCapabilities()
    delete = sessions.delete or (SessionDeleteCapabilities() if not sessions.list else UNSET)
    capabilities: AgentCapabilities = structs.replace(
        agent_capabilities,
        load_session=True,
        session_capabilities=structs.replace(
            sessions,
            list=sessions.list or SessionListCapabilities(),
            resume=sessions.resume or SessionResumeCapabilities(),
            close=sessions.close or SessionCloseCapabilities(),
            delete=delete,
            archive=UNSET,  # the gateway's own list has no archive
            status=UNSET,
        ),
        meta={**(agent_capabilities.meta or {}), "accord": extensions},
    )
    meta = {
        name: value
        for name, value in (agent.initialize_response.meta or {}).items()
        if name != "sessionIndex"
    }
    return structs.replace(
        agent.initialize_response,
        protocol_version=PROTOCOL_VERSION,
        agent_capabilities=capabilities,
        meta=meta or UNSET,
    )


async def new(client: "GatewayClient", call: "ClientCall") -> None:
    """Create a session in a folder that the token covers."""
    body, params = client.gateway.mcp_providers.opening_params(call)
    check_folders(client.rights, params.cwd, *(params.additional_directories or ()))
    upstream = await client.agent.ensure_started()
    servers = add_gateway_servers(client.agent, params.mcp_servers or [])
    if len(servers) != len(params.mcp_servers or []):
        body = encode(structs.replace(params, mcp_servers=servers))
    lease = await client.gateway.reserve_session(client.rights)

    def on_reply(reply: AgentReply) -> None:
        _add_session(client, call, upstream, reply, params, lease)

    client.forward(call, upstream, body, on_reply)


async def fork(client: "GatewayClient", call: "ClientCall") -> None:
    """Create a session as a copy of another one."""
    body, params = client.gateway.mcp_providers.opening_params(call)
    check_folders(client.rights, params.cwd, *(params.additional_directories or ()))
    upstream = await client.agent.ensure_started()
    if not client.agent.supports("session/fork"):
        raise MethodNotFound(data={"method": call.method})
    source = await find_session(client, params.session_id)
    history: list[Event] = []
    if source is not None:
        upstream = await ensure_open_at_agent(client, source)
        history = await _history(source)
        if source.title:
            history.append(SessionInfoUpdate(title=source.title))
    else:
        await require_listed(client, params.session_id)
    lease = await client.gateway.reserve_session(client.rights)

    def on_reply(reply: AgentReply) -> None:
        _add_session(client, call, upstream, reply, params, lease, history)

    client.forward(call, upstream, body, on_reply)


async def _history(session: LiveSession) -> list[Event]:
    """Return the history of a session as few events."""
    reader = session.log.reader()
    try:
        while await reader.page():
            pass
    except StoreError as error:
        raise RpcError(f"cannot read the history: {error}") from None
    return reader.state.history.events()


def _add_session(
    client: "GatewayClient",
    call: "ClientCall",
    upstream: Upstream,
    reply: AgentReply,
    params: Any,
    lease: LimitLease,
    history: Sequence[Event] = (),
) -> None:
    """Add the session that the agent has created, with the history of the session that it was forked from.

    Attaches the client before any update of the session is handled.
    """
    entry = call.entry
    assert entry is not None
    try:
        response = upstream.decode_reply(entry, reply)
    except Exception as error:  # noqa: BLE001 - RpcError, BadAnswer, ConnectionClosed: sent to the client
        lease.release()
        call.fail(error)
        return
    new = _NewSession(client, call, upstream, response, params, lease, history)
    gateway, session_id, names = client.gateway, response.value.session_id, client.gateway.book.names
    folders = (params.cwd, *(params.additional_directories or ()))
    earlier = gateway.sessions.find(client.agent.name, session_id)
    if names is None or (earlier is not None and earlier.is_shared_in(folders)):
        new.add(session_id)
    else:
        upstream.hold()  # until the session has a name
        gateway.tasks.start(new.add_named(names))


class _NewSession(NamedTuple):
    """A session that the agent has created."""

    client: "GatewayClient"
    call: "ClientCall"
    upstream: Upstream
    response: OfficialMessage
    params: Any
    lease: LimitLease
    history: Sequence[Event]

    async def add_named(self, names: SessionNames) -> None:
        """Add it under an id that is free in the cluster."""
        renamed, params = self.upstream.renamed, self.params
        assert renamed is not None
        own_id = renamed.own_id(self.response.value.session_id)
        try:
            session_id = await names.reserve(
                self.client.agent.name, own_id, params.cwd, params.additional_directories or ()
            )
        except (StoreError, InvalidRequest) as error:
            self._refuse(InvalidRequest(str(error)))
        else:
            renamed.add(own_id, session_id)
            self.add(session_id)
        finally:
            self.upstream.release()
            self.client.gateway.outbox.flush()

    def add(self, session_id: str) -> None:
        client, call, response = self.client, self.call, self.response
        gateway, agent = client.gateway, client.agent
        folders = tuple(self.params.additional_directories or ())
        try:
            session = gateway.add_new_session(agent, session_id, self.params.cwd, folders)
        except InvalidRequest as error:
            self._refuse(error)
            return
        session.open_at_agent = True
        session.take_lease(self.lease, client.rights)
        session.mcp_servers = encode(self.params.mcp_servers or [])
        session.record_opened(opened_event(session, response.value))
        session.log.append(*self.history)
        call.log = session.log
        value, body = response.value, response.body
        if value.session_id != session_id:
            value = structs.replace(value, session_id=session_id)
            body = encode(value)
        call.answer_value(value, body)
        gateway.attach(client, session)
        gateway.agent_events.deliver_early_updates(agent, session)
        gateway.overview.notify_changed(session)

    def _refuse(self, error: InvalidRequest) -> None:
        self.lease.release()
        if self.client.agent.supports("session/close"):
            close = CloseSessionRequest(self.response.value.session_id)
            self.upstream.call("session/close", encode(close), lambda _: None)
        self.call.fail(error)


LoadedSession: TypeAlias = tuple[LiveSession, RemainingHistory | None]


async def load(client: "GatewayClient", call: "ClientCall") -> None:
    """Open a session with its history."""
    params: LoadSessionRequest = client.gateway.mcp_providers.opening_params(call).value
    session, remaining = await client.gateway.run_to_end(_open_for_load(client, call, params))
    if not call.is_answered:
        await join(client, call, session, remaining)


async def _open_for_load(
    client: "GatewayClient", call: "ClientCall", params: LoadSessionRequest
) -> LoadedSession:
    """Return the session whose log is to be replayed. If the agent has replayed it, the call is already
    answered.
    """
    gateway, agent, read_only = client.gateway, client.agent, client.rights.read_only
    async with gateway.session_lock(agent.name, params.session_id):
        session = await find_session(client, params.session_id)
        if session is None or not session.open_at_agent:
            check_folders(client.rights, params.cwd, *(params.additional_directories or ()))
        if session is not None and (session.open_at_agent or read_only):
            return session, None
        if read_only:
            raise _session_not_found(params.session_id)
        upstream = await agent.ensure_started()
        if session is None:
            if not agent.supports("session/load"):
                raise _session_not_found(params.session_id)
            await require_listed(client, params.session_id)
        if agent.supports("session/load"):
            return await _load(client, call, upstream, params, session)
        assert session is not None
        try:
            await reopen(client, session)
        except (RpcError, NotOffered) as error:
            session.only_readable = True
            gateway.log_warning("session %s of %s can only be read: %s", session.id, agent.name, error)
        return session, None


async def _load(
    client: "GatewayClient",
    call: "ClientCall",
    upstream: Upstream,
    params: LoadSessionRequest,
    known_session: LiveSession | None,
) -> LoadedSession:
    """Load the session at the agent.

    The replay goes to the client while it reads fast enough, and into the log when it is complete.
    """
    gateway, agent = client.gateway, client.agent
    lease = await gateway.reserve_session(client.rights)
    additional_folders = tuple(params.additional_directories or ())
    try:
        session = known_session or gateway.sessions.add(
            agent, params.session_id, params.cwd, additional_folders
        )
    except InvalidRequest:
        lease.release()
        raise
    earlier_folders = session.additional_folders
    gateway.change_folders(session, additional_folders)  # a known session keeps its working directory
    servers = add_gateway_servers(agent, params.mcp_servers or [])
    session.mcp_servers = encode(params.mcp_servers or [])
    session.add_user(client.rights)  # before the agent acts
    load = _AgentLoad(client, call, upstream, session, lease)
    body = encode(structs.replace(params, cwd=session.cwd, mcp_servers=servers))
    client.forward(call, upstream, body, load.on_reply)
    failure = await load.outcome
    if failure is None:
        return session, load.remaining
    if known_session is None:
        await _remove_unopened(client, session)
        raise failure
    gateway.change_folders(session, earlier_folders)
    if load.replayed:  # replaying the log now would repeat the part that was sent
        raise failure
    session.only_readable = True
    gateway.log_warning("session %s of %s can only be read: %s", session.id, agent.name, failure)
    return session, None


class _AgentLoad:
    """A `session/load` at the agent: collects the replay until the agent replies."""

    def __init__(
        self,
        client: "GatewayClient",
        call: "ClientCall",
        upstream: Upstream,
        session: LiveSession,
        lease: LimitLease,
    ) -> None:
        self.outcome: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        """The error of the load; None if it succeeded."""
        self.remaining: RemainingHistory | None = None
        """The part of the replay that was not sent to the client."""
        self.replayed: bool = False
        """Whether the agent replayed anything."""
        self._client = client
        self._call = call
        self._upstream = upstream
        self._session = session
        self._lease = lease
        session.replay_buffer, session.loading_client, session.replay_unsent_from = [], client, None

    def on_reply(self, reply: AgentReply) -> None:
        client, call, session = self._client, self._call, self._session
        entry = call.entry
        assert entry is not None
        replay, session.replay_buffer, session.loading_client = session.replay_buffer or [], None, None
        unsent_from, session.replay_unsent_from = session.replay_unsent_from, None
        self.replayed = bool(replay)
        try:
            response = self._upstream.decode_reply(entry, reply)
        except Exception as error:  # noqa: BLE001 - RpcError, BadAnswer, ConnectionClosed: `_load` raises it
            self._lease.release()
            self.outcome.set_result(error)
            return
        session.open_at_agent = True
        session.take_lease(self._lease, client.rights)
        session.log.append(ReplayStarted(), *replay, ReplayEnded())
        session.record_opened(opened_event(session, response.value))
        call.log = session.log
        if unsent_from is None:
            was_cancelled = call.is_answered
            call.answer_value(response.value, response.body)
            if not was_cancelled:
                client.gateway.attach(client, session)
        else:
            unsent_events = replay[unsent_from:]
            client.gateway.book.commit()
            reader = session.log.reader(after=session.log.noted)
            self.remaining = RemainingHistory(unsent_events, reader, response.value)
        client.gateway.overview.notify_changed(session)
        self.outcome.set_result(None)


async def resume(client: "GatewayClient", call: "ClientCall") -> None:
    """Open a session without its history."""
    params: ResumeSessionRequest = client.gateway.mcp_providers.opening_params(call).value
    gateway = client.gateway
    session = await gateway.run_to_end(_open_for_resume(client, params))
    settings = session.settings.with_settings(SessionOpened(session.id))
    call.log = session.log
    show_live_state(client, session)
    call.answer_value(ResumeSessionResponse(modes=settings.modes, config_options=settings.config_options))
    gateway.attach(client, session)
    send_current_updates(client, session)


async def _open_for_resume(client: "GatewayClient", params: ResumeSessionRequest) -> LiveSession:
    gateway, agent, read_only = client.gateway, client.agent, client.rights.read_only
    additional_folders = tuple(params.additional_directories or ())
    async with gateway.session_lock(agent.name, params.session_id):
        session = await find_session(client, params.session_id)
        if session is not None and (session.open_at_agent or read_only):
            return session
        if read_only:
            raise _session_not_found(params.session_id)
        check_folders(client.rights, params.cwd, *additional_folders)
        if session is not None:
            gateway.change_folders(session, additional_folders)
            session.mcp_servers = encode(params.mcp_servers or [])
            await reopen(client, session)
            return session
        await require_listed(client, params.session_id)
        session = gateway.sessions.add(agent, params.session_id, params.cwd, additional_folders)
        session.mcp_servers = encode(params.mcp_servers or [])
        try:
            await reopen(client, session)
        except BaseException:
            await _remove_unopened(client, session)
            raise
        return session


async def _remove_unopened(client: "GatewayClient", session: LiveSession) -> None:
    """Remove a session that its agent did not open."""
    gateway = client.gateway
    gateway.sessions.forget(session)
    try:
        await gateway.book.delete(session.agent.name, session.id)
    except StoreError as error:
        gateway.log_warning("session %s of %s stays in the list: %s", session.id, session.agent.name, error)


def _session_not_found(session_id: str) -> NotFound:
    return NotFound("session not found", {"sessionId": session_id})
