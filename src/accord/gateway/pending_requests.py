"""Requests of agents that wait for a client: permissions, forms, questions. Each is shown to all clients
that may answer.

A request ends with the first valid answer, with its turn or with its agent. A user request stays open while
no client is attached. A client whose answer is invalid is not asked again. After the last one, a permission
request is canceled and any other request fails.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from accord.errors import BadAnswer, InternalError, MethodNotFound, RequestCancelled, RpcError, StoreError
from accord.frontend.policy_handler import tool_call_targets
from accord.gateway.access.audit_log import AuditValue
from accord.gateway.client_connection import CallFrame, OutgoingFrame
from accord.gateway.upstream import Upstream, read_untyped
from accord.policy.audit_log import redacted
from accord.schema import (
    CancelledOutcome,
    ElicitationCancelAction,
    ElicitationFormMode,
    ElicitationUrlMode,
    Notice,
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
    ToolCallUpdate,
)
from accord.schema.codec import DECODE_ERRORS, decoder, encode
from accord.schema.dialects import must_cancel
from accord.schema.message_reader import MessageReader
from accord.schema.methods import AGENTAO_ASK_USER, request
from accord.session import PermissionAnswered
from accord.session.protocol_v1 import permission_event
from accord.wire.connection import CANCEL_REQUEST
from accord.wire.envelope import ABSENT, Notification, Request, RequestId, Response

if TYPE_CHECKING:
    from accord.gateway.contracts import OnCommit, SessionLog
    from accord.gateway.gateway_client import GatewayClient
    from accord.gateway.live_sessions import LiveSession


PERMISSION_METHOD: Final = "session/request_permission"
ELICITATION_METHOD: Final = "elicitation/create"

USER_REQUEST_METHODS: Final = (PERMISSION_METHOD, ELICITATION_METHOD, AGENTAO_ASK_USER)
"""Requests that a user answers. They stay open until a client attaches."""
_CALL_MEMBERS: Final = ("title", "kind", "content", "locations", "raw_input")
"""What a user needs to know of a tool call."""
ASKED: Final = "gateway.asked"
"""The kind of a record for a form or a question: its id and its method."""
ANSWERED: Final = "gateway.answered"
"""The kind of a record for the answer to it: its id."""
CANCELLED_PERMISSION: Final = encode(RequestPermissionResponse(CancelledOutcome()))


class PendingRequest:
    """One open request of an agent."""

    def __init__(
        self,
        number: int,
        session: "LiveSession | None",
        upstream: Upstream,
        agent_request_id: RequestId,
        method: str,
        raw_params: bytes,
        params: Any,
    ) -> None:
        self.number: int = number
        """The id of the request to the clients."""
        self.session: LiveSession | None = session
        self.upstream: Upstream = upstream
        self.agent_request_id: RequestId = agent_request_id
        """The id of the agent's request."""
        self.method: str = method
        self.raw_params: bytes = raw_params
        self.params: Any = params
        self.since: str = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.shown_to: list[GatewayClient] = []
        body = encode(Request(number, method, Raw(raw_params) if raw_params else UNSET))
        self.frame: CallFrame = CallFrame(body, id=number, is_request=True)

    @property
    def inbox_id(self) -> str:
        """The id of the inbox entry: unique over all gateways that share the log, and over restarts."""
        if self.session is None:
            return str(self.number)
        return f"{self.session.log.id}.{self.session.log.epoch}.{self.number}"

    @property
    def log(self) -> "SessionLog | None":
        """The log of its session."""
        return None if self.session is None else self.session.log

    @property
    def stream_session_id(self) -> str | None:
        """The id of the session whose event stream carries it."""
        return self.session.id if self.session is not None else None

    @property
    def can_wait(self) -> bool:
        """Whether it can wait for a client that attaches later."""
        return self.method in USER_REQUEST_METHODS and self.session is not None

    @property
    def options(self) -> list[PermissionOption]:
        """The options of a permission request."""
        return self.params.options if isinstance(self.params, RequestPermissionRequest) else []

    @property
    def inbox_item(self) -> bytes:
        """The inbox entry as JSON."""
        members: dict[str, str | None] = {"id": self.inbox_id, "method": self.method, "since": self.since}
        if self.session is not None:
            session = self.session
            members |= {"agent": session.agent.name, "sessionId": session.id, "cwd": session.cwd}
            if session.title:
                members["title"] = session.title
        return b'%s,"params":%s}' % (encode(members)[:-1], self._complete_params or b"{}")

    @property
    def _complete_params(self) -> bytes:
        """The params for a client that does not know the earlier updates of the tool call."""
        call = self.call
        if call is None or call is self.params.tool_call:
            return self.raw_params
        return encode(structs.replace(self.params, tool_call=call))

    @cached_property
    def call(self) -> ToolCallUpdate | None:
        """The tool call of a permission request.

        Many agents describe it in an earlier update and repeat only its id.
        """
        if not isinstance(self.params, RequestPermissionRequest):
            return None
        call = self.params.tool_call
        if self.session is None or (call.raw_input and any(tool_call_targets(call))):
            return call
        known = self.session.latest.tool_calls.get(call.tool_call_id)
        if known is None:
            return call
        earlier = known.to_update()
        missing = {name: getattr(earlier, name) for name in _CALL_MEMBERS if not getattr(call, name)}
        return structs.replace(call, **missing)

    def is_for(self, client: "GatewayClient") -> bool:
        """Whether this client can show it and may answer it."""
        if client.rights.read_only:
            return False
        if isinstance(self.params, ElicitationFormMode):
            return client.shows_forms
        if isinstance(self.params, ElicitationUrlMode):
            return client.opens_urls
        return True


