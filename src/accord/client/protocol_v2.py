"""Lets a client that speaks version 1 use an agent in version 2. Imported on first use.

`ClientProtocolV2` translates the frames of one connection. Updates become those of version 1 where it has
them, and events of `accord.session` otherwise. A prompt is answered when the session is idle again.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from msgspec import UNSET, Raw, Struct, structs

from accord.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    RequestCancelled,
    RpcError,
)
from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    ForkSessionRequest,
    ForkSessionResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionConfigOption,
    SessionConfigSelect,
    SessionNotification,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    TextContent,
    ToolCall,
    ToolCallChange,
    Unknown,
    UserMessageChunk,
    v2,
)
from accord.schema.base import Mismatch
from accord.schema.codec import NotJson, decode, encode, parse_json, to_builtins
from accord.session.config_options_v2 import MODE, options_v1
from accord.session.events import (
    OWN_TAGS,
    Event,
    MessageChanged,
    MessageChunk,
    PlanChanged,
    ToolCallChanged,
    TurnStarted,
)
from accord.session.history_items import MessageKind
from accord.session.plain_updates import PROMPT_KEY, is_plain, plain_updates, terminal_text
from accord.session.protocol_v1 import accord_meta, updates_of
from accord.session.protocol_v2 import block_v2, commands_v1, events_of
from accord.session.requests_v2 import opening_v2, permission_request_v1
from accord.session.state import SessionState
from accord.session.tool_calls import ToolCallState, without_terminals
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
from accord.wire.translation import TranslatingTransport, is_extension_call, is_response
from accord.wire.transport import Frame

_TEXT: Final = rb'"content":\{"type":"text","text":"[^"\\]*(?:\\.[^"\\]*)*"\}'
_CHUNK_LINE: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","method":"session/update","params":\{"sessionId":"([^"\\]*)",'
    rb'"update":\{"sessionUpdate":"agent_(message|thought)_chunk",'
    rb'(?:%s,"messageId":"([^"\\]+)"|"messageId":"([^"\\]+)",%s)\}\}\}' % (_TEXT, _TEXT)
)
"""A chunk that is the same in both versions. Nothing else passes unread."""
_KINDS: Final[dict[bytes, MessageKind]] = {b"message": "agent", b"thought": "thought"}
_CHUNKS: Final = {b"message": AgentMessageChunk, b"thought": AgentThoughtChunk}
_CHUNK_KINDS: Final[dict[str, MessageKind]] = {
    "user_message_chunk": "user",
    "agent_message_chunk": "agent",
    "agent_thought_chunk": "thought",
}

Answer = Callable[[Envelope], None]


class SentPrompt(Struct):
    """A prompt whose turn has not ended."""

    id: Any
    blocks: list[Any] = []
    key: str = ""
    """The id by which a gateway knows the prompt; "" for other clients."""
    keeps_key: bool = False
    """Whether that is the id of the message for its clients, whatever the agent calls it."""
    inserted: bool = False
    message_id: str = ""
    """The id of the message that the agent reported for it, or "" if there was none yet."""
    idle: v2.SessionStateUpdate | None = None
    """The end of the turn, if it came before the answer to the prompt."""


class AgentSessionV2:
    """What the translation must know of one session of the agent."""

    def __init__(self) -> None:
        self.prompts: list[SentPrompt] = []
        self.options: list[SessionConfigOption] = []
        self.state: SessionState = SessionState()
        """What the agent said, for a client that takes no events."""
        self.own_messages: set[str] = set()
        """The user messages that are prompts of the client, which knows them."""
        self.gateway_prompts: dict[str, SentPrompt] = {}
        """The prompts of a gateway by the agent's ids of their messages."""
        self.messages: set[tuple[MessageKind, str]] = set()
        self.calls: set[str] = set()
        self._busy: bool | None = None

    def ends_work(self, update: v2.SessionStateUpdate) -> bool:
        """Note a state. Return whether it ends work: an agent repeats the idle state with other details.

        Without a stop reason, only the idle state after another one ends work, unless the agent never
        reports another one.
        """
        was_busy, busy = self._busy is not False, update.state != "idle"
        if busy or self._busy is not None:
            self._busy = busy
        return not busy and (was_busy or bool(update.stop_reason))

    def forget(self) -> None:
        """Forget the history, which is about to be replayed."""
        self.messages.clear()
        self.calls.clear()


