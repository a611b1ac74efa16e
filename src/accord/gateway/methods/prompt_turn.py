"""In a session: prompts, cancelling, settings, and everything else that is only handed on."""

from typing import TYPE_CHECKING

from msgspec import UNSET

from accord.errors import BadAnswer, ConnectionClosed, InvalidParams, NotFound, RpcError
from accord.gateway.access.access_tokens import NOT_ALLOWED
from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.gateway_client import rpc_error
from accord.gateway.live_sessions import LiveSession
from accord.gateway.methods.session_restore import ensure_live
from accord.gateway.upstream import AgentReply, Upstream
from accord.schema import (
    ConfigOptionUpdate,
    CurrentModeUpdate,
    PromptRequest,
    SessionNotification,
    SessionUpdate,
    UserMessageChunk,
)
from accord.schema.codec import encode
from accord.schema.methods import notification
from accord.session import TurnCancelling, TurnStarted, turn_failed
from accord.session.protocol_v1 import prompt_answered

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from accord.gateway.gateway_client import ClientCall, GatewayClient


def attached(client: "GatewayClient", session_id: str | None) -> LiveSession:
    """The session, which this client must have opened. Raises NotFound."""
    session = client.sessions.get(session_id) if session_id is not None else None
    if session is None:
        raise NotFound(
            "This connection has no such session: open it with session/load or session/resume",
            {"sessionId": session_id},
        )
    return session


def prompt(client: "GatewayClient", call: "ClientCall") -> "Awaitable[None] | None":
    """A turn: the others see what was asked, and how it ended."""
    body, params = call.read_params()
    session = attached(client, params.session_id)
    if client.gateway.stopping:
        raise RpcError("The gateway is stopping and takes no new prompts: send it again when it is back")
    upstream = session.agent.upstream
    if session.live and upstream is not None:
        _prompt(client, call, session, upstream, body, params)
        return None
    return _prompt_later(client, call, session, body, params)


async def _prompt_later(
    client: "GatewayClient", call: "ClientCall", session: LiveSession, body: bytes, params: PromptRequest
) -> None:
    """Once the agent has the session again; also if the client, which has seen its prompt leave, goes meanwhile."""

    async def go_on() -> None:
        upstream = await ensure_live(client, session)
        if not (call.is_answered and client.connected):  # else it was taken back
            _prompt(client, call, session, upstream, body, params)

    await client.gateway.run_to_end(go_on())


def _prompt(
    client: "GatewayClient",
    call: "ClientCall",
    session: LiveSession,
    upstream: Upstream,
    body: bytes,
    params: PromptRequest,
) -> None:
    gateway = client.gateway
    session.begin_turn(TurnStarted(list(params.prompt)))
    others = [other for other in session.clients if other is not client]
    for block in params.prompt:
        gateway.send_update(session, UserMessageChunk(content=block), others)
    _notify_turn(client, session, {"state": "started"})

    def done(answer: AgentReply) -> None:
        entry = call.entry
        assert entry is not None
        facts: dict[str, object] = {"state": "ended"}
        try:
            read = upstream.result(entry, answer)
        except (RpcError, BadAnswer, ConnectionClosed) as error:
            result = rpc_error(error)
            session.end_turn(turn_failed(result))
            call.fail(error)
            data = {"data": result.data} if result.has_data else {}
            facts["error"] = {"code": result.code, "message": result.message, **data}
        else:
            ended = prompt_answered(read.value)
            session.end_turn(ended)
            call.answer(read.body)
            facts["stopReason"] = ended.stop_reason or ended.raw_reason
        _notify_turn(client, session, facts)
        gateway.overview.notify_changed(session)

    client.forward(call, upstream, body, done)
    gateway.overview.notify_changed(session)


def _notify_turn(client: "GatewayClient", session: LiveSession, facts: dict[str, object]) -> None:
    others = tuple(other for other in session.clients if other is not client and other.extensions.get("turn"))
    if others:
        params = encode({"sessionId": session.id, **facts})
        body = b'{"jsonrpc":"2.0","method":"_accord/turn","params":%s}' % params
        client.gateway.post(others, OutgoingFrame(body), session.id)


def cancel(client: "GatewayClient", call: "ClientCall") -> None:
    """Anybody attached can stop the turn; what waits for an answer in it is answered so."""
    entry = notification("agent", "session/cancel")
    assert entry is not None
    body, params = client.reader.params(entry, call.params)
    session = client.sessions.get(params.session_id)
    if session is not None:
        upstream = session.agent.upstream
        if upstream is not None and session.live:
            if session.running_turns:
                session.log.append(TurnCancelling())
            upstream.notify("session/cancel", body)
        client.gateway.pending_requests.dismiss(session, "the turn was cancelled")
    call.answer(b"{}")  # where somebody sends it as a request


async def set_mode(client: "GatewayClient", call: "ClientCall") -> None:
    """Another mode; the others are told, whether the agent does so or not."""
    body, params = call.read_params()
    session = attached(client, params.session_id)
    upstream = await ensure_live(client, session)

    def done(answer: AgentReply) -> None:
        if (
            call.answer_reply(upstream, answer) is not None
            and session.settings.current_mode_id != params.mode_id
        ):
            _share(client, session, CurrentModeUpdate(current_mode_id=params.mode_id))

    client.forward(call, upstream, body, done)


async def set_config_option(client: "GatewayClient", call: "ClientCall") -> None:
    """Another value; the others are told, whether the agent does so or not."""
    body, params = call.read_params()
    session = attached(client, params.session_id)
    upstream = await ensure_live(client, session)

    def done(answer: AgentReply) -> None:
        result = call.answer_reply(upstream, answer)
        if result is not None and result.config_options is not UNSET:
            update = ConfigOptionUpdate(config_options=list(result.config_options))
            if update.config_options != session.settings.config_options:
                _share(client, session, update)

    client.forward(call, upstream, body, done)


def _share(client: "GatewayClient", session: LiveSession, update: SessionUpdate) -> None:
    others = [other for other in session.clients if other is not client]
    frame = client.gateway.send_update(session, update, others)
    session.record_update(SessionNotification(session.id, update), frame)


async def forward(client: "GatewayClient", call: "ClientCall") -> None:
    """Everything else: to the agent as it came, within a session that this client has.

    What names no session concerns the whole agent, and a vendor's method may name folders in its own way: a token that is
    bound to folders may only sign in.
    """
    body = call.read_params().body
    session = None if call.session_id is None else attached(client, call.session_id)
    if session is None and client.rights.folders is not None and call.method != "authenticate":
        raise RpcError(
            "This token is bound to folders, and this concerns the whole agent",
            {"method": call.method},
            code=NOT_ALLOWED,
        )
    if call.id is UNSET:
        upstream = client.agent.upstream
        if upstream is None or (session is not None and not session.live):
            return
        if call.method.startswith("_") or notification("agent", call.method) is not None:
            upstream.notify(call.method, body)
        return
    if not call.method.startswith("_") and call.entry is None:
        raise RpcError("Method not found", {"method": call.method}, code=-32601)
    if body and not body.startswith((b"{", b"[")):
        raise InvalidParams("Invalid params: they are an object")
    upstream = await client.agent.ready() if session is None else await ensure_live(client, session)
    client.forward(call, upstream, body)
