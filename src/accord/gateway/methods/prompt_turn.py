"""Methods of an open session: prompts, cancellation, settings, and the forwarding of everything else."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from accord import telemetry
from accord.client.prompt_turn import final_text_chunk
from accord.errors import BadAnswer, ConnectionClosed, InvalidParams, NotFound, RpcError, StoreError
from accord.gateway.access.access_tokens import NOT_ALLOWED
from accord.gateway.client_features import with_accord_meta
from accord.gateway.gateway_client import rpc_error
from accord.gateway.live_sessions import LiveSession
from accord.gateway.methods.session_restore import ensure_open_at_agent
from accord.gateway.upstream import AgentReply, OfficialMessage, Upstream
from accord.schema import (
    ConfigOptionUpdate,
    ContentBlock,
    CurrentModeUpdate,
    PromptRequest,
    PromptResponse,
    SessionNotification,
    SessionUpdate,
    UserMessageChunk,
)
from accord.schema.codec import Mismatch, decode, encode
from accord.schema.dialects import final_text
from accord.schema.methods import notification
from accord.session import MessageChanged, TurnCancelling, TurnStarted, turn_failed
from accord.session.protocol_v1 import accord_meta, turn_ended_event

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from accord.gateway.gateway import Gateway
    from accord.gateway.gateway_client import ClientCall, GatewayClient


_STEERED: Final = ("injected", "startedNewTurn")


def attached_session(client: "GatewayClient", session_id: str | None) -> LiveSession:
    """Return the session that this client has opened. Raises NotFound."""
    session = client.sessions.get(session_id) if session_id is not None else None
    if session is None:
        raise NotFound(
            "this connection has not opened the session; open it with session/load or session/resume",
            {"sessionId": session_id},
        )
    return session


def prompt(client: "GatewayClient", call: "ClientCall") -> "Awaitable[None] | None":
    """Run a turn. The other clients see the prompt and how the turn ended."""
    body, params = call.read_params()
    session = attached_session(client, params.session_id)
    if client.gateway.stopping:
        raise RpcError("the gateway is stopping; send the prompt again when it is back")
    upstream = session.agent.upstream
    if session.open_at_agent and upstream is not None and not session.needs_claim:
        _start_turn(client, call, session, upstream, body, params)
        return None
    return _prompt_after_reopening(client, call, session, body, params)


async def _prompt_after_reopening(
    client: "GatewayClient", call: "ClientCall", session: LiveSession, body: bytes, params: PromptRequest
) -> None:
    """Send the prompt once the agent has reopened the session, even if the client disconnects meanwhile."""

    async def send_prompt() -> None:
        upstream = await ensure_open_at_agent(client, session)
        if not (call.is_answered and client.connected):  # otherwise the client canceled it
            _start_turn(client, call, session, upstream, body, params)

    await client.gateway.run_to_end(send_prompt())


def _start_turn(
    client: "GatewayClient",
    call: "ClientCall",
    session: LiveSession,
    upstream: Upstream,
    body: bytes,
    params: PromptRequest,
) -> None:
    gateway = client.gateway
    # Prompts during a turn have an id, so that those of two clients are two messages. For the others of an
    # agent in version 2, its own id is logged as soon as it is known.
    message_id: str | UnsetType = _message_id(params) or UNSET
    if upstream.takes_events:
        key = message_id or f"prompt-{uuid4().hex}"
        message_id = key if session.running_turns else UNSET
        meta = with_accord_meta(params.meta, messageId=key, keepsId=message_id is not UNSET)
        body = encode(replace(params, meta=meta))
        session.asking[key] = client
    elif session.running_turns:
        message_id = message_id or f"prompt-{uuid4().hex}"
    blocks = _with_time(params.prompt)
    turn = session.begin_turn(TurnStarted(blocks, message_id or None), client.connection.id, message_id)
    turn_start = session.turn_start
    others = [other for other in session.clients if other is not client]
    for block in blocks:
        gateway.send_update(session, UserMessageChunk(block, message_id), others)
    gateway.notify_turn(session, {"state": "started"}, client)

    token_watch = gateway.watch_turn(session, client.rights)
    agent_name = session.agent.name
    # The trace context of the client goes to the agent unchanged.
    operation = telemetry.start("invoke_agent", agent_name, client=True, parent=params.meta)
    if operation is not None:
        operation.set(agent_name=agent_name, conversation_id=session.id)

    def on_cancel() -> None:
        session.turn_requests.cancel_turn(turn)
        if session.turn_requests.stopped:
            gateway.pending_requests.cancel_session_requests(session, "the turn was cancelled")

    def on_reply(reply: AgentReply) -> None:
        entry = call.entry
        assert entry is not None
        if token_watch is not None:
            token_watch.release()
        try:
            response = upstream.decode_reply(entry, reply)
        except (RpcError, BadAnswer, ConnectionClosed) as error:
            failure = rpc_error(error)
            session.end_turn(turn_failed(failure), turn)
            if operation is not None:
                operation.end(failure)
            call.fail(error)
            data = {"data": failure.data} if failure.has_data else {}
            error = {"code": failure.code, "message": failure.message, **data}
            gateway.on_turn_ended(session, {"error": error}, client)
        else:
            if final_text(response.value):
                gateway.tasks.start(end_with_text(response))
            else:
                end_turn(response)

    async def end_with_text(response: OfficialMessage) -> None:
        await _share_final_text(gateway, session, turn_start, response.value)
        end_turn(response)

    def end_turn(response: OfficialMessage) -> None:
        event = turn_ended_event(response.value)
        session.end_turn(event, turn)
        if operation is not None:
            operation.set(response_finish_reasons=[event.stop_reason or event.raw_reason])
            operation.end()
        call.answer(response.body)
        gateway.on_turn_ended(session, {"stopReason": event.stop_reason or event.raw_reason}, client)

    call.on_cancel = on_cancel
    client.forward(call, upstream, body, on_reply)
    gateway.overview.notify_changed(session)


def _message_id(params: PromptRequest) -> str:
    """The id that a client in version 2 gets for its message; empty for other clients."""
    id: Any = accord_meta(params.meta).get("messageId")
    return id if isinstance(id, str) and re.fullmatch(r"[\w-]{1,80}", id) else ""


async def _share_final_text(
    gateway: "Gateway", session: LiveSession, turn_start: int, response: PromptResponse
) -> None:
    """Send the text that the agent returned only in the response, to all clients and the log.

    `turn_start` is the number of the record before the turn.
    """
    reader = session.log.reader(after=turn_start)
    try:
        while await reader.page():
            pass
    except StoreError as error:
        gateway.log_warning("session %s of %s: %s", session.id, session.agent.name, error)
    chunk = final_text_chunk(reader.state, response)
    if chunk is not None:
        session.log.append(chunk)
        gateway.send_update(session, chunk, session.clients)


def _with_time(prompt: "list[ContentBlock]") -> "list[ContentBlock]":
    """The prompt for the log and other clients, with the time in its first block. The agent gets none."""
    if not prompt:
        return []
    first = prompt[0]
    accord = {"time": datetime.now(UTC).isoformat(timespec="seconds")}
    return [replace(first, meta={**(first.meta or {}), "accord": accord}), *prompt[1:]]


def cancel(client: "GatewayClient", call: "ClientCall") -> None:
    """Cancel the turn, for any attached client, and cancel its pending requests."""
    entry = notification("agent", "session/cancel")
    assert entry is not None
    body, params = client.reader.params(entry, call.params)
    session = client.sessions.get(params.session_id)
    if session is not None:
        upstream = session.agent.upstream
        session.turn_requests.cancel_turn()
        if upstream is not None and session.open_at_agent:
            if session.running_turns:
                session.log.append(TurnCancelling())
            upstream.notify("session/cancel", body)
        client.gateway.pending_requests.cancel_session_requests(session, "the turn was cancelled")
    call.answer(b"{}")  # for clients that send it as a request


async def cancel_item(client: "GatewayClient", call: "ClientCall") -> None:
    """Ask an agent in version 2 to stop one tool call or terminal."""
    body = call.read_params().body
    session = attached_session(client, call.session_id)
    upstream = session.agent.upstream
    if upstream is None or not session.open_at_agent:
        raise InvalidParams("Invalid params: nothing to cancel")
    client.forward(call, upstream, body)


async def steer(client: "GatewayClient", call: "ClientCall") -> None:
    """Forward a message to the running turn. The other clients and the log get it once the agent has it."""
    body = call.read_params().body
    session = attached_session(client, call.session_id)
    upstream = await ensure_open_at_agent(client, session)

    def on_reply(reply: AgentReply) -> None:
        result = call.answer_reply(upstream, reply)
        if isinstance(result, dict) and cast(dict[str, object], result).get("outcome") in _STEERED:
            blocks = _message_blocks(body)
            message_id = f"steering-{uuid4().hex}"
            session.log.append(MessageChanged("user", message_id, blocks), by=client.connection.id)
            others = [other for other in session.clients if other is not client]
            for block in blocks:
                client.gateway.send_update(session, UserMessageChunk(block, message_id), others)

    client.forward(call, upstream, body, on_reply)


def _message_blocks(body: bytes) -> list[ContentBlock]:
    try:
        return decode(PromptRequest, body).prompt
    except Mismatch:
        return []  # the agent has accepted a dialect; its next replay shows the message


async def set_mode(client: "GatewayClient", call: "ClientCall") -> None:
    """Set the mode, and tell the other clients if the agent does not."""
    body, params = call.read_params()
    session = attached_session(client, params.session_id)
    upstream = await ensure_open_at_agent(client, session)

    def on_reply(reply: AgentReply) -> None:
        if (
            call.answer_reply(upstream, reply) is not None
            and session.settings.current_mode_id != params.mode_id
        ):
            _send_to_others(client, session, CurrentModeUpdate(current_mode_id=params.mode_id))

    client.forward(call, upstream, body, on_reply)


async def set_config_option(client: "GatewayClient", call: "ClientCall") -> None:
    """Set a config option, and tell the other clients if the agent does not."""
    body, params = call.read_params()
    session = attached_session(client, params.session_id)
    upstream = await ensure_open_at_agent(client, session)

    def on_reply(reply: AgentReply) -> None:
        result = call.answer_reply(upstream, reply)
        if result is not None and result.config_options is not UNSET:
            update = ConfigOptionUpdate(config_options=list(result.config_options))
            if update.config_options != session.settings.config_options:
                _send_to_others(client, session, update)

    client.forward(call, upstream, body, on_reply)


def _send_to_others(client: "GatewayClient", session: LiveSession, update: SessionUpdate) -> None:
    others = [other for other in session.clients if other is not client]
    frame = client.gateway.send_update(session, update, others)
    session.record_update(SessionNotification(session.id, update), frame, client.connection.id)


async def forward(client: "GatewayClient", call: "ClientCall") -> None:
    """Forward anything else to the agent, within a session that this client has opened.

    A method without a session concerns the whole agent, and a vendor's method may name folders in its own
    way. A token restricted to folders may therefore only call `authenticate`.
    """
    body = call.read_params().body
    session = None if call.session_id is None else attached_session(client, call.session_id)
    if session is None and client.rights.folders is not None and call.method != "authenticate":
        raise RpcError(
            "this token is restricted to folders and cannot call a method of the whole agent",
            {"method": call.method},
            code=NOT_ALLOWED,
        )
    if call.id is UNSET:
        upstream = client.agent.upstream
        if upstream is None or (session is not None and not session.open_at_agent):
            return
        if call.method.startswith("_") or notification("agent", call.method) is not None:
            upstream.notify(call.method, body)
        return
    if not call.method.startswith("_") and call.entry is None:
        raise RpcError("Method not found", {"method": call.method}, code=-32601)
    if body and not body.startswith((b"{", b"[")):
        raise InvalidParams("Invalid params: must be an object or an array")
    upstream = (
        await client.agent.ensure_started()
        if session is None
        else await ensure_open_at_agent(client, session)
    )
    client.forward(call, upstream, body)
