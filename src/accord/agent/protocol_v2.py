"""Lets an agent that speaks version 1 serve a client in version 2. Imported on first use.

`AgentProtocolV2` translates the frames of one connection; `SessionV2` keeps what a session needs for that.
Updates pass through the events of `accord.session`.
"""

import re
from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import UNSET, Raw

from accord.agent.session_v2 import SessionV2
from accord.errors import InvalidParams, InvalidRequest, MethodNotFound, NotFound, RpcError
from accord.schema import (
    AudioContent,
    AuthenticateRequest,
    CancelledOutcome,
    CreateElicitationRequest,
    EmbeddedResource,
    ForkSessionRequest,
    ForkSessionResponse,
    ImageContent,
    InitializeRequest,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionConfigBoolean,
    SessionConfigSelect,
    SessionNotification,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    Unknown,
    v2,
)
from accord.schema.base import Mismatch
from accord.schema.codec import NotJson, decode, encode, parse_json
from accord.schema.session_requests import OpeningResponse
from accord.session.events import OWN_TAGS
from accord.session.requests_v2 import (
    UNKNOWN_PROGRAM,
    elicitation_v2,
    initialize_request_v1,
    initialize_response_v2,
    list_response_v2,
    opening_v1,
)
from accord.session.session_settings import picker_of_option
from accord.wire.envelope import (
    ABSENT,
    Envelope,
    InvalidMessage,
    Notification,
    Request,
    Success,
    encode_failure,
    parse_envelope,
)
from accord.wire.translation import CALL_START, TranslatingTransport, is_extension_call, is_response
from accord.wire.transport import Frame