class ClientProtocolV2:
    """Translates between an agent in version 2 and a client in version 1."""

    def __init__(self, transport: TranslatingTransport, *, events: bool = True) -> None:
        """Without `events`, the client gets only what version 1 has."""
        transport.takes_events = events
        transport.passes = is_extension_call
        transport.is_unchanged = self._is_unchanged
        self._events = events
        self._transport = transport
        self._sessions: dict[str, AgentSessionV2] = {}
        self._streamed: dict[str, tuple[type, str]] = {}
        """The type of the chunks that arrive in a session, and the id of their message."""
        self._answers: dict[Any, Answer] = {}
        self._count = 0
        self._requests: dict[str, Callable[[Any, Raw], None]] = {
            "authenticate": lambda id, params: self._forward(id, "auth/login", params),
            "logout": lambda id, params: self._forward(id, "auth/logout", params),
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/close": self._close,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            f"{OWN_TAGS}tool_call/cancel": lambda id, params: self._forward(id, "tool_call/cancel", params),
            f"{OWN_TAGS}terminal/cancel": lambda id, params: self._forward(id, "terminal/cancel", params),
        }

    # -- frames ----------------------------------------------------------------------------------------------

    def receive(self, frame: Frame) -> None:
        """Handle a frame of the agent."""
        if not isinstance(frame, bytes):
            self._transport.deliver(frame)
            return
        chunk = _CHUNK_LINE.fullmatch(frame)
        if chunk is not None:
            session_id, id = chunk[1].decode(), (chunk[3] or chunk[4]).decode()
            self._session(session_id).messages.add((_KINDS[chunk[2]], id))
            self._streamed[session_id] = (_CHUNKS[chunk[2]], id)
            self._transport.deliver(frame)
            return
        if frame[:1] == b"[":
            self._refuse(None, InvalidRequest("JSON-RPC batches are not supported"))
            return
        try:
            envelope = parse_envelope(frame)
        except InvalidMessage:
            self._transport.deliver(frame)
            return
        if envelope.method is UNSET:
            answer = self._answers.pop(envelope.id, None)
            if answer is None:
                self._transport.deliver(frame)
            else:
                answer(envelope)
        elif envelope.method == "session/update" and envelope.id is UNSET:
            self._receive_update(envelope, frame)
        elif envelope.id is not UNSET:
            self._receive_request(envelope, frame)
        else:
            self._transport.deliver(frame)

    def _is_unchanged(self, notification: SessionNotification) -> bool:
        """Whether an update is a text, the same in both versions, for the message that is being streamed."""
        update: Any = notification.update
        streamed = self._streamed.get(notification.session_id)
        return (
            streamed is not None
            and type(update) is streamed[0]
            and update.message_id == streamed[1]
            and type(update.content) is TextContent
        )

    def _receive_request(self, envelope: Envelope, frame: bytes) -> None:
        id, method = envelope.id, cast(str, envelope.method)
        if method == "session/request_permission" and id is not None:
            try:
                request = decode(v2.RequestPermissionRequestV2, envelope.params)
            except Mismatch as error:
                self._refuse(id, InvalidParams(f"Invalid params of {method}: {error}"))
                return
            self._count += 1
            new_id = f"{OWN_TAGS}permission-{self._count}"
            params = permission_request_v1(request, new_id)
            self._transport.deliver(encode(Request(cast(Any, id), method, params)))
        elif id is None or method.startswith(("fs/", "terminal/")):
            error = (
                InvalidRequest("The id is null") if id is None else MethodNotFound(data={"method": method})
            )
            self._refuse(id, error)
        else:
            self._transport.deliver(frame)

    def send(self, frame: bytes) -> None:
        """Handle a frame of the client."""
        if is_response(frame):
            self._transport.transmit(frame)
            return
        envelope = parse_envelope(frame)
        id: Any = envelope.id
        if envelope.method is UNSET:
            self._transport.transmit(frame)
        elif id is UNSET:
            self._send_notification(envelope, frame)
        else:
            serve = self._requests.get(envelope.method)
            if serve is None:
                self._transport.transmit(frame)
                return
            try:
                serve(id, envelope.params)
            except (ValueError, NotJson) as error:
                self._transport.deliver(encode_failure(id, InvalidParams(str(error))))

    def _send_notification(self, envelope: Envelope, frame: bytes) -> None:
        if envelope.method != "$/cancel_request":
            self._transport.transmit(frame)
            return
        id = parse_json(envelope.params).get("requestId")
        for session_id, session in self._sessions.items():
            for prompt in session.prompts:
                if prompt.id == id and prompt.inserted:
                    self._notify_agent("session/cancel", {"sessionId": session_id})
                    return
        self._transport.transmit(frame)

    def ended(self) -> None:
        """The connection fails the open prompts."""

    # -- helpers ---------------------------------------------------------------------------------------------

    def _refuse(self, id: Any, error: RpcError) -> None:
        """Answer a request of the agent with an error."""
        self._transport.transmit(encode_failure(id, error))

    def _notify_agent(self, method: str, params: Any) -> None:
        self._transport.transmit(encode(Notification(method, params)))

    def _answer(self, id: Any, result: Any) -> None:
        """Answer a request of the client."""
        self._transport.deliver(encode(Success(id, result)))

    def _fail(self, id: Any, error: Any) -> None:
        self._transport.deliver(encode({"jsonrpc": "2.0", "id": id, "error": error}))

    def _call(self, id: Any, method: str, params: Any, read: Callable[[Raw], None]) -> None:
        """Call the agent under the client's own id; `read` handles the result, errors pass unchanged."""

        def answer(envelope: Envelope) -> None:
            if envelope.error is not ABSENT or envelope.result is ABSENT:
                self._fail(
                    id,
                    {"code": -32603, "message": "No result"} if envelope.error is ABSENT else envelope.error,
                )
                return
            try:
                read(envelope.result)
            except Mismatch as error:
                problem = InternalError(f"{method}: the result cannot be read: {error}")
                self._transport.deliver(encode_failure(id, problem))

        self._answers[id] = answer
        self._transport.transmit(encode(Request(id, method, params)))

    def _forward(self, id: Any, method: str, params: Raw) -> None:
        """Call a method that only has another name."""
        self._transport.transmit(encode(Request(id, method, {} if params is ABSENT else params)))

    def _session(self, session_id: str) -> AgentSessionV2:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = AgentSessionV2()
        return session

    def _deliver_update(self, session_id: str, update: Any) -> None:
        params = {"sessionId": session_id, "update": update}
        self._transport.deliver(encode(Notification("session/update", params)))

    # -- sessions --------------------------------------------------------------------------------------------

    def _new(self, id: Any, params: Raw) -> None:
        request = opening_v2(v2.NewSessionRequestV2, decode(NewSessionRequest, params))

        def read(result: Raw) -> None:
            response = decode(v2.NewSessionResponseV2, result)
            options = self._opened(response.session_id, response)
            self._answer(id, NewSessionResponse(response.session_id, UNSET, options, meta=response.meta))
            self._report_commands(response.session_id, response)

        self._call(id, "session/new", request, read)

    def _fork(self, id: Any, params: Raw) -> None:
        request = opening_v2(v2.ForkSessionRequestV2, decode(ForkSessionRequest, params))

        def read(result: Raw) -> None:
            response = decode(v2.ForkSessionResponseV2, result)
            options = self._opened(response.session_id, response)
            self._answer(id, ForkSessionResponse(response.session_id, UNSET, options, meta=response.meta))
            self._report_commands(response.session_id, response)

        self._call(id, "session/fork", request, read)

    def _load(self, id: Any, params: Raw) -> None:
        request = opening_v2(v2.ResumeSessionRequestV2, decode(LoadSessionRequest, params))
        request.replay_from = v2.ReplayFromStart()
        self._session(request.session_id).forget()
        self._streamed.pop(request.session_id, None)
        self._reopen(id, request, LoadSessionResponse)

    def _resume(self, id: Any, params: Raw) -> None:
        request = opening_v2(v2.ResumeSessionRequestV2, decode(ResumeSessionRequest, params))
        self._reopen(id, request, ResumeSessionResponse)

    def _reopen(self, id: Any, request: v2.ResumeSessionRequestV2, kind: Callable[..., Any]) -> None:
        def read(result: Raw) -> None:
            response = decode(v2.ResumeSessionResponseV2, result)
            options = self._opened(request.session_id, response)
            self._answer(id, kind(UNSET, options, meta=response.meta))
            self._report_commands(request.session_id, response)

        self._call(id, "session/resume", request, read)

    def _opened(self, session_id: str, response: Any) -> Any:
        session = self._session(session_id)
        if response.config_options is UNSET:
            return UNSET
        session.options = options_v1(response.config_options)
        return session.options

    def _report_commands(self, session_id: str, response: Any) -> None:
        if response.available_commands:
            commands = AvailableCommandsUpdate(commands_v1(response.available_commands))
            self._deliver_update(session_id, commands)

    def _close(self, id: Any, params: Raw) -> None:
        session_id = parse_json(params).get("sessionId")

        def answer(envelope: Envelope) -> None:
            self._sessions.pop(session_id, None)
            self._streamed.pop(session_id, None)
            error = None if envelope.error is ABSENT else parse_json(envelope.error)
            if error is not None and error.get("code") != -32002:  # closing what is closed succeeds
                self._fail(id, error)
            else:
                self._answer(id, {})

        self._answers[id] = answer
        self._transport.transmit(encode(Request(id, "session/close", params)))

    def _set_mode(self, id: Any, params: Raw) -> None:
        request = decode(SetSessionModeRequest, params)
        options = self._session(request.session_id).options
        mode = next(
            (item for item in options if isinstance(item, SessionConfigSelect) and item.category == MODE),
            None,
        )
        if mode is None:
            raise ValueError("the session has no option for the mode")
        change = v2.SetSessionConfigOptionRequestV2(request.session_id, mode.id, "id", request.mode_id)
        self._call(
            id, "session/set_config_option", change, lambda result: self._mode_set(id, request, result)
        )

    def _mode_set(self, id: Any, request: SetSessionModeRequest, result: Raw) -> None:
        options = self._options_set(request.session_id, result)
        self._deliver_update(
            request.session_id, {"sessionUpdate": "config_option_update", "configOptions": options}
        )
        self._answer(id, {})

    def _set_option(self, id: Any, params: Raw) -> None:
        request = decode(SetSessionConfigOptionRequest, params)
        kind = "boolean" if isinstance(request.value, bool) else "id"
        change = v2.SetSessionConfigOptionRequestV2(
            request.session_id, request.config_id, kind, request.value, meta=request.meta
        )

        def read(result: Raw) -> None:
            options = self._options_set(request.session_id, result)
            self._answer(id, SetSessionConfigOptionResponse(options))

        self._call(id, "session/set_config_option", change, read)

    def _options_set(self, session_id: str, result: Raw) -> list[SessionConfigOption]:
        options = options_v1(decode(v2.SetSessionConfigOptionResponseV2, result).config_options)
        self._session(session_id).options = options
        return options

    # -- prompts ---------------------------------------------------------------------------------------------

    def _prompt(self, id: Any, params: Raw) -> None:
        request = decode(PromptRequest, params)
        if not request.prompt:
            raise ValueError("prompt: version 2 needs at least one content block")
        blocks = [block_v2(block) for block in request.prompt]
        if blocks != request.prompt:
            params = Raw(encode(structs.replace(request, prompt=blocks)))
        session = self._session(request.session_id)
        told = accord_meta(request.meta) if self._events else {}
        prompt = SentPrompt(id, blocks, str(told.get("messageId") or ""), told.get("keepsId") is True)
        session.prompts.append(prompt)

        def answer(envelope: Envelope) -> None:
            if envelope.error is not ABSENT or envelope.result is ABSENT:
                session.prompts.remove(prompt)
                if _member(envelope.error, "code") == RequestCancelled.default_code:
                    self._answer(id, PromptResponse("cancelled"))
                else:
                    self._fail(id, _prompt_error(envelope))
                return
            prompt.inserted = True
            message_id = _member(envelope.result, "messageId")
            if prompt.key and not prompt.message_id:
                prompt.message_id = message_id if isinstance(message_id, str) else prompt.key
                self._tell_inserted(request.session_id, session, prompt)
            if prompt.idle is not None and message_id in (None, prompt.message_id):
                self._end_prompt(session, prompt, prompt.idle)
            prompt.idle = None

        self._answers[id] = answer
        self._transport.transmit(encode(Request(id, "session/prompt", params)))

    def _user_message(self, session_id: str, session: AgentSessionV2, message_id: str) -> None:
        """Assign a new user message to the first prompt that waits for its own."""
        for prompt in session.prompts:
            if prompt.message_id == message_id:
                return
            if not prompt.message_id:
                prompt.message_id = message_id
                session.own_messages.add(message_id)
                if prompt.key:
                    self._tell_inserted(session_id, session, prompt)
                return

    def _tell_inserted(self, session_id: str, session: AgentSessionV2, prompt: SentPrompt) -> None:
        """Tell a gateway that a prompt is in the conversation, and the id of its message."""
        session.gateway_prompts[prompt.message_id] = prompt
        event = to_builtins(TurnStarted([], prompt.key if prompt.keeps_key else prompt.message_id))
        self._deliver_update(session_id, {**event, PROMPT_KEY: prompt.key})

    def _idle(self, session: AgentSessionV2, update: v2.SessionStateUpdate) -> None:
        for prompt in list(session.prompts):
            if prompt.inserted:
                self._end_prompt(session, prompt, update)
            elif prompt.message_id:
                prompt.idle = update

    def _end_prompt(self, session: AgentSessionV2, prompt: SentPrompt, update: v2.SessionStateUpdate) -> None:
        session.prompts.remove(prompt)
        prompt.blocks = []  # it may hold images
        reason: Any = update.stop_reason or "end_turn"
        if reason == "error":
            error = update.error or v2.ErrorV2(InternalError.default_code, "The turn failed")
            self._fail(prompt.id, error)
        else:
            self._answer(prompt.id, PromptResponse(reason, update.usage or UNSET))

    # -- updates ---------------------------------------------------------------------------------------------

    def _receive_update(self, envelope: Envelope, frame: bytes) -> None:
        try:
            notification = decode(v2.UpdateSessionNotification, envelope.params)
        except Mismatch:
            self._transport.deliver(frame)  # the connection reports that it cannot be read
            return
        session_id = notification.session_id
        session = self._session(session_id)
        update: Any = notification.update
        if isinstance(update, Unknown) and update.kind.startswith(OWN_TAGS):
            return  # only this program itself sends events in place of updates
        if isinstance(update, v2.ConfigOptionUpdateV2):
            session.options = options_v1(update.config_options)
        for event in events_of(update):
            for item in self._inner_updates(session_id, session, event):
                self._deliver_update(session_id, item)
        if isinstance(update, v2.SessionStateUpdate) and session.ends_work(update):
            self._idle(session, update)

    def _inner_updates(self, session_id: str, session: AgentSessionV2, event: Event) -> list[Any]:
        """An event as updates of version 1, or as itself if they cannot express it."""
        if not self._events:
            return self._plain_updates(session_id, session, event)
        match event:
            case MessageChanged():
                return _without_prompt(session, event, self._message(session_id, session, event))
            case ToolCallChanged():
                return [_tool_call(session, event)]
            case PlanChanged():
                return list(updates_of(event))
            case _ if isinstance(event, MessageChunk):
                self._note_message(session_id, session, event)
                is_known = isinstance(event, UserMessageChunk) and event.message_id in session.gateway_prompts
                return [] if is_known else [event]
            case _:
                return [event]

    def _plain_updates(self, session_id: str, session: AgentSessionV2, event: Event) -> list[Any]:
        """An event as updates of version 1. What they cannot say is left out, or becomes text."""
        state = session.state
        if isinstance(event, Unknown) and not event.kind.startswith("_"):
            return []
        if isinstance(event, MessageChanged | MessageChunk):
            known = isinstance(event, MessageChanged) and (event.kind, event.message_id) in session.messages
            updates = (
                self._message(session_id, session, event) if isinstance(event, MessageChanged) else [event]
            )
            if isinstance(event, MessageChunk):
                self._note_message(session_id, session, event)
            return [] if known or event.message_id in session.own_messages else updates
        return [
            without_terminals(update, partial(terminal_text, state))
            if isinstance(update, ToolCall | ToolCallChange)
            else update
            for update in plain_updates(state.apply(event), state)
        ]

    def _note_message(self, session_id: str, session: AgentSessionV2, chunk: MessageChunk) -> None:
        kind = _CHUNK_KINDS[str(type(chunk).__struct_config__.tag)]
        message_id = chunk.message_id or ""
        if (kind, message_id) not in session.messages:
            session.messages.add((kind, message_id))
            if isinstance(chunk, UserMessageChunk):
                self._user_message(session_id, session, message_id)

    def _message(self, session_id: str, session: AgentSessionV2, event: MessageChanged) -> list[Any]:
        """A new message is sent in chunks, as in version 1; a change of a known one as an event."""
        key = (event.kind, event.message_id or "")
        if key in session.messages:
            return [structs.replace(event, replaces=True)]
        if event.content:
            session.messages.add(key)
            if event.kind == "user":
                self._user_message(session_id, session, key[1])
        return list(updates_of(event))


