"""`/acp` and `/acp/NAME`: the HTTP verbs, the headers, and the event streams of streamable HTTP."""

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
from accord.gateway.client_connection import IncomingFrame, OutgoingFrame
from accord.gateway.http.http_exchange import (
    Headers,
    HttpExchange,
    answer_later,
    common_headers,
    send_error,
    send_refusal,
    send_response,
)
from accord.gateway.http.resumable_connection import (
    NORMAL,
    POLICY,
    FrameStream,
    HttpStreamConnection,
    WebSocketClientConnection,
)
from accord.gateway.http.server_state import ConnectionT, HttpServerState
from accord.gateway.http.websocket_server import WebSocket
from accord.schema.methods import notification, request
from accord.wire.envelope import ABSENT, Envelope, InvalidMessage, parse_envelope

CONNECTION_HEADER: Final = "Acp-Connection-Id"
SESSION_HEADER: Final = "acp-session-id"
CONNECTION_COOKIE: Final = "accord-line"
_ALLOWED_VERBS: Final = "GET, POST, DELETE, OPTIONS"
_JSON_TYPE: Final = "application/json"
_EVENT_STREAM_TYPE: Final = "text/event-stream"

_OPENING_METHODS: Final = frozenset({"session/load", "session/resume", "session/fork", "session/delete"})
"""These name a session for which the client may not have a stream yet.

The official Python client sends no session header with them.
"""


