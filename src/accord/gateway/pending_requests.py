"""What agents wait for: permissions, forms, questions. Each is shown to everybody who may answer, and answered once.

A question stays open while nobody is attached; it ends with the first good answer, with its turn, or with its agent. An
answer that cannot be read decides nothing; if nobody else is left to answer, it is a no.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from accord.errors import BadAnswer, InternalError, MethodNotFound, RequestCancelled, RpcError
from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.upstream import CANCEL_REQUEST, Upstream, plain
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
from accord.session.protocol_v1 import permission_asked
from accord.wire.envelope import RequestId

if TYPE_CHECKING:
    from accord.gateway.gateway_client import GatewayClient
    from accord.gateway.live_sessions import LiveSession

PERMISSION: Final = "session/request_permission"
ELICITATION: Final = "elicitation/create"
QUESTION: Final = "_agentao.cn/ask_user"
WAITING: Final = (PERMISSION, ELICITATION, QUESTION)
"""Those that a person answers, so that they wait for one."""


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
        self.number = number
        self.session = session
        self.upstream = upstream
        self.agent_id = agent_id
        self.method = method
        self.body = body
        self.value = value
        self.since = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.shown: list[GatewayClient] = []
        self.failure: RpcError | None = None
        self.out = OutgoingFrame(
            b'{"jsonrpc":"2.0","id":%d,"method":%s%s}'
            % (number, encode(method), b',"params":' + body if body else b"")
        )

    @property
    def stream(self) -> str | None:
        """Which event stream carries it."""
        return self.session.id if self.session is not None else None

    @property
    def waits(self) -> bool:
        """Whether somebody may come later who answers it: a person, by the session it is of."""
        return self.method in WAITING and self.session is not None

    @property
    def options(self) -> list[PermissionOption]:
        """What a permission request offers."""
        return self.value.options if isinstance(self.value, RequestPermissionRequest) else []

    @property
    def item(self) -> bytes:
        """As the inbox shows it, in JSON."""
        facts: dict[str, str | None] = {"id": str(self.number), "method": self.method, "since": self.since}
        if self.session is not None:
            session = self.session
            facts |= {"agent": session.agent.name, "sessionId": session.id, "cwd": session.cwd}
            if session.title:
                facts["title"] = session.title
        return b'%s,"params":%s}' % (encode(facts)[:-1], self.body or b"{}")

    def suits(self, visitor: "GatewayClient") -> bool:
        """Whether this client can show it and may answer it."""
        if visitor.visa.read_only:
            return False
        if isinstance(self.value, ElicitationFormMode):
            return visitor.shows_forms
        if isinstance(self.value, ElicitationUrlMode):
            return visitor.opens_urls
        return True


class PendingRequests:
    """All open requests of all agents."""

    def __init__(self, told: "Callable[[PendingRequest, bool, str], None]") -> None:
        """`told` hears of a question that a person should answer, when it comes and when it goes, and why."""
        self._numbers = count(1)
        self._open: dict[int, PendingRequest] = {}
        self._told = told

    def __iter__(self) -> Iterator[PendingRequest]:
        return iter(tuple(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def find(self, number: int) -> PendingRequest | None:
        """An open one."""
        return self._open.get(number)

    def put(
        self,
        session: "LiveSession | None",
        upstream: Upstream,
        agent_id: RequestId,
        method: str,
        body: bytes,
        value: Any,
        visitors: "list[GatewayClient]",
    ) -> None:
        """A request came: show it to these clients."""
        ask = PendingRequest(next(self._numbers), session, upstream, agent_id, method, body, value)
        if not ask.waits and not any(map(ask.suits, visitors)):
            if method == ELICITATION:
                upstream.answer(agent_id, encode(ElicitationCancelAction()))
            else:
                upstream.refuse(agent_id, MethodNotFound(data={"method": method}))
            return
        self._open[ask.number] = ask
        if session is not None:
            session.asks[ask.number] = ask
            if isinstance(value, RequestPermissionRequest):
                session.log.append(permission_asked(str(ask.number), value))
        for visitor in visitors:
            self.show(ask, visitor)
        if method in WAITING:
            self._told(ask, True, "")

    def show(self, ask: PendingRequest, visitor: "GatewayClient") -> None:
        """Show it to one more client, if that one can answer."""
        if visitor not in ask.shown and ask.suits(visitor):
            ask.shown.append(visitor)
            visitor.post(ask.out, ask.stream)

    def answered(
        self, visitor: "GatewayClient", number: int, result: Raw | None, error: RpcError | None
    ) -> None:
        """A client answered. Late answers, and answers to what it was never shown, are dropped."""
        ask = self._open.get(number)
        if ask is None or visitor not in ask.shown:
            return
        if error is None and result is not None:
            try:
                body, option = _judged(ask, visitor.reader, result)
            except (BadAnswer, RpcError) as unread:
                error = InternalError(str(unread))
            else:
                ask.shown.remove(visitor)
                self.settle(ask, body, option, by=visitor)
                return
        ask.shown.remove(visitor)
        ask.failure = error or InternalError("The client gave neither a result nor an error")
        if not ask.shown:
            self._close(ask, "nobody could answer")
            if ask.method == PERMISSION:
                ask.upstream.answer(ask.agent_id, CANCELLED)
                self._log_answer(ask, None)
            else:
                ask.upstream.refuse(ask.agent_id, ask.failure)

    def settle(
        self, ask: PendingRequest, body: bytes, option: PermissionOption | None, *, by: "GatewayClient"
    ) -> None:
        """It is decided: tell the agent, and everybody else who was asked."""
        self._close(ask, f"answered by {by.visa.name or by.visa.token}")
        session = ask.session
        by.gateway.audit.record(
            by.visa,
            "answer",
            method=ask.method,
            agent=None if session is None else session.agent.name,
            session=None if session is None else session.id,
            decision=_decision(ask, body, option),
        )
        ask.upstream.answer(ask.agent_id, body)
        self._log_answer(ask, option)

    def judge(
        self, ask: PendingRequest, reader: MessageReader, result: Raw
    ) -> tuple[bytes, PermissionOption | None]:
        """An answer given elsewhere, in official shape. Raises BadAnswer, RpcError."""
        return _judged(ask, reader, result)

    def withdraw(self, agent_id: RequestId, upstream: Upstream) -> None:
        """The agent took a request back."""
        for ask in self:
            if ask.agent_id == agent_id and ask.upstream is upstream:
                self._close(ask, "the agent took it back")
                upstream.refuse(agent_id, RequestCancelled())
                self._log_answer(ask, None)

    def dismiss(self, session: "LiveSession", reason: str) -> None:
        """The turn is being cancelled: everything open in it is answered so."""
        for ask in tuple(session.asks.values()):
            if ask.method == PERMISSION:
                self._close(ask, reason)
                ask.upstream.answer(ask.agent_id, CANCELLED)
                self._log_answer(ask, None)
            elif ask.method == ELICITATION:
                self._close(ask, reason)
                ask.upstream.answer(ask.agent_id, encode(ElicitationCancelAction()))
            else:
                self._close(ask, reason)
                ask.upstream.refuse(ask.agent_id, RequestCancelled())

    def lost(self, upstream: Upstream, reason: str) -> None:
        """The agent is gone: nobody waits for these any more."""
        for ask in self:
            if ask.upstream is upstream:
                self._close(ask, reason)
                self._log_answer(ask, None)

    def leave(self, visitor: "GatewayClient", session: "LiveSession | None" = None) -> None:
        """A client is gone, or no longer attached to this session: what it was shown waits for others."""
        for ask in self:
            if visitor in ask.shown and (session is None or ask.session is session):
                ask.shown.remove(visitor)
                if not ask.shown and not ask.waits:
                    self._close(ask, "the client is gone")
                    ask.upstream.refuse(ask.agent_id, InternalError("The client is gone"))

    def _close(self, ask: PendingRequest, reason: str) -> None:
        del self._open[ask.number]
        if ask.session is not None:
            ask.session.asks.pop(ask.number, None)
        if ask.shown:
            over = OutgoingFrame(
                b'{"jsonrpc":"2.0","method":"%s","params":{"requestId":%d}}'
                % (CANCEL_REQUEST.encode(), ask.number)
            )
            for visitor in ask.shown:
                visitor.post(over, None)
            ask.shown.clear()
        if ask.method in WAITING:
            self._told(ask, False, reason)

    def _log_answer(self, ask: PendingRequest, option: PermissionOption | None) -> None:
        if ask.session is not None and ask.method == PERMISSION:
            ask.session.log.append(PermissionAnswered(str(ask.number), option))


class _Action(Struct):
    """What was done with a form or an address."""

    action: Any = None


def _decision(ask: PendingRequest, body: bytes, option: PermissionOption | None) -> str:
    """In one word, for the audit log."""
    if ask.method == PERMISSION:
        return "cancelled" if option is None else option.kind
    try:
        action = msgspec.json.decode(body, type=_Action).action
    except msgspec.MsgspecError:
        action = None
    return action if isinstance(action, str) else "answered"


CANCELLED: Final = encode(RequestPermissionResponse(CancelledOutcome()))


def _judged(ask: PendingRequest, reader: MessageReader, result: Raw) -> tuple[bytes, PermissionOption | None]:
    """The answer as it goes to the agent; for a permission the chosen option, which is one of those offered."""
    if ask.method == PERMISSION:
        return _permission(ask, reader, result)
    entry = request("client", ask.method)
    if entry is None:
        return plain(result).body, None
    return encode(reader.result_reader(entry)(result)), None


def _permission(
    ask: PendingRequest, reader: MessageReader, result: Raw
) -> tuple[bytes, PermissionOption | None]:
    outcome = reader.outcome_reader(ask.options)(result)
    chosen = next((option for option in ask.options if option.option_id == outcome.option_id), None)
    try:
        sent = decoder(RequestPermissionResponse).decode(result)
    except UNFIT:
        sent = None
    said = sent.outcome if sent is not None else None
    if chosen is None:
        if isinstance(said, CancelledOutcome) or outcome.rows or outcome.word:
            return CANCELLED, None
        raise BadAnswer(f"{PERMISSION}: the answer is none of the options that were offered")
    if isinstance(said, SelectedPermissionOutcome) and said.option_id == chosen.option_id:
        return encode(sent), chosen
    return encode(RequestPermissionResponse(SelectedPermissionOutcome(chosen.option_id))), chosen
