"""Replays a live session to a client that joins; reopens a session at an agent that no longer has it."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import UNSET, structs

from accord.client import agent_connection
from accord.errors import InvalidRequest, NotFound, NotOffered, RpcError, SessionInUse, StoreError
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.client_connection import MAX_UNSENT_HISTORY, OutgoingFrame
from accord.gateway.client_features import event_body
from accord.gateway.contracts import OPEN_AT_NODE, LogReader
from accord.gateway.hosted_agent import HostedAgent
from accord.gateway.live_sessions import LiveSession
from accord.gateway.upstream import AgentReply, Upstream
from accord.schema import (
    LoadSessionRequest,
    LoadSessionResponse,
    McpServer,
    ResumeSessionRequest,
    SessionInfoUpdate,
)
from accord.schema.codec import decode, encode
from accord.schema.methods import request
from accord.session import Event, SessionOpened, StateChanged, TurnEnded
from accord.session.protocol_v1 import session_opened_event

if TYPE_CHECKING:
    from accord.gateway.gateway_client import ClientCall, GatewayClient


_EVENTS_PER_PAUSE: Final = 64
_BYTES_PER_PAUSE: Final = 256 << 10
"""How much of a history is sent before other tasks run."""


class RemainingHistory(NamedTuple):
    """The part of a history that was not sent, because the agent replayed it faster than the client read."""

    events: list[Event]
    reader: LogReader
    """Positioned after the events."""
    response: Any
    """The agent's response to `session/load`."""


async def join(
    client: "GatewayClient",
    call: "ClientCall",
    session: LiveSession,
    remaining: RemainingHistory | None = None,
) -> None:
    """Replay the log, or the remaining part of the agent's history, then attach the client.

    The client misses no update and sees none twice.
    """
    session.joining_clients += 1
    try:
        await _replay(client, call, session, remaining)
    finally:
        session.joining_clients -= 1


async def _replay(
    client: "GatewayClient", call: "ClientCall", session: LiveSession, remaining: RemainingHistory | None
) -> None:
    gateway = client.gateway
    reader = remaining.reader if remaining is not None else session.log.reader()
    try:
        if remaining is not None:
            await _send_history(client, session, remaining.events, reader)
        while events := await reader.page():
            await _send_history(client, session, events, reader)
    except StoreError as error:
        raise RpcError(f"cannot read the history: {error}") from None
    check_folders(client.rights, *session.folders)  # they may have changed
    if gateway.sessions.find(session.agent.name, session.id) is not session:
        raise NotFound("the session was deleted", {"sessionId": session.id})
    state = reader.state
    if session.last_end is None and (state.stop_reason or state.error):
        session.last_end = TurnEnded(state.stop_reason, error=state.error)
    call.log = session.log
    show_live_state(client, session)
    if remaining is not None:
        call.answer_value(remaining.response)
        gateway.attach(client, session)
        return
    if session.title:
        title = SessionInfoUpdate(title=session.title)
        gateway.send_update(session, title, (client,), is_logged=False)
    settings = session.settings.with_settings(SessionOpened(session.id))
    if not session.open_at_agent and settings.modes is UNSET and not settings.config_options:
        settings = reader.state.settings.with_settings(SessionOpened(session.id))
    call.answer_value(LoadSessionResponse(modes=settings.modes, config_options=settings.config_options))
    gateway.attach(client, session)
    send_current_updates(client, session)


def send_current_updates(client: "GatewayClient", session: LiveSession) -> None:
    """Send the latest settings-like updates to a client that has just attached."""
    for frame in session.current_updates:
        client.post(OutgoingFrame(frame.body), session.id, session.log)


def show_live_state(client: "GatewayClient", session: LiveSession) -> None:
    """Send what the log has not, before the answer to a client that joins: terminals and background work."""
    if not client.takes_events:
        return
    for terminal in session.gateway_terminals:
        client.post(
            OutgoingFrame(event_body(session.id, client.adapt_terminal(terminal))), session.id, session.log
        )
    if session.latest.background:
        background = StateChanged(session.latest.activity, session.latest.background)
        client.post(OutgoingFrame(event_body(session.id, background)), session.id, session.log)


async def _send_history(
    client: "GatewayClient", session: LiveSession, events: Iterable[Event], reader: LogReader
) -> None:
    gateway = client.gateway
    posted = 0
    for number, event in enumerate(events, 1):
        for body in client.history_bodies(session.id, event, reader, session.terminal_text):
            client.post(OutgoingFrame(body), session.id, session.log)
            posted += len(body)
        if posted > _BYTES_PER_PAUSE or number % _EVENTS_PER_PAUSE == 0:
            posted = 0
            gateway.outbox.flush()
            await asyncio.sleep(0)  # let other tasks run
            await gateway.wait_until_sent(client, MAX_UNSENT_HISTORY)