class AcpEndpoint:
    """The HTTP transport of ACP."""

    def __init__(self, server_state: HttpServerState) -> None:
        self._server_state = server_state
        self._connections = server_state.connections
        self._config = server_state.config

    def handle(self, exchange: HttpExchange, agent: str | None) -> None:
        """Handle one request. Raises RequestRefused and GatewayLimitReached."""
        verbs: dict[str, Callable[[HttpExchange, TokenRights, str | None], None]] = {
            "POST": self._post,
            "GET": self._get,
            "DELETE": self._delete,
        }
        verb = verbs.get(exchange.request.method)
        if verb is None:
            raise RequestRefused(
                405, f"{exchange.request.method[:16]} is not served here.", {"Allow": _ALLOWED_VERBS}
            )
        if exchange.upgrade is not None and exchange.request.query:
            answer_later(self._server_state, exchange, self._websocket_with_query(exchange, agent))
        else:
            verb(exchange, self._server_state.authenticate(exchange), agent)

    async def _websocket_with_query(self, exchange: HttpExchange, agent: str | None) -> None:
        """Open a WebSocket whose URL may have a ticket: all nodes share these."""
        rights = await self._server_state.authenticator.authenticate_socket(exchange.request)
        self._get(exchange, rights, agent)

    # GET

    def _get(self, exchange: HttpExchange, rights: TokenRights, agent: str | None) -> None:
        if exchange.upgrade is not None:
            self._websocket(exchange, rights, agent)
            return
        if not _accepts_events(exchange.request.headers.get("accept", ())):
            raise RequestRefused(406, f"Send the header Accept: {_EVENT_STREAM_TYPE}.")
        connection = self._find_connection(exchange, rights, agent)
        session = self._session_id(exchange)
        if (stream := connection.stream(session)) is None:
            raise GatewayLimitReached("event streams of one connection", self._config.streams, "streams")
        last_event_id = exchange.request.header("last-event-id")
        if stream.outlet is not None:
            if last_event_id is None:
                raise RequestRefused(
                    409, "The stream already has a reader; send Last-Event-ID to take it over."
                )
            old_outlet = stream.outlet
            connection.detach(stream, old_outlet)
            old_outlet.close(NORMAL, "another reader took over the stream")
        received = _event_number(last_event_id)
        outlet = EventStreamResponse(self._server_state, exchange, connection, stream)
        outlet.start([(CONNECTION_HEADER, connection.id)])
        if received is None:  # without Last-Event-ID, the stream continues with the next frame
            received, missing_count = stream.count, 0
        else:
            missing_count = stream.missing_count(received)
        if missing_count:
            outlet.comment(f"{missing_count} events before the next one were dropped")
        elif missing_count is None:
            outlet.comment(f"event {last_event_id} was never sent")
            received = stream.count
        connection.attach(stream, outlet, received)

    def _websocket(self, exchange: HttpExchange, rights: TokenRights, agent: str | None) -> None:
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
        connection = self._open(WebSocketClientConnection, rights, agent)
        socket = WebSocket(self._server_state, rights, connection)
        assert exchange.upgrade is not None
        exchange.response_started = True
        exchange.upgrade(
            socket,
            [
                ("Sec-WebSocket-Accept", response.headers["Sec-WebSocket-Accept"]),
                *connection_headers(exchange, self._server_state, connection),
            ],
        )
        self._server_state.metrics.requests["101"] += 1

    # POST

    def _post(self, exchange: HttpExchange, rights: TokenRights, agent: str | None) -> None:
        content_type = (exchange.request.header("content-type") or "").partition(";")[0].strip().lower()
        if content_type != _JSON_TYPE:
            raise RequestRefused(415, f"Send messages as {_JSON_TYPE}.")
        limit = self._config.message_size

        def on_body(body: bytes | None) -> None:
            if body is None:
                send_refusal(
                    self._server_state,
                    exchange,
                    RequestRefused(413, f"The message is larger than {limit} bytes."),
                )
                return
            try:
                self._handle_message(exchange, rights, agent, body)
            except (RequestRefused, GatewayLimitReached) as error:
                send_error(self._server_state, exchange, error)

        exchange.read_body(limit, on_body)

    def _handle_message(
        self, exchange: HttpExchange, rights: TokenRights, agent: str | None, body: bytes
    ) -> None:
        if body.lstrip()[:1] == b"[":
            raise RequestRefused(
                501, "Batches (JSON arrays) are not supported; send one message per request."
            )
        try:
            envelope = parse_envelope(body)
        except InvalidMessage as error:
            problem = "not JSON" if error.code == PARSE_ERROR else "not a JSON-RPC message"
            raise RequestRefused(400, f"The body is {problem}: {error.reason}.") from None
        self._connections.limit_counter.count_message(rights)
        connection_id = exchange.request.header(CONNECTION_HEADER.lower())
        if envelope.method == "initialize" and envelope.id is not UNSET:
            if connection_id is not None:
                raise RequestRefused(
                    400, f"initialize opens a connection; send it without {CONNECTION_HEADER}."
                )
            self._initialize(exchange, rights, agent, envelope, body)
            return
        connection = self._find_connection(exchange, rights, agent)
        session = self._session_id(exchange)
        if envelope.method is UNSET:
            self._check_response(connection, envelope, session)
        else:
            self._check_call(envelope, session)
        connection.mark_active()
        connection.deliver([IncomingFrame(body, envelope)])
        if envelope.method is UNSET and envelope.id is not UNSET:
            connection.forget_request(envelope.id)
        send_response(self._server_state, exchange, 202)

    def _check_call(self, envelope: Envelope, session: str | None) -> None:
        """Check that the session header is present where needed and agrees with the params."""
        try:
            params_session = (
                _read_session_params(envelope.params).session_id if envelope.params is not ABSENT else UNSET
            )
        except (msgspec.MsgspecError, ValueError):
            params_session = UNSET  # the gateway answers invalid params
        method = str(envelope.method)
        if session is None:
            if method not in _OPENING_METHODS and is_session_scoped(method):
                raise RequestRefused(400, f"{method} needs a session; send its id as Acp-Session-Id.")
        elif params_session is not UNSET and params_session != session:
            raise RequestRefused(400, "Acp-Session-Id and the sessionId of the params differ.")

    def _check_response(
        self, connection: HttpStreamConnection, envelope: Envelope, session: str | None
    ) -> None:
        """Check that a response belongs to the stream that carried the request.

        The official Python client sends no session header with it, so a missing header is accepted.
        """
        if envelope.id is UNSET or session is None:
            return
        is_open, stream = connection.request_stream(envelope.id)
        if is_open and stream != session:
            raise RequestRefused(
                400, "The request was sent on another stream than the one of Acp-Session-Id."
            )

    def _initialize(
        self, exchange: HttpExchange, rights: TokenRights, agent: str | None, envelope: Envelope, body: bytes
    ) -> None:
        connection = self._open(HttpStreamConnection, rights, agent)
        server_state = self._server_state

        def on_answer(body: bytes | None) -> None:
            timer.cancel()
            exchange.on_disconnect = None
            if body is None:
                send_refusal(
                    server_state,
                    exchange,
                    RequestRefused(500, "The connection ended before initialize was answered."),
                )
            else:
                send_response(
                    server_state,
                    exchange,
                    200,
                    body,
                    _JSON_TYPE,
                    connection_headers(exchange, server_state, connection),
                )

        def time_out() -> None:
            connection.give_up_initialize()
            seconds = self._config.initialize_time
            send_refusal(
                server_state,
                exchange,
                RequestRefused(504, f"The agent did not answer initialize within {seconds:g} seconds."),
            )
            connection.end(1011, "no answer to initialize in time")

        timer = server_state.clock.call_later(self._config.initialize_time, time_out)
        exchange.on_disconnect = lambda: connection.end(
            NORMAL, "the client left before initialize was answered"
        )
        connection.initialize(None if envelope.id is UNSET else envelope.id, on_answer)
        connection.deliver([IncomingFrame(body, envelope)])

    # DELETE

    def _delete(self, exchange: HttpExchange, rights: TokenRights, agent: str | None) -> None:
        connection = self._find_connection(exchange, rights, agent)
        connection.end(NORMAL, "the client deleted the connection")
        send_response(self._server_state, exchange, 202)

    # Shared by the verbs

    def _open(self, kind: type[ConnectionT], rights: TokenRights, agent: str | None) -> ConnectionT:
        try:
            return self._connections.open(kind, rights, agent)
        except NotFound as error:
            raise RequestRefused(404, error.message) from None

    def _find_connection(
        self, exchange: HttpExchange, rights: TokenRights, agent: str | None
    ) -> HttpStreamConnection:
        id = exchange.request.header(CONNECTION_HEADER.lower())
        if not id:
            raise RequestRefused(400, f"Missing header {CONNECTION_HEADER}.")
        connection = (
            self._connections.find(HttpStreamConnection, id, rights)
            if len(id) <= self._config.id_size
            else None
        )
        if connection is None or connection.agent != agent:
            raise RequestRefused(404, "Unknown connection; open one with initialize.")
        return connection

    def _session_id(self, exchange: HttpExchange) -> str | None:
        session = exchange.request.header(SESSION_HEADER)
        if session is not None and not 0 < len(session) <= self._config.id_size:
            raise RequestRefused(400, f"A session id must have 1 to {self._config.id_size} characters.")
        return session


