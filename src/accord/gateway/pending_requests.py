"""Requests of agents that wait for a client: permissions, forms, questions. Each is shown to all clients
that may answer.

A request stays open while no client is attached. It ends with the first valid answer, with its turn or with
its agent. An invalid answer is ignored; if no other client is left to answer, a permission request is
cancelled.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from accord.errors import BadAnswer, InternalError, MethodNotFound, RequestCancelled, RpcError
from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.upstream import CANCEL_REQUEST, Upstream, read_untyped
from accord.schema import (
    CancelledOutcome,
    ElicitationCancelAction,
    ElicitationFormMode,
    ElicitationUrlMode,
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
)
from accord.schema.codec import UNFIT, decoder, encode
from accord.schema.message_reader import MessageReader
from accord.schema.methods import request
from accord.session import PermissionAnswered
from accord.session.protocol_v1 import permission_event
from accord.wire.envelope import RequestId

if TYPE_CHECKING:
    from accord.gateway.gateway_client import GatewayClient
    from accord.gateway.live_sessions import LiveSession

PERMISSION: Final = "session/request_permission"
ELICITATION: Final = "elicitation/create"
AGENTAO_QUESTION: Final = "_agentao.cn/ask_user"
USER_REQUESTS: Final = (PERMISSION, ELICITATION, AGENTAO_QUESTION)
"""Requests that a user answers. They stay open until a client attaches."""


class PendingRequest:
    """One open request of an agent."""

    def __init__(
        self,
        number: int,
        session: "LiveSession | None",
        upstream: Upstream,
        agent_id: RequestId,
        method: str,
        body: bytes,
        value: Any,
    ) -> None:
        self.number: int = number
        self.session: LiveSession | None = session
        self.upstream: Upstream = upstream
        self.agent_id: RequestId = agent_id
        self.method: str = method
        self.body: bytes = body
        self.value: Any = value
        self.since: str = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.shown_to: list[GatewayClient] = []
        self.failure: RpcError | None = None
        self.frame: OutgoingFrame = OutgoingFrame(
            b'{"jsonrpc":"2.0","id":%d,"method":%s%s}'
            % (number, encode(method), b',"params":' + body if body else b"")
        )

    @property
    def stream(self) -> str | None:
        """The session whose event stream carries it."""
        return self.session.id if self.session is not None else None

    @property
    def can_wait(self) -> bool:
        """Whether it can wait for a client that attaches later."""
        return self.method in USER_REQUESTS and self.session is not None

    @property
    def options(self) -> list[PermissionOption]:
        """The options of a permission request."""
        return self.value.options if isinstance(self.value, RequestPermissionRequest) else []

    @property
    def inbox_item(self) -> bytes:
        """The inbox entry as JSON."""
        members: dict[str, str | None] = {"id": str(self.number), "method": self.method, "since": self.since}
        if self.session is not None:
            session = self.session
            members |= {"agent": session.agent.name, "sessionId": session.id, "cwd": session.cwd}
            if session.title:
                members["title"] = session.title
        return b'%s,"params":%s}' % (encode(members)[:-1], self.body or b"{}")

    def is_for(self, client: "GatewayClient") -> bool:
        """Whether this client can show it and may answer it."""
        if client.rights.read_only:
            return False
        if isinstance(self.value, ElicitationFormMode):
            return client.shows_forms
        if isinstance(self.value, ElicitationUrlMode):
            return client.opens_urls
        return True


class PendingRequests:
    """All open requests of all agents."""

    def __init__(self, on_change: "Callable[[PendingRequest, bool, str], None]") -> None:
        """`on_change` is called with a user request, whether it is pending, and the reason when it ended."""
        self._numbers = count(1)
        self._open: dict[int, PendingRequest] = {}
        self._on_change = on_change

    def __iter__(self) -> Iterator[PendingRequest]:
        return iter(tuple(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def find(self, number: int) -> PendingRequest | None:
        return self._open.get(number)

    def add(
        self,
        session: "LiveSession | None",
        upstream: Upstream,
        agent_id: RequestId,
        method: str,
        body: bytes,
        value: Any,
        clients: "list[GatewayClient]",
    ) -> None:
        """Add a request and show it to these clients."""
        pending = PendingRequest(next(self._numbers), session, upstream, agent_id, method, body, value)
        if not pending.can_wait and not any(map(pending.is_for, clients)):
            if method == ELICITATION:
                upstream.answer(agent_id, encode(ElicitationCancelAction()))
            else:
                upstream.refuse(agent_id, MethodNotFound(data={"method": method}))
            return
        self._open[pending.number] = pending
        if session is not None:
            session.pending_requests[pending.number] = pending
            if isinstance(value, RequestPermissionRequest):
                session.log.append(permission_event(str(pending.number), value))
        for client in clients:
            self.show(pending, client)
        if method in USER_REQUESTS:
            self._on_change(pending, True, "")

    def show(self, pending: PendingRequest, client: "GatewayClient") -> None:
        """Show it to one more client that can answer it."""
        if client not in pending.shown_to and pending.is_for(client):
            pending.shown_to.append(client)
            client.post(pending.frame, pending.stream)

    def handle_response(
        self, client: "GatewayClient", number: int, result: Raw | None, error: RpcError | None
    ) -> None:
        """Handle the response of a client. Ignores late responses and responses to requests it was not
        shown.
        """
        pending = self._open.get(number)
        if pending is None or client not in pending.shown_to:
            return
        if error is None and result is not None:
            try:
                body, option = _read_answer(pending, client.message_reader, result)
            except (BadAnswer, RpcError) as unreadable:
                error = InternalError(str(unreadable))
            else:
                pending.shown_to.remove(client)
                self.settle(pending, body, option, by=client)
                return
        pending.shown_to.remove(client)
        pending.failure = error or InternalError("the client's response has neither a result nor an error")
        if not pending.shown_to:
            self._close(pending, "no client could answer")
            if pending.method == PERMISSION:
                pending.upstream.answer(pending.agent_id, CANCELLED)
                self._log_permission(pending, None)
            else:
                pending.upstream.refuse(pending.agent_id, pending.failure)

    def settle(
        self, pending: PendingRequest, body: bytes, option: PermissionOption | None, *, by: "GatewayClient"
    ) -> None:
        """Answer the agent and withdraw the request from the other clients."""
        self._close(pending, f"answered by {by.rights.name or by.rights.token}")
        session = pending.session
        by.gateway.audit.record(
            by.rights,
            "answer",
            method=pending.method,
            agent=None if session is None else session.agent.name,
            session=None if session is None else session.id,
            decision=_decision(pending, body, option),
        )
        pending.upstream.answer(pending.agent_id, body)
        self._log_permission(pending, option)

    def read_answer(
        self, pending: PendingRequest, reader: MessageReader, result: Raw
    ) -> tuple[bytes, PermissionOption | None]:
        """Decode an answer that was given through the inbox. Raises BadAnswer, RpcError."""
        return _read_answer(pending, reader, result)

    def cancel(self, agent_id: RequestId, upstream: Upstream) -> None:
        """Close a request that the agent cancelled."""
        for pending in self:
            if pending.agent_id == agent_id and pending.upstream is upstream:
                self._close(pending, "the agent cancelled the request")
                upstream.refuse(agent_id, RequestCancelled())
                self._log_permission(pending, None)

    def dismiss(self, session: "LiveSession", reason: str) -> None:
        """Answer everything open in the session as cancelled."""
        for pending in tuple(session.pending_requests.values()):
            if pending.method == PERMISSION:
                self._close(pending, reason)
                pending.upstream.answer(pending.agent_id, CANCELLED)
                self._log_permission(pending, None)
            elif pending.method == ELICITATION:
                self._close(pending, reason)
                pending.upstream.answer(pending.agent_id, encode(ElicitationCancelAction()))
            else:
                self._close(pending, reason)
                pending.upstream.refuse(pending.agent_id, RequestCancelled())

    def drop_agent(self, upstream: Upstream, reason: str) -> None:
        """Close the requests of an agent that ended."""
        for pending in self:
            if pending.upstream is upstream:
                self._close(pending, reason)
                self._log_permission(pending, None)

    def remove_client(self, client: "GatewayClient", session: "LiveSession | None" = None) -> None:
        """Withdraw requests from a client that disconnected or detached from this session."""
        for pending in self:
            if client in pending.shown_to and (session is None or pending.session is session):
                pending.shown_to.remove(client)
                if not pending.shown_to and not pending.can_wait:
                    self._close(pending, "the client disconnected")
                    pending.upstream.refuse(pending.agent_id, InternalError("the client disconnected"))

    def _close(self, pending: PendingRequest, reason: str) -> None:
        del self._open[pending.number]
        if pending.session is not None:
            pending.session.pending_requests.pop(pending.number, None)
        if pending.shown_to:
            cancellation = OutgoingFrame(
                b'{"jsonrpc":"2.0","method":"%s","params":{"requestId":%d}}'
                % (CANCEL_REQUEST.encode(), pending.number)
            )
            for client in pending.shown_to:
                client.post(cancellation, None)
            pending.shown_to.clear()
        if pending.method in USER_REQUESTS:
            self._on_change(pending, False, reason)

    def _log_permission(self, pending: PendingRequest, option: PermissionOption | None) -> None:
        if pending.session is not None and pending.method == PERMISSION:
            pending.session.log.append(PermissionAnswered(str(pending.number), option))


class _Action(Struct):
    """The action of an elicitation answer."""

    action: Any = None


def _decision(pending: PendingRequest, body: bytes, option: PermissionOption | None) -> str:
    """Return the decision in one word, for the audit log."""
    if pending.method == PERMISSION:
        return "cancelled" if option is None else option.kind
    try:
        action = msgspec.json.decode(body, type=_Action).action
    except msgspec.MsgspecError:
        action = None
    return action if isinstance(action, str) else "answered"


CANCELLED: Final = encode(RequestPermissionResponse(CancelledOutcome()))


def _read_answer(
    pending: PendingRequest, reader: MessageReader, result: Raw
) -> tuple[bytes, PermissionOption | None]:
    """Return the answer for the agent and, for a permission, the chosen option."""
    if pending.method == PERMISSION:
        return _read_permission(pending, reader, result)
    entry = request("client", pending.method)
    if entry is None:
        return read_untyped(result).body, None
    return encode(reader.result_reader(entry)(result)), None


def _read_permission(
    pending: PendingRequest, reader: MessageReader, result: Raw
) -> tuple[bytes, PermissionOption | None]:
    outcome = reader.outcome_reader(pending.options)(result)
    chosen = next((option for option in pending.options if option.option_id == outcome.option_id), None)
    try:
        sent = decoder(RequestPermissionResponse).decode(result)
    except UNFIT:
        sent = None
    outcome_sent = sent.outcome if sent is not None else None
    if chosen is None:
        if isinstance(outcome_sent, CancelledOutcome) or outcome.rows or outcome.word:
            return CANCELLED, None
        raise BadAnswer(f"{PERMISSION}: the answer is none of the options that were offered")
    if isinstance(outcome_sent, SelectedPermissionOutcome) and outcome_sent.option_id == chosen.option_id:
        return encode(sent), chosen
    return encode(RequestPermissionResponse(SelectedPermissionOutcome(chosen.option_id))), chosen