async def find_session(client: "GatewayClient", session_id: str) -> LiveSession | None:
    """Return a live or logged session in folders that the token covers; None if it is unknown."""
    gateway, agent = client.gateway, client.agent
    if client.rights.session not in ("", session_id):
        raise NotFound("session not found", {"sessionId": session_id})
    session = gateway.sessions.find(agent.name, session_id)
    if session is None:
        recorded = gateway.book.find(agent.name, session_id)
        if recorded is None:
            return None
        summary = recorded.summary
        check_folders(client.rights, summary.cwd, *summary.additional_directories)
        session = gateway.sessions.add(agent, session_id, summary.cwd, summary.additional_directories)
    else:
        check_folders(client.rights, *session.folders)
    try:
        await gateway.claim_session(session)
    except StoreError as error:
        raise _not_claimed(error, "cannot read the session", session_id) from None
    return session


def _not_claimed(error: StoreError, what: str, session_id: str) -> RpcError:
    data = {"sessionId": session_id}
    if isinstance(error, SessionInUse) and error.node:
        data[OPEN_AT_NODE] = error.node
    return RpcError(f"{what}: {error}", data)


_MAX_STARTS: Final = 3
"""How often one request restarts an agent that ends at once."""


async def ensure_open_at_agent(client: "GatewayClient", session: LiveSession) -> Upstream:
    """Return the connection to the agent after it has the session open.

    Raises the agent's error, or RpcError.
    """
    for _ in range(_MAX_STARTS):
        try:
            await client.gateway.claim_session(session)
        except StoreError as error:
            raise _not_claimed(error, "cannot open the session", session.id) from None
        upstream = session.agent.upstream
        if session.open_at_agent and upstream is not None:
            return upstream
        await client.gateway.run_to_end(_reopen_locked(client, session))
    raise InvalidRequest("the agent keeps ending; see the gateway's log", {"sessionId": session.id})


async def _reopen_locked(client: "GatewayClient", session: LiveSession) -> None:
    async with client.gateway.session_lock(session.agent.name, session.id):
        await reopen(client, session)


async def reopen(client: "GatewayClient", session: LiveSession) -> None:
    """Reopen the session at the agent if it is not live. The caller holds the session lock."""
    agent = session.agent
    upstream = await agent.ensure_started()
    if session.open_at_agent:
        return
    check_folders(client.rights, *session.folders)  # a link may have replaced a folder
    session.add_user(client.rights)  # before the agent acts
    failure: BaseException = InvalidRequest(
        "the agent no longer has this session and cannot reopen it; start a new one",
        {"sessionId": session.id},
    )
    lease = await client.gateway.reserve_session(client.rights)
    try:
        for method, request_type in (
            ("session/resume", ResumeSessionRequest),
            ("session/load", LoadSessionRequest),
        ):
            if agent.supports(method):
                try:
                    await _reopen_with(session, upstream, method, request_type)
                except RpcError as error:
                    failure = error
                else:
                    session.take_lease(lease, client.rights)
                    return
        raise failure
    except BaseException:
        lease.release()
        raise


async def _reopen_with(session: LiveSession, upstream: Upstream, method: str, request_type: Any) -> None:
    """Reopen the session with this method; the replay of a load is discarded."""
    entry = request("agent", method)
    assert entry is not None
    servers: list[McpServer] = decode(list[McpServer], session.mcp_servers)
    params = request_type(
        session.id,
        session.cwd,
        add_gateway_servers(session.agent, servers),
        list(session.additional_folders) if session.additional_folders else UNSET,
    )
    outcome: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def on_reply(reply: AgentReply) -> None:
        session.discards_updates = False
        try:
            response = upstream.decode_reply(entry, reply)
        except Exception as error:  # noqa: BLE001 - RpcError, BadAnswer, ConnectionClosed: raised below
            failure: BaseException | None = error
        else:
            failure = None
            session.open_at_agent = True
            session.record_opened(opened_event(session, response.value))
        if not outcome.done():
            outcome.set_result(failure)

    session.discards_updates = method == "session/load"
    upstream.call(method, encode(params), on_reply)
    failure = await outcome
    if failure is not None:
        raise failure


def opened_event(session: LiveSession, answer: Any) -> SessionOpened:
    """Return the event for the agent's answer, with the folders of the session."""
    return structs.replace(
        session_opened_event(session.id, answer),
        cwd=session.cwd,
        additional_directories=list(session.additional_folders),
    )


def add_gateway_servers(agent: HostedAgent, client_servers: list[McpServer]) -> list[McpServer]:
    """Return the client's MCP servers and the supported ones that the gateway adds for this agent."""
    names = {server.name for server in client_servers}
    gateway_servers = [server for server in agent.source.mcp_servers() if server.name not in names]
    supported: list[McpServer] = []
    for server in gateway_servers:
        try:
            agent_connection.require_servers((server,), agent.capabilities)
        except NotOffered:
            continue
        supported.append(server)
    return [*client_servers, *supported]