_FORMER_METHODS: Final = {
    "authenticate": "auth/login",
    "logout": "auth/logout",
    "session/load": "session/resume",
    "session/set_mode": "session/set_config_option",
}
"""The methods that version 2 does not have, and what it has instead."""
_CHUNK_LINE: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","method":"session/update","params":\{"sessionId":"([^"\\]*)",'
    rb'"update":\{"sessionUpdate":"(agent_message|agent_thought)_chunk",'
    rb'"content":\{"type":"text","text":"([^"\\]*(?:\\.[^"\\]*)*)"\}(?:,"messageId":"([^"\\]+)")?\}\}\}'
)
"""A chunk that is the same in both versions, or gets an id. Nothing else passes unread."""
_TEXT: Final = b'"text":'
_CHUNKS: Final[dict[bytes, type]] = {
    b"agent_message": v2.AgentMessageChunkV2,
    b"agent_thought": v2.AgentThoughtChunkV2,
}
_PROMPT_BLOCKS: Final = (
    (ImageContent, "image"),
    (AudioContent, "audio"),
    (EmbeddedResource, "embedded_context"),
)
Answer = Callable[[Envelope], None]


class AgentProtocolV2:
    """Translates between a client in version 2 and an agent in version 1."""

    def __init__(self, transport: TranslatingTransport, start_again: Callable[[], None]) -> None:
        self._transport = transport
        transport.takes_events = True
        transport.passes = lambda frame: not self._questions and is_response(frame)
        self._start_again = start_again
        self._initialized = False
        self._used = False  # whether a request after `initialize` was received
        self._agent = InitializeResponse(1)
        self._sessions: dict[str, SessionV2] = {}
        self._answers: dict[Any, Answer] = {}  # what to do with the agent's responses, by id
        self._questions: dict[Any, SessionV2 | None] = {}  # the agent's open requests, by id
        self._count = 0
        self._chunk_ends = transport.chunk_ends
        self._requests: dict[str, Callable[[Any, Envelope], None]] = {
            "auth/login": self._login,
            "auth/logout": self._logout,
            "session/new": self._new,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/prompt": self._prompt,
            "session/set_config_option": self._set_option,
            "tool_call/cancel": self._cancel_item,
            "terminal/cancel": self._cancel_item,
        }

    # -- frames ----------------------------------------------------------------------------------------------

    def receive(self, frame: Frame) -> None:
        """Handle a frame of the client."""
        self.forget_chunks()
        if isinstance(frame, bytes) and frame[:1] == b"[":
            self._refuse(None, InvalidRequest("JSON-RPC batches are not supported"))
            return
        try:
            envelope = parse_envelope(frame) if isinstance(frame, bytes) else None
        except InvalidMessage:
            envelope = None
        if envelope is None:
            self._transport.deliver(frame)  # the connection answers it as in version 1
        elif envelope.method is UNSET:
            self._receive_response(envelope, cast(bytes, frame))
        elif envelope.id is UNSET:
            self._receive_notification(envelope, cast(bytes, frame))
        else:
            self._receive_request(envelope, cast(bytes, frame))

    def _receive_response(self, envelope: Envelope, frame: bytes) -> None:
        session = self._questions.pop(envelope.id, None)
        self._transport.deliver(frame)
        if session is not None:
            session.answered(envelope.id)

    def _receive_notification(self, envelope: Envelope, frame: bytes) -> None:
        if not self._initialized:
            return
        try:
            if envelope.method == "$/cancel_request":
                self._cancel_request(envelope, frame)
            elif envelope.method == "session/cancel":
                self._cancel(envelope, frame)
            else:
                self._transport.deliver(frame)
        except (Mismatch, NotJson):
            pass  # nothing answers a notification

    def _receive_request(self, envelope: Envelope, frame: bytes) -> None:
        id, method = envelope.id, cast(str, envelope.method)
        try:
            if id is None:
                raise InvalidRequest("The id of a request must not be null")
            if method == "initialize":
                self._initialize(envelope)
                return
            if not self._initialized:
                raise InvalidRequest("Not initialized")
            self._used = True
            if method in _FORMER_METHODS or method.startswith(("fs/",)):
                raise MethodNotFound(data={"method": method})
            serve = self._requests.get(method)
            if serve is None:
                self._transport.deliver(frame)
            else:
                serve(_json(envelope.params), envelope)
        except (Mismatch, ValueError, NotJson) as error:
            self._refuse_call(envelope, InvalidParams(f"Invalid params of {method}: {error}"))
        except RpcError as error:
            self._refuse_call(envelope, error)

    def _refuse_call(self, envelope: Envelope, error: RpcError) -> None:
        if not self._initialized and envelope.method == "initialize":
            self._start_again()
        self._refuse(envelope.id, error)

    def send(self, frame: bytes) -> None:
        """Handle a frame of the agent."""
        if frame.startswith(CALL_START):
            if is_extension_call(frame):
                self._transport.transmit(frame)
            else:
                self._send_message(frame)
            return
        text = frame.find(_TEXT) + len(_TEXT)
        ends = self._chunk_ends.get(frame[:text])
        if (
            ends is None
            or frame.find(b'"', text + 1) != len(frame) - len(ends[0]) - 1
            or not frame.endswith(ends[0])
        ):
            chunk = _CHUNK_LINE.fullmatch(frame)
            ends = None if chunk is None else self._plain_ends(chunk)
        elif frame.find(b"\\") >= 0 and _CHUNK_LINE.fullmatch(frame) is None:
            ends = None
        if ends is not None:
            old, new = ends
            self._transport.transmit(frame if old == new else frame[: -len(old)] + new)
            return
        self._send_message(frame)

    def _send_message(self, frame: bytes) -> None:
        self.forget_chunks()
        envelope = parse_envelope(frame)
        method = envelope.method
        if method is UNSET:
            answer = self._answers.pop(envelope.id, None)
            if answer is None:
                self._transport.transmit(frame)
            else:
                answer(envelope)
        elif method == "session/update":
            notification = decode(SessionNotification, envelope.params)
            self._session(notification.session_id).update(notification.update)
        elif method == "session/request_permission":
            self._ask_permission(envelope)
        elif method == "elicitation/create":
            self._ask_form(envelope, frame)
        elif envelope.id is not UNSET and method.startswith(("fs/", "terminal/")):
            self._transport.deliver(encode_failure(envelope.id, MethodNotFound(data={"method": method})))
        else:
            self._transport.transmit(frame)

    def ended(self) -> None:
        """Nothing is left to do: the agent ends its turns itself."""

    # -- helpers ---------------------------------------------------------------------------------------------

    def _refuse(self, id: Any, error: RpcError) -> None:
        self._transport.transmit(encode_failure(id, error))

    def forget_chunks(self) -> None:
        """Read the next chunk of every session, because something came between."""
        self._chunk_ends.clear()

    def answer(self, id: Any, result: Any) -> None:
        """Answer a request of the client."""
        self._transport.transmit(encode(Success(id, result)))

    def fail(self, id: Any, error: Any) -> None:
        """Answer a request of the client with the `error` member of a response."""
        self._transport.transmit(encode({"jsonrpc": "2.0", "id": id, "error": error}))

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the client."""
        self._transport.transmit(encode(Notification(method, params)))

    def notify_agent(self, method: str, params: Any) -> None:
        """Send a notification to the agent."""
        self._transport.deliver(encode(Notification(method, params)))

    def call_agent(self, method: str, params: Any, ended: Answer) -> str:
        """Call the agent and return the id of the request; `ended` gets the response."""
        self._count += 1
        id = f"{OWN_TAGS}{self._count}"
        self._answers[id] = ended
        self._transport.deliver(encode(Request(id, method, params)))
        return id

    def _call(
        self,
        id: Any,
        method: str,
        params: Any,
        read: Callable[[Raw], None],
        on_error: Callable[[], None] | None = None,
    ) -> None:
        """Call the agent under the client's own id; `read` handles the result, errors pass unchanged."""

        def answer(envelope: Envelope) -> None:
            if envelope.error is ABSENT:
                read(envelope.result)
                return
            if on_error is not None:
                on_error()
            if decode(v2.ErrorV2, envelope.error).code == MethodNotFound.default_code:
                self._refuse(id, MethodNotFound(data={"method": _FORMER_METHODS.get(method, method)}))
            else:
                self.fail(id, envelope.error)

        self._answers[id] = answer
        self._transport.deliver(encode(Request(id, method, params)))

    def _session(self, session_id: str) -> SessionV2:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = SessionV2(self, session_id)
        return session

    def _open_session(self, session_id: str) -> SessionV2:
        session = self._sessions.get(session_id)
        if session is None or session.closed or not session.open:
            raise NotFound("Session not found", {"sessionId": session_id})
        return session

    def _serves(self, capability: str) -> bool:
        capabilities = self._agent.agent_capabilities or None
        sessions = capabilities.session_capabilities or None if capabilities else None
        return bool(sessions and getattr(sessions, capability))

    # -- initialize and sign-in ------------------------------------------------------------------------------

    def _initialize(self, envelope: Envelope) -> None:
        if self._initialized and self._used:
            raise InvalidRequest("Already initialized")
        params = _json(envelope.params)
        requested = params.get("protocolVersion")
        if self._initialized and isinstance(requested, int) and requested < 2:
            raise InvalidRequest("The connection speaks version 2")
        if isinstance(requested, int) and requested > 2:  # what a later version changes is left out
            params = {"info": {"name": "unknown", "version": "unknown"}, **params}
        try:
            request = decode(v2.InitializeRequestV2, encode(params))
        except Mismatch:
            if not (isinstance(requested, int) and requested > 2):
                raise
            request = v2.InitializeRequestV2(requested, UNKNOWN_PROGRAM)
        id: Any = envelope.id

        def answer(response: Envelope) -> None:
            if response.error is not ABSENT:
                if not self._initialized:
                    self._start_again()
                self.fail(id, response.error)
                return
            self._initialized = True
            self._agent = decode(InitializeResponse, response.result)
            self.answer(id, initialize_response_v2(self._agent))

        self._answers[id] = answer
        self._transport.deliver(encode(Request(id, "initialize", self._initialize_request(request))))

    def _initialize_request(self, request: v2.InitializeRequestV2) -> InitializeRequest:
        """The request as the agent gets it."""
        return initialize_request_v1(request)

    def _login(self, params: Any, envelope: Envelope) -> None:
        request = decode(v2.LoginAuthRequest, encode(params))
        self._call(
            envelope.id,
            "authenticate",
            AuthenticateRequest(request.method_id, meta=request.meta),
            lambda _: self.answer(envelope.id, v2.LoginAuthResponse()),
        )

    def _logout(self, params: Any, envelope: Envelope) -> None:
        self._call(envelope.id, "logout", params, lambda _: self.answer(envelope.id, v2.LogoutAuthResponse()))

    # -- sessions --------------------------------------------------------------------------------------------

    def _new(self, params: Any, envelope: Envelope) -> None:
        request = decode(v2.NewSessionRequestV2, encode(params))

        def read(result: Raw) -> None:
            response = decode(NewSessionResponse, result)
            session = self._opened(response.session_id, response)
            options = session.options.all_v2 or UNSET
            self.answer(envelope.id, v2.NewSessionResponseV2(session.id, options, meta=response.meta))

        self._call(envelope.id, "session/new", opening_v1(NewSessionRequest, request), read)

    def _fork(self, params: Any, envelope: Envelope) -> None:
        request = decode(v2.ForkSessionRequestV2, encode(params))

        def read(result: Raw) -> None:
            response = decode(ForkSessionResponse, result)
            session = self._opened(response.session_id, response)
            options = session.options.all_v2 or UNSET
            self.answer(envelope.id, v2.ForkSessionResponseV2(session.id, options, meta=response.meta))

        self._call(envelope.id, "session/fork", opening_v1(ForkSessionRequest, request), read)

    def _resume(self, params: Any, envelope: Envelope) -> None:
        request = decode(v2.ResumeSessionRequestV2, encode(params))
        replay = request.replay_from or None
        if replay is not None and (isinstance(replay, Unknown) or "type" not in params["replayFrom"]):
            raise InvalidParams(f"replayFrom: unsupported {params['replayFrom']}")
        session = self._sessions.get(request.session_id)
        if session is None or session.closed:
            session = self._sessions[request.session_id] = SessionV2(self, request.session_id)
        loads = bool(self._agent.agent_capabilities and self._agent.agent_capabilities.load_session is True)
        resumes = self._serves("resume")
        load = loads and (replay is not None or not resumes)
        if not (loads or resumes):
            self._open_session(request.session_id)
            self._end_resume(session, envelope, UNSET)
            return
        if load:
            session.silent = replay is None
            session.replayed = set()

        def read(result: Raw) -> None:
            response = decode(LoadSessionResponse if load else ResumeSessionResponse, result)
            self._opened(session.id, response)
            self._end_resume(session, envelope, response.meta)

        self._call(
            envelope.id,
            "session/load" if load else "session/resume",
            opening_v1(LoadSessionRequest if load else ResumeSessionRequest, request),
            read,
            session.stop_replay,
        )

    def _end_resume(self, session: SessionV2, envelope: Envelope, meta: Any) -> None:
        session.end_replay()
        options = session.options.all_v2 or UNSET
        self.answer(envelope.id, v2.ResumeSessionResponseV2(options, meta=meta))

    def _opened(self, session_id: str, response: OpeningResponse) -> SessionV2:
        session = self._session(session_id)
        session.open = True
        session.options.opened(response.modes, response.config_options)
        return session

    def _list(self, params: Any, envelope: Envelope) -> None:
        if not self._serves("list"):
            self.answer(envelope.id, v2.ListSessionsResponseV2([]))
            return

        def read(result: Raw) -> None:
            response = decode(ListSessionsResponse, result)
            self.answer(envelope.id, list_response_v2(response))

        self._call(envelope.id, "session/list", params, read)

    def _close(self, params: Any, envelope: Envelope) -> None:
        session = self._sessions.get(_session_id(params))
        if session is not None:
            session.cancel()

        def answer(response: Envelope) -> None:
            error = None if response.error is ABSENT else decode(v2.ErrorV2, response.error)
            if error is not None and error.code != NotFound.default_code:  # closing what is closed succeeds
                self.fail(envelope.id, response.error)
                return
            if session is not None:
                session.closed = True
            self.answer(envelope.id, v2.CloseSessionResponse())

        self._answers[envelope.id] = answer
        self._transport.deliver(encode(Request(cast(Any, envelope.id), "session/close", params)))

    def _set_option(self, params: Any, envelope: Envelope) -> None:
        request = decode(v2.SetSessionConfigOptionRequestV2, encode(params))
        session = self._open_session(request.session_id)
        option = session.options.find(request.config_id)
        value = request.value
        match option, request.type, value:
            case (SessionConfigBoolean(), "boolean", bool()) | (SessionConfigSelect(), "id", str()):
                pass
            case _:
                raise InvalidParams(f"no option {request.config_id!r} takes the value {value!r}")
        if not picker_of_option(option).offers(value):
            raise InvalidParams(f"the option {request.config_id!r} has no value {value!r}")

        def read(result: Raw) -> None:
            if mode:
                session.options.mode_changed(str(value))
            else:
                session.options.changed(decode(SetSessionConfigOptionResponse, result).config_options)
            self.answer(envelope.id, v2.SetSessionConfigOptionResponseV2(session.options.all_v2))

        mode = session.options.mode_is_option and request.config_id == session.options.mode_id
        if mode:
            call: Any = SetSessionModeRequest(session.id, str(value), meta=request.meta)
        else:
            kind: Any = "boolean" if isinstance(value, bool) else UNSET
            call = SetSessionConfigOptionRequest(
                session.id, request.config_id, value, kind, meta=request.meta
            )
        method = "session/set_mode" if mode else "session/set_config_option"
        self._call(envelope.id, method, call, read)

    def _cancel_item(self, params: Any, envelope: Envelope) -> None:
        """Ask the agent to stop a tool call or a terminal: an extension of version 1."""

        def answer(response: Envelope) -> None:
            if response.error is ABSENT:
                self.answer(envelope.id, {})
            else:
                self._refuse(envelope.id, InvalidParams(f"{envelope.method}: nothing to cancel"))

        self._answers[envelope.id] = answer
        id: Any = envelope.id
        self._transport.deliver(encode(Request(id, f"{OWN_TAGS}{envelope.method}", params)))

    def _prompt(self, params: Any, envelope: Envelope) -> None:
        request = decode(PromptRequest, encode(params))
        session = self._open_session(request.session_id)
        if not request.prompt:
            raise InvalidParams("prompt: needs at least one content block")
        capabilities = self._agent.agent_capabilities or None
        accepted = capabilities.prompt_capabilities or None if capabilities else None
        for block in request.prompt:
            for kind, name in _PROMPT_BLOCKS:
                if isinstance(block, kind) and (accepted is None or getattr(accepted, name) is not True):
                    raise InvalidParams(f"prompt: this agent does not support {kind.__name__}")
        session.add_prompt(envelope.id, request)

    def _cancel(self, envelope: Envelope, frame: bytes) -> None:
        session = self._sessions.get(_session_id(_json(envelope.params)))
        if session is not None:
            session.cancel()
        self._transport.deliver(frame)

    def _cancel_request(self, envelope: Envelope, frame: bytes) -> None:
        id = _json(envelope.params).get("requestId")
        if not any(session.cancel_prompt(id) for session in self._sessions.values()):
            self._transport.deliver(frame)

    # -- what the agent sends --------------------------------------------------------------------------------

    def _plain_ends(self, chunk: "re.Match[bytes]") -> tuple[bytes, bytes] | None:
        """The ends of a chunk that needs no translation apart from the id of its message; None for others."""
        session = self._sessions.get(chunk[1].decode())
        if session is None or session.closed or session.replayed is not None:
            return None
        session.insert()
        sent_id: bytes | None = chunk[4]
        message_id = session.ids.of(_CHUNKS[chunk[2]], sent_id.decode() if sent_id else UNSET)
        old = new = chunk[0][chunk.end(3) + 1 :]
        if sent_id is None:
            new = b'},"messageId":%s}}}' % encode(message_id)
        self._chunk_ends.pop(session.chunk_start, None)
        session.chunk_start = chunk[0][: chunk.start(3) - 1]
        self._chunk_ends[session.chunk_start] = old, new
        return old, new

    def _ask_permission(self, envelope: Envelope) -> None:
        request = decode(RequestPermissionRequest, envelope.params)
        session = self._session(request.session_id)
        id: Any = envelope.id
        if session.closed:
            self._transport.deliver(
                encode_failure(id, NotFound("Session not found", {"sessionId": session.id}))
            )
        elif not request.options:  # there is nothing to ask
            self._transport.deliver(encode(Success(id, RequestPermissionResponse(CancelledOutcome()))))
        else:
            self._ask(session, envelope, session.permission_request(request))

    def _ask_form(self, envelope: Envelope, frame: bytes) -> None:
        request = decode(CreateElicitationRequest, envelope.params)
        if isinstance(request, Unknown):
            self._transport.transmit(frame)
            return
        session = self._session(request.session_id) if request.session_id else None
        try:
            params = elicitation_v2(request)
        except ValueError as error:
            self._transport.deliver(encode_failure(cast(Any, envelope.id), InvalidParams(str(error))))
            return
        self._ask(session, envelope, params)

    def _ask(self, session: SessionV2 | None, envelope: Envelope, params: Any) -> None:
        """Send a question. The work of the session waits for the answer meanwhile."""
        id: Any = envelope.id
        self._questions[id] = session
        if session is not None:
            session.asked(id)
        self._transport.transmit(encode(Request(id, cast(str, envelope.method), params)))


def _json(raw: Raw) -> dict[str, Any]:
    value: Any = {} if raw is ABSENT else parse_json(raw)
    if value is not None and not isinstance(value, dict):
        raise Mismatch("params", "not an object")
    return cast("dict[str, Any]", value or {})


def _session_id(params: dict[str, Any]) -> str:
    session_id = params.get("sessionId")
    if not isinstance(session_id, str):
        raise Mismatch("$.sessionId", "expected string")
    return session_id