class EventStreamResponse:
    """The open GET of one stream. The id of an event is its number in the stream."""

    def __init__(
        self,
        server_state: HttpServerState,
        exchange: HttpExchange,
        connection: HttpStreamConnection,
        stream: FrameStream,
    ) -> None:
        self._server_state = server_state
        self._exchange = exchange
        self._connection = connection
        self._stream = stream
        self._last_write = server_state.clock.now()
        self._open = True

    def start(self, headers: Headers) -> None:
        """Send the response head, so that the client knows that its stream is open."""
        server_state, exchange = self._server_state, self._exchange
        exchange.on_disconnect = self._disconnected
        exchange.on_ready = self._connection.flush
        stream_headers = [("Cache-Control", "no-cache, no-transform"), ("X-Accel-Buffering", "no"), *headers]
        exchange.start(200, common_headers(server_state, exchange, "text/event-stream", stream_headers))
        server_state.metrics.requests["200"] += 1
        server_state.metrics.streams += 1
        server_state.event_streams.add(self)

    @property
    def ready(self) -> bool:
        return self._open and self._exchange.ready

    @property
    def buffered(self) -> int:
        return self._exchange.buffered if self._open else 0

    def write(self, frames: list[OutgoingFrame], first: int) -> None:
        self._last_write = self._server_state.clock.now()
        self._exchange.write(
            b"".join([b"id: %d\n%b" % (number, frame.event) for number, frame in enumerate(frames, first)])
        )

    def comment(self, text: str) -> None:
        """Write a comment, which clients skip."""
        self._exchange.write(b": " + text.encode() + b"\n\n" if text else b":\n\n")

    def close(self, code: int, reason: str) -> None:
        if self._open:
            self._mark_closed()
            if code == POLICY:
                self._exchange.abort()
            else:
                self._exchange.finish()

    def _mark_closed(self) -> None:
        self._open = False
        self._server_state.metrics.streams -= 1
        self._server_state.event_streams.discard(self)
        self._exchange.on_disconnect = self._exchange.on_ready = None

    def _disconnected(self) -> None:
        self._mark_closed()
        self._connection.detach(self._stream, self)

    def tick(self, now: float) -> None:
        """See `TimedConnection.tick`."""
        if now - self._last_write >= self._server_state.config.keep_alive and self.ready:
            self._last_write = now
            self.comment("")


class SessionParams(Struct):
    """The session id in the params."""

    session_id: str | msgspec.UnsetType = msgspec.field(name="sessionId", default=UNSET)


_read_session_params = msgspec.json.Decoder(SessionParams).decode


def connection_headers(
    exchange: HttpExchange,
    server_state: HttpServerState,
    connection: WebSocketClientConnection | HttpStreamConnection,
) -> list[tuple[str, str]]:
    """Return the headers that name the connection, for the client and for proxies with sticky sessions."""
    secure = "; Secure" if server_state.authenticator.is_secure(exchange.request) else ""
    return [
        (CONNECTION_HEADER, connection.id),
        ("Set-Cookie", f"{CONNECTION_COOKIE}={connection.id}; Path=/acp; HttpOnly; SameSite=Strict{secure}"),
    ]


def is_session_scoped(method: str) -> bool:
    """Whether this method runs in an open session."""
    entry = request("agent", method) or notification("agent", method)
    return entry is not None and entry.in_session


def _accepts_events(values: Sequence[str]) -> bool:
    for media_range in ",".join(values).split(","):
        kind, *parameters = (parameter.strip().lower() for parameter in media_range.split(";"))
        if kind == _EVENT_STREAM_TYPE:
            return not any(
                parameter.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000")
                for parameter in parameters
            )
    return False


def _event_number(event_id: str | None) -> int | None:
    """Return the number of the last received event: None without an id, -1 for an invalid id."""
    if event_id is None:
        return None
    return int(event_id) if event_id.isascii() and event_id.isdigit() and len(event_id) < 19 else -1