class PendingRequests:
    """All open requests of all agents."""

    def __init__(self, on_change: "Callable[[PendingRequest, bool, str], None]") -> None:
        """`on_change` is called with a user request, whether it is pending, and the reason when it ended."""
        self._numbers = count(1)
        self._open: dict[int, PendingRequest] = {}
        self._answered: dict[int, PendingRequest] = {}
        """Answered by a client; the agent gets the answer when its record is committed."""
        self._on_change = on_change

    def __iter__(self) -> Iterator[PendingRequest]:
        return iter(tuple(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def find(self, inbox_id: str) -> PendingRequest | None:
        """Return the open request with this id in the inbox; None if there is none."""
        number = inbox_id.rpartition(".")[2]
        pending = self._open.get(int(number)) if number.isdecimal() and number.isascii() else None
        return pending if pending is not None and pending.inbox_id == inbox_id else None

    def add(
        self,
        session: "LiveSession | None",
        upstream: Upstream,
        agent_request_id: RequestId,
        method: str,
        raw_params: bytes,
        params: Any,
        clients: "list[GatewayClient]",
    ) -> None:
        """Add a request and show it to these clients."""
        pending = PendingRequest(
            next(self._numbers), session, upstream, agent_request_id, method, raw_params, params
        )
        is_permission = isinstance(params, RequestPermissionRequest)
        if session is not None and session.turn_requests.refuses(acts=is_permission):
            self._log_request(pending)
            self._answer_cancelled(pending, RequestCancelled())
            return
        if not pending.can_wait and not any(map(pending.is_for, clients)):
            self._answer_cancelled(pending, MethodNotFound(data={"method": method}))
            return
        self._open[pending.number] = pending
        if session is not None:
            session.pending_requests[pending.number] = pending
            self._log_request(pending)
        for client in clients:
            self.show(pending, client)
        if method in USER_REQUEST_METHODS:
            self._on_change(pending, True, "")

    def show(self, pending: PendingRequest, client: "GatewayClient") -> None:
        """Show it to one more client that can answer it."""
        if client not in pending.shown_to and pending.is_for(client):
            pending.shown_to.append(client)
            client.core.expect_response(pending.number, pending)
            client.post(pending.frame, pending.stream_session_id, pending.log)

    def handle_response(self, client: "GatewayClient", response: "Response[PendingRequest]") -> None:
        """Handle the response of a client to a request that it was shown."""
        pending = response.call
        pending.shown_to.remove(client)
        if response.error is None and response.result is not ABSENT:
            try:
                raw_result, option = read_answer(pending, client.message_reader, response.result)
            except (BadAnswer, RpcError) as invalid:
                error = InternalError(str(invalid))
            else:
                self.answer(pending, raw_result, option, by=client)
                return
        elif isinstance(response.error, RpcError):
            error = response.error
        else:
            error = InternalError("the client's response has neither a result nor an error")
        if not pending.shown_to:
            self._close(pending, "no client could answer")
            if pending.method == ELICITATION_METHOD:
                pending.upstream.refuse(pending.agent_request_id, error)
            else:
                self._answer_cancelled(pending, error)

    def answer(
        self,
        pending: PendingRequest,
        raw_result: bytes,
        option: PermissionOption | None,
        *,
        by: "GatewayClient",
        then: "OnCommit | None" = None,
    ) -> None:
        """Withdraw the request from the other clients, log the answer, and give it to the agent once its
        record is committed.

        If it cannot be logged, the agent gets a cancellation instead. `then` is called with the outcome.
        """
        self._close(pending, f"answered by {by.rights.name or by.rights.token}")
        session = pending.session
        if session is not None:
            session.add_user(by.rights)
        self._log_answer(pending, option)
        self._answered[pending.number] = pending

        def on_commit(error: StoreError | None) -> None:
            if self._answered.pop(pending.number, None) is not None:
                self._deliver(pending, raw_result, option, by, error)
            else:
                error = error or StoreError("the request was canceled meanwhile")
            if then is not None:
                then(error)

        if session is None:
            on_commit(None)
        else:
            session.log.when(session.log.noted, on_commit)

    def _deliver(
        self,
        pending: PendingRequest,
        raw_result: bytes,
        option: PermissionOption | None,
        by: "GatewayClient",
        error: StoreError | None,
    ) -> None:
        """Give an answer to the agent, or a cancellation if its record is not committed."""
        session = pending.session
        by.gateway.audit.record(
            by.rights,
            "answer" if error is None else "answer not given",
            method=pending.method,
            agent=None if session is None else session.agent.name,
            session=None if session is None else session.id,
            decision=_decision(pending, raw_result, option),
            reason=None if error is None else str(error),
            **_subject(pending),
        )
        if error is None:
            info = (by.agent if session is None else session.agent).initialize_response.agent_info
            if option is not None and info and must_cancel(info.name, option.kind):
                raw_result = CANCELLED_PERMISSION
            pending.upstream.answer(pending.agent_request_id, raw_result)
            return
        text = f"It cannot be logged: {error}"
        by.gateway.log_warning("an answer was not given to the agent: %s", error)
        self._answer_cancelled(pending, InternalError(text))
        if session is not None:
            title = "The answer was not given to the agent."
            notice = Notice(severity="error", title=title, description=text)
            clients = [client for client in session.clients if client.wants_update(notice)]
            by.gateway.send_update(session, notice, clients, is_logged=False)

    def cancel_by_agent(self, agent_request_id: RequestId, upstream: Upstream) -> None:
        """Close a request that the agent canceled."""
        for pending in self._unsettled():
            if pending.agent_request_id == agent_request_id and pending.upstream is upstream:
                self._close(pending, "the agent cancelled the request")
                upstream.refuse(agent_request_id, RequestCancelled())
                self._log_answer(pending, None)

    def cancel_session_requests(self, session: "LiveSession", reason: str) -> None:
        """Answer everything open in the session as canceled, also what waits for its record."""
        for pending in self._unsettled():
            if pending.session is session:
                self._close(pending, reason)
                self._answer_cancelled(pending, RequestCancelled())

    def close_agent_requests(self, upstream: Upstream, reason: str) -> None:
        """Close the requests of an agent that ended."""
        for pending in self._unsettled():
            if pending.upstream is upstream:
                self._close(pending, reason)
                self._log_answer(pending, None)

    def _unsettled(self) -> list[PendingRequest]:
        """The requests that the agent has no response to."""
        return [*self._answered.values(), *self._open.values()]

    def remove_client(self, client: "GatewayClient", session: "LiveSession | None" = None) -> None:
        """Withdraw requests from a client that disconnected or detached from this session."""
        for pending in tuple(client.core.calls.values()):
            if session is None or pending.session is session:
                client.core.close_call(pending.number)
                pending.shown_to.remove(client)
                if not pending.shown_to and not pending.can_wait:
                    self._close(pending, "the client disconnected")
                    pending.upstream.refuse(
                        pending.agent_request_id, InternalError("the client disconnected")
                    )

    def _answer_cancelled(self, pending: PendingRequest, error: RpcError) -> None:
        """Answer a permission request or an elicitation as canceled; refuse any other request."""
        self._log_answer(pending, None)
        if pending.method == PERMISSION_METHOD:
            pending.upstream.answer(pending.agent_request_id, CANCELLED_PERMISSION)
        elif pending.method == ELICITATION_METHOD:
            pending.upstream.answer(pending.agent_request_id, encode(ElicitationCancelAction()))
        else:
            pending.upstream.refuse(pending.agent_request_id, error)

    def _close(self, pending: PendingRequest, reason: str) -> None:
        """Withdraw a request from its clients and from the inbox."""
        if self._answered.pop(pending.number, None) is not None:
            return  # it is withdrawn already, and its answer is no longer delivered
        del self._open[pending.number]
        if pending.session is not None:
            pending.session.pending_requests.pop(pending.number, None)
        if pending.shown_to:
            cancellation = OutgoingFrame(encode(Notification(CANCEL_REQUEST, {"requestId": pending.number})))
            for client in pending.shown_to:
                client.core.close_call(pending.number)
                client.post(cancellation, None, pending.log)
            pending.shown_to.clear()
        if pending.method in USER_REQUEST_METHODS:
            self._on_change(pending, False, reason)

    def _log_request(self, pending: PendingRequest) -> None:
        if pending.session is None:
            return
        if isinstance(pending.params, RequestPermissionRequest):
            pending.session.log.append(permission_event(str(pending.number), pending.params))
        elif pending.can_wait:
            pending.session.log.note(ASKED, {"id": str(pending.number), "method": pending.method})

    def _log_answer(self, pending: PendingRequest, option: PermissionOption | None) -> None:
        """Log that a request is answered, without the content of forms and questions."""
        if pending.session is None:
            return
        if pending.method == PERMISSION_METHOD:
            pending.session.log.append(PermissionAnswered(str(pending.number), option))
        elif pending.can_wait:
            pending.session.log.note(ANSWERED, {"id": str(pending.number)})


def read_answer(
    pending: PendingRequest, reader: MessageReader, result: Raw
) -> tuple[bytes, PermissionOption | None]:
    """Decode a client's answer: the result for the agent and, for a permission, the chosen option.

    Raises BadAnswer, RpcError.
    """
    if pending.method == PERMISSION_METHOD:
        return _read_permission(pending, reader, result)
    method = request("client", pending.method)
    if method is None:
        return read_untyped(result).body, None
    return encode(reader.result_reader(method)(result)), None


def _read_permission(
    pending: PendingRequest, reader: MessageReader, result: Raw
) -> tuple[bytes, PermissionOption | None]:
    decision = reader.outcome_reader(pending.options)(result)
    chosen_option = next(
        (option for option in pending.options if option.option_id == decision.option_id), None
    )
    try:
        response = decoder(RequestPermissionResponse).decode(result)
    except DECODE_ERRORS:
        response = None
    response_outcome = response.outcome if response is not None else None
    if chosen_option is None:
        if isinstance(response_outcome, CancelledOutcome) or decision.rows or decision.message:
            return CANCELLED_PERMISSION, None
        raise BadAnswer(f"{PERMISSION_METHOD}: the answer is none of the options that were offered")
    if (
        isinstance(response_outcome, SelectedPermissionOutcome)
        and response_outcome.option_id == chosen_option.option_id
    ):
        return encode(response), chosen_option
    return encode(
        RequestPermissionResponse(SelectedPermissionOutcome(chosen_option.option_id))
    ), chosen_option


def _subject(pending: PendingRequest) -> dict[str, AuditValue]:
    """Return what a permission request is about: the tool call with its command, path or title."""
    call = pending.call
    if call is None:
        return {}
    command, paths = tool_call_targets(call)
    subject: dict[str, AuditValue] = {"toolCall": call.tool_call_id, "kind": call.kind or None}
    if command is not None:
        subject["command"] = redacted(command)
    if paths:
        subject["path"] = ", ".join(paths)
    if command is None and not paths and call.title:
        subject["title"] = redacted(call.title)
    return subject


class _ElicitationAction(Struct):
    """The action of an elicitation answer."""

    action: Any = None


def _decision(pending: PendingRequest, raw_result: bytes, option: PermissionOption | None) -> str:
    """Return the decision in one word, for the audit log."""
    if pending.method == PERMISSION_METHOD:
        return "cancelled" if option is None else option.kind
    try:
        action = msgspec.json.decode(raw_result, type=_ElicitationAction).action
    except msgspec.MsgspecError:
        action = None
    return action if isinstance(action, str) else "answered"