def _without_prompt(session: AgentSessionV2, event: MessageChanged, updates: list[Any]) -> list[Any]:
    """Leave out a prompt that the gateway knows, unless the agent has changed it."""
    prompt = session.gateway_prompts.get(event.message_id or "") if event.kind == "user" else None
    if prompt is None:
        return updates
    if event.content is UNSET or event.content == prompt.blocks:
        return []
    prompt.blocks = list(event.content or ())
    message_id = prompt.key if prompt.keeps_key else event.message_id
    return [MessageChanged("user", message_id, event.content, replaces=True)]


def _tool_call(session: AgentSessionV2, event: ToolCallChanged) -> Any:
    """A tool call as an update of version 1 if that says the same."""
    patch = event.patch
    new = patch.tool_call_id not in session.calls
    session.calls.add(patch.tool_call_id)
    if not is_plain(event):
        return structs.replace(event, announce=new, call=ToolCallState(""))
    members: dict[str, Any] = structs.asdict(patch)
    if not new:
        return ToolCallChange(**members)
    members["title"] = patch.title or patch.name or patch.tool_call_id
    return ToolCall(**members)


def _member(raw: Raw, name: str) -> Any:
    """A member of a JSON object; None if there is none. Older drafts leave out the id of a message."""
    value = None if raw is ABSENT else parse_json(raw)
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _prompt_error(envelope: Envelope) -> Any:
    if envelope.error is ABSENT:
        return {"code": InternalError.default_code, "message": "No result"}
    return envelope.error
