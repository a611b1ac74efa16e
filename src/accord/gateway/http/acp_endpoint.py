"""`/acp`: verbs, headers, and the event streams of streamable HTTP."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct
from websockets.datastructures import Headers as HandshakeHeaders
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol

from accord.errors import PARSE_ERROR, NotFound
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.access.resource_limits import GatewayLimitReached
from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.http.frame_stream import FrameStream
from accord.gateway.http.http_exchange import Headers, HttpExchange, answer, common_headers, limited, refuse
from accord.gateway.http.resumable_connection import (
    NORMAL,
    POLICY,
    HttpStreamConnection,
    WebSocketClientConnection,
)
from accord.gateway.http.server_state import HttpServerState, L
from accord.gateway.http.websocket_server import WebSocket, read_envelope
from accord.schema.methods import notification, request
from accord.wire.envelope import ABSENT, Envelope, InvalidMessage

# MERGED gateway.front.events: An event stream: the response that carries one stream of an HTTP line, with event ids, and comments while it is quiet.


class EventStreamResponse:
    """The open GET of one stream. The id of an event is its number in the stream."""

    def __init__(
        self,
        premises: HttpServerState,
        exchange: HttpExchange,
        line: HttpStreamConnection,
        stream: FrameStream,
    ) -> None:
        self._premises = premises
        self._exchange = exchange
        self._line = line
        self._stream = stream
        self._written = premises.clock.now()
        self._open = True

    def begin(self, headers: Headers) -> None:
        """Send the head, so that the client knows its stream is open."""
        premises, exchange = self._premises, self._exchange
        exchange.on_gone = self._gone
        exchange.on_ready = self._line.flush
        own = [("Cache-Control", "no-cache, no-transform"), ("X-Accel-Buffering", "no"), *headers]
        exchange.begin(200, common_headers(premises, exchange, "text/event-stream", own))
        premises.metrics.requests["200"] += 1
        premises.metrics.streams += 1
        premises.watched.add(self)

    @property
    def ready(self) -> bool:
        return self._open and self._exchange.ready

    @property
    def buffered(self) -> int:
        return self._exchange.buffered if self._open else 0

    def write(self, frames: list[OutgoingFrame], first: int) -> None:
        self._written = self._premises.clock.now()
        self._exchange.write(
            b"".join([b"id: %d\n%b" % (number, frame.event) for number, frame in enumerate(frames, first)])
        )

    def comment(self, text: str) -> None:
        """Something that is no event; clients skip it."""
        self._exchange.write(b": " + text.encode() + b"\n\n" if text else b":\n\n")

    def close(self, code: int, reason: str) -> None:
        if self._open:
            self._shut()
            if code == POLICY:
                self._exchange.abort()
            else:
                self._exchange.finish()

    def _shut(self) -> None:
        self._open = False
        self._premises.metrics.streams -= 1
        self._premises.watched.discard(self)
        self._exchange.on_gone = self._exchange.on_ready = None

    def _gone(self) -> None:
        self._shut()
        self._line.detach(self._stream, self)

    def tick(self, now: float) -> None:
        """See `Watched`."""
        if now - self._written >= self._premises.config.keep_alive and self.ready:
            self._written = now
            self.comment("")


# MERGED gateway.front.acp: `/acp` and `/acp/NAME`: which answer each verb gets, and what of a message has to agree with its headers.

CONNECTION: Final = "Acp-Connection-Id"
SESSION: Final = "acp-session-id"
COOKIE: Final = "accord-line"
_VERBS: Final = "GET, POST, DELETE, OPTIONS"
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_ENTERING: Final = frozenset({"session/load", "session/resume", "session/fork", "session/delete"})
"""They name a session that the client may not have a stream for: the official Python client sends no header with them."""


class SessionParams(Struct):
    """The session that parameters name."""

    session_id: str | msgspec.UnsetType = msgspec.field(name="sessionId", default=UNSET)


_read_scope = msgspec.json.Decoder(SessionParams).decode


class AcpEndpoint:
    """The transport of ACP over HTTP."""

    def __init__(self, premises: HttpServerState) -> None:
        self._premises = premises
        self._lines = premises.lines
        self._config = premises.config

    def handle(self, exchange: HttpExchange, agent: str | None) -> None:
        """One request. Raises Refused and LimitReached."""
        verbs: dict[str, Callable[[HttpExchange, TokenRights, str | None], None]] = {
            "POST": self._post,
            "GET": self._get,
            "DELETE": self._delete,
        }
        verb = verbs.get(exchange.request.method)
        if verb is None:
            raise RequestRefused(
                405, f"{exchange.request.method[:16]} is not served here.", {"Allow": _VERBS}
            )
        verb(exchange, self._premises.door.admit(exchange.request), agent)

    # GET

    def _get(self, exchange: HttpExchange, visa: TokenRights, agent: str | None) -> None:
        if exchange.upgrade is not None:
            self._websocket(exchange, visa, agent)
            return
        if not _accepts_events(exchange.request.headers.get("accept", ())):
            raise RequestRefused(406, f"This stream is {_EVENTS}: send it in the header Accept.")
        line = self._line(exchange, visa, agent)
        session = self._session(exchange)
        if (stream := line.stream(session)) is None:
            raise GatewayLimitReached("event streams of one connection", self._config.streams, "streams")
        last = exchange.request.header("last-event-id")
        if stream.outlet is not None:
            if last is None:
                raise RequestRefused(
                    409, "Somebody reads this stream already; send Last-Event-ID to take it over."
                )
            former = stream.outlet
            line.detach(stream, former)
            former.close(NORMAL, "another reader took over")
        received = _event_number(last)
        outlet = EventStreamResponse(self._premises, exchange, line, stream)
        outlet.begin([(CONNECTION, line.id)])
        if received is None:  # a reader that has not said how far it got has everything that was written
            received, gap = stream.count, 0
        else:
            gap = stream.missing(received)
        if gap:
            outlet.comment(f"{gap} events before the next one are no longer kept")
        elif gap is None:
            outlet.comment(f"event {last} was never sent")
            received = stream.count
        line.attach(stream, outlet, received)

    def _websocket(self, exchange: HttpExchange, visa: TokenRights, agent: str | None) -> None:
        headers = HandshakeHeaders()
        for name, values in exchange.request.headers.items():
            for value in values:
                headers[name] = value
        response = ServerProtocol().accept(Handshake(exchange.request.path, headers))
        if response.status_code != 101:
            headers = {"Upgrade": "websocket"} if response.status_code == 426 else {}
            raise RequestRefused(
                response.status_code, bytes(response.body or b"").decode().split("\n")[0], headers
            )
        line = self._open(WebSocketClientConnection, visa, agent)
        socket = WebSocket(self._premises, visa, line)
        assert exchange.upgrade is not None
        exchange.answered = True
        exchange.upgrade(
            socket,
            [
                ("Sec-WebSocket-Accept", response.headers["Sec-WebSocket-Accept"]),
                *answer_headers(exchange, self._premises, line),
            ],
        )
        self._premises.metrics.requests["101"] += 1

    # POST

    def _post(self, exchange: HttpExchange, visa: TokenRights, agent: str | None) -> None:
        kind = (exchange.request.header("content-type") or "").partition(";")[0].strip().lower()
        if kind != _JSON:
            raise RequestRefused(415, f"A message is sent as {_JSON}.")
        limit = self._config.message_size

        def read(body: bytes | None) -> None:
            if body is None:
                refuse(self._premises, exchange, RequestRefused(413, f"A message has at most {limit} bytes."))
                return
            try:
                self._message(exchange, visa, agent, body)
            except RequestRefused as refusal:
                refuse(self._premises, exchange, refusal)
            except GatewayLimitReached as error:
                refuse(self._premises, exchange, limited(error))

        exchange.read(limit, read)

    def _message(self, exchange: HttpExchange, visa: TokenRights, agent: str | None, body: bytes) -> None:
        if body.lstrip()[:1] == b"[":
            raise RequestRefused(501, "Messages are sent one by one; a JSON array is not served.")
        try:
            envelope = read_envelope(body)
        except InvalidMessage as error:
            what = "not JSON" if error.code == PARSE_ERROR else "no message"
            raise RequestRefused(400, f"The body is {what}: {error.reason}.") from None
        self._lines.meter.rate(visa)
        header = exchange.request.header(CONNECTION.lower())
        if envelope.method == "initialize" and envelope.id is not UNSET:
            if header is not None:
                raise RequestRefused(400, f"initialize begins a connection: send it without {CONNECTION}.")
            self._initialize(exchange, visa, agent, envelope, body)
            return
        line = self._line(exchange, visa, agent)
        session = self._session(exchange)
        if envelope.method is UNSET:
            self._check_answer(line, envelope, session)
        else:
            self._check_call(envelope, session)
        line.seen()
        line.deliver([body])
        if envelope.method is UNSET and envelope.id is not UNSET:
            line.answered(envelope.id)
        answer(self._premises, exchange, 202)

    def _check_call(self, envelope: Envelope, session: str | None) -> None:
        """The header has to be there for what happens in a session, and to say the same as the parameters."""
        try:
            named = _read_scope(envelope.params).session_id if envelope.params is not ABSENT else UNSET
        except (msgspec.MsgspecError, ValueError):
            named = UNSET  # not for the front to judge
        method = str(envelope.method)
        if session is None:
            if method not in _ENTERING and is_session_scoped(method):
                raise RequestRefused(400, f"{method} happens in a session: send its id as Acp-Session-Id.")
        elif named is not UNSET and named != session:
            raise RequestRefused(400, "Acp-Session-Id and the sessionId of the parameters differ.")

    def _check_answer(self, line: HttpStreamConnection, envelope: Envelope, session: str | None) -> None:
        """An answer belongs to the stream that asked. The official Python client sends no session with it, so none is fine."""
        if envelope.id is UNSET or session is None:
            return
        asked, stream = line.asked_on(envelope.id)
        if asked and stream != session:
            raise RequestRefused(
                400, "The request that this answers came on another stream than Acp-Session-Id names."
            )

    def _initialize(
        self, exchange: HttpExchange, visa: TokenRights, agent: str | None, envelope: Envelope, body: bytes
    ) -> None:
        line = self._open(HttpStreamConnection, visa, agent)
        premises = self._premises

        def answered(body: bytes | None) -> None:
            timer.cancel()
            exchange.on_gone = None
            if body is None:
                refuse(
                    premises,
                    exchange,
                    RequestRefused(500, "The connection ended before initialize was answered."),
                )
            else:
                answer(premises, exchange, 200, body, _JSON, answer_headers(exchange, premises, line))

        def late() -> None:
            line.give_up_initialize()
            seconds = self._config.initialize_time
            refuse(
                premises,
                exchange,
                RequestRefused(504, f"The agent did not answer initialize within {seconds:g} seconds."),
            )
            line.end(1011, "initialize was not answered in time")

        timer = premises.clock.call_later(self._config.initialize_time, late)
        exchange.on_gone = lambda: line.end(NORMAL, "the client left before initialize was answered")
        line.initialize(None if envelope.id is UNSET else envelope.id, answered)
        line.deliver([body])

    # DELETE

    def _delete(self, exchange: HttpExchange, visa: TokenRights, agent: str | None) -> None:
        line = self._line(exchange, visa, agent)
        line.end(NORMAL, "the client deleted the connection")
        answer(self._premises, exchange, 202)

    # What they share.

    def _open(self, kind: type[L], visa: TokenRights, agent: str | None) -> L:
        try:
            return self._lines.open(kind, visa, agent)
        except NotFound as error:
            raise RequestRefused(404, error.message) from None

    def _line(self, exchange: HttpExchange, visa: TokenRights, agent: str | None) -> HttpStreamConnection:
        id = exchange.request.header(CONNECTION.lower())
        if not id:
            raise RequestRefused(400, f"A request on a connection names it as {CONNECTION}.")
        line = self._lines.find(HttpStreamConnection, id, visa) if len(id) <= self._config.id_size else None
        if line is None or line.agent != agent:
            raise RequestRefused(404, "There is no such connection: begin one with initialize.")
        return line

    def _session(self, exchange: HttpExchange) -> str | None:
        session = exchange.request.header(SESSION)
        if session is not None and not 0 < len(session) <= self._config.id_size:
            raise RequestRefused(400, f"A session id has 1 to {self._config.id_size} characters.")
        return session


def answer_headers(
    exchange: HttpExchange, premises: HttpServerState, line: WebSocketClientConnection | HttpStreamConnection
) -> list[tuple[str, str]]:
    """What names the connection: for the client, and for proxies that have to send it to the same place again."""
    secure = "; Secure" if premises.door.is_secure(exchange.request) else ""
    return [
        (CONNECTION, line.id),
        ("Set-Cookie", f"{COOKIE}={line.id}; Path=/acp; HttpOnly; SameSite=Strict{secure}"),
    ]


def is_session_scoped(method: str) -> bool:
    """Whether a call of this method happens in a session that is open."""
    known = request("agent", method) or notification("agent", method)
    return known is not None and known.in_session


def _accepts_events(values: Sequence[str]) -> bool:
    for part in ",".join(values).split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if kind == _EVENTS:
            return not any(
                piece.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for piece in parameters
            )
    return False


def _event_number(last: str | None) -> int | None:
    """How far a reader got; an id that is none of ours is a number that was never reached."""
    if last is None:
        return None
    return int(last) if last.isascii() and last.isdigit() and len(last) < 19 else -1
