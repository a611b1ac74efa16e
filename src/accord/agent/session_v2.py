"""One session of an agent, as a client in version 2 sees it. Imported on first use.

Prompts are answered when their message is in the conversation; more of them wait for the running one. The
state says what the session does. Every message has an id, and the mode is a config option.
"""

import os
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from msgspec import UNSET, Raw, Struct

from accord.errors import InvalidRequest, RequestCancelled
from accord.schema import (
    ConfigOptionUpdate,
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
    Unknown,
    v2,
)
from accord.schema.codec import decode
from accord.session.config_options_v2 import OfferedOptions
from accord.session.events import (
    OWN_TAGS,
    Event,
    MessageChanged,
    MessageChunk,
    ModeChanged,
    StateChanged,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
    own_event,
)
from accord.session.protocol_v1 import event_of
from accord.session.protocol_v2 import MessageIds, background_v2, updates_of
from accord.session.requests_v2 import permission_request_v2
from accord.wire.envelope import ABSENT, Envelope

MAX_HELD: Final = 64
"""How many prompts of a session may wait for the running one."""
_CANCELLED: Final = {"code": RequestCancelled.default_code, "message": "Request cancelled"}
_WHOLE: Final[dict[type, Any]] = {
    v2.UserMessageChunkV2: v2.UserMessage,
    v2.AgentMessageChunkV2: v2.AgentMessage,
    v2.AgentThoughtChunkV2: v2.AgentThought,
}


class SessionLink(Protocol):
    """What a session needs of its connection."""

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the client."""
        ...

    def answer(self, id: Any, result: Any) -> None:
        """Answer a request of the client."""
        ...

    def fail(self, id: Any, error: Any) -> None:
        """Answer a request of the client with the `error` member of a response."""
        ...

    def call_agent(self, method: str, params: Any, ended: Callable[[Envelope], None]) -> str:
        """Call the agent and return the id of the request; `ended` gets the response."""
        ...

    def notify_agent(self, method: str, params: Any) -> None:
        """Send a notification to the agent."""
        ...


class HeldPrompt(Struct):
    """A prompt of the client that is not answered yet."""

    id: Any
    request: PromptRequest
    inner_id: str = ""
    """The id of the agent's request, once it has been sent."""
    inserted: bool = False


class SessionV2:
    """The state of one session, and what is sent about it."""

    def __init__(self, link: SessionLink, session_id: str) -> None:
        self.id: str = session_id
        self.open: bool = False
        """Whether the client has opened it; sub-agents have sessions that it has not."""
        self.closed: bool = False
        """Whether the client has closed it, and gets nothing more about it."""
        self.options: OfferedOptions = OfferedOptions()
        self.ids: MessageIds = MessageIds(f"msg-{os.urandom(6).hex()}")
        self.next_message_id: str = ""
        """The id of the running prompt's message, if the agent was told one."""
        self.chunk_start: bytes = b""
        """The line of the last chunk, up to its text."""
        self.silent: bool = False
        """Whether a replay goes on that the client did not ask for."""
        self.replayed: set[tuple[type, str]] | None = None
        """During a replay: the messages that have begun."""
        self._link = link
        self._state = "idle"
        self._background: Any = UNSET
        self._prompts: deque[HeldPrompt] = deque()
        self._running: HeldPrompt | None = None
        self._own_turn = False  # a turn that no prompt asked for
        self._cancelling = False
        self._questions: set[Any] = set()
        self._titles: dict[str, str] = {}

    # -- prompts ---------------------------------------------------------------------------------------------

    def add_prompt(self, id: Any, request: PromptRequest) -> None:
        """Send a prompt to the agent, after those before it. Raises InvalidRequest."""
        if len(self._prompts) >= MAX_HELD:
            raise InvalidRequest("Too many prompts wait in this session")
        self._prompts.append(HeldPrompt(id, request))
        self._start_prompt()

    def _start_prompt(self) -> None:
        if self._running is not None or self._own_turn or not self._prompts:
            return
        self._running = prompt = self._prompts.popleft()
        self._cancelling = False

        def ended(response: Envelope) -> None:
            self._prompt_ended(prompt, response)

        prompt.inner_id = self._link.call_agent("session/prompt", prompt.request, ended)

    def insert(self, message_id: str | None = None) -> None:
        """Report that the running prompt is in the conversation, unless that was done."""
        prompt = self._running
        if prompt is None or prompt.inserted or self._own_turn:
            return
        prompt.inserted = True
        message_id = message_id or self.next_message_id or self.ids.new()
        self.next_message_id = ""
        if self._state == "idle":
            self.report_state("running")
        self.report(v2.UserMessage(message_id, cast(Any, prompt.request.prompt)))
        self._link.answer(prompt.id, v2.PromptResponseV2(message_id))

    def _prompt_ended(self, prompt: HeldPrompt, response: Envelope) -> None:
        result = decode(PromptResponse, response.result) if response.error is ABSENT else None
        self._running, was_inserted = None, prompt.inserted
        if not was_inserted and (result is None or result.stop_reason == "cancelled"):
            self._link.fail(prompt.id, response.error if result is None else _CANCELLED)
        else:
            self._running, self._own_turn = prompt, False
            self.insert()
            self._running = None
            self._end_turn(result, response.error)
        self._start_prompt()

    def _end_turn(self, result: PromptResponse | None, error: Raw) -> None:
        self.ids.end()
        if result is not None:
            stop = result.stop_reason
            reason = stop.kind if isinstance(stop, Unknown) else stop
            self.report_state("idle", stop_reason=reason, usage=result.usage or UNSET)
        elif self._cancelling:
            self.report_state("idle", stop_reason="cancelled")
        else:
            self.report_state("idle", stop_reason="error", error=decode(v2.ErrorV2, error))

    def cancel(self) -> None:
        """End the prompts that wait. The agent itself ends the running one."""
        held, self._prompts = self._prompts, deque()
        for prompt in held:
            self._link.fail(prompt.id, _CANCELLED)
        self._cancelling = self._running is not None or self._own_turn

    def cancel_prompt(self, id: Any) -> bool:
        """Cancel one prompt unless it is in the conversation. Return whether it belongs to this session."""
        for prompt in self._prompts:
            if prompt.id == id:
                self._prompts.remove(prompt)
                self._link.fail(id, _CANCELLED)
                return True
        running = self._running
        if running is None or running.id != id:
            return False
        if not running.inserted:
            self._link.notify_agent("$/cancel_request", {"requestId": running.inner_id})
        return True

    # -- state and questions ---------------------------------------------------------------------------------

    def report(self, update: Any) -> None:
        """Send an update in the form of version 2."""
        self._link.notify("session/update", v2.UpdateSessionNotification(self.id, update))

    def report_state(self, state: str = "", **members: Any) -> None:
        """Send the state; without an argument the current one."""
        self._state = state or self._state
        if self._state == "idle":
            self._questions.clear()
        self.report(v2.SessionStateUpdate(self._state, background=self._background, **members))

    def asked(self, id: Any) -> None:
        """Note a question of the agent, for which the work waits."""
        self._questions.add(id)
        if self._state == "running":
            self.report_state("requires_action")

    def answered(self, id: Any) -> None:
        """Note its answer, which is late if the work has ended."""
        self._questions.discard(id)
        if not self._questions and self._state == "requires_action":
            self.report_state("running")

    def permission_request(self, request: RequestPermissionRequest) -> v2.RequestPermissionRequestV2:
        """A permission request in the form of version 2."""
        self.insert()
        call = request.tool_call
        if call.title:
            self._titles[call.tool_call_id] = call.title
        return permission_request_v2(request, self._titles.get(call.tool_call_id, ""))

    # -- updates ---------------------------------------------------------------------------------------------

    def stop_replay(self) -> None:
        """Note that no replay goes on any more."""
        self.silent, self.replayed = False, None

    def end_replay(self) -> None:
        """Report the state, as the end of a resumption requires."""
        self.stop_replay()
        if self._state == "idle":  # otherwise the last message may go on
            self.ids.end()
        self.report_state()

    def join_turn(self, *, report: bool = True) -> None:
        """Note that a turn runs which no prompt of this client asked for. Such a prompt waits for its end."""
        if not self._own_turn:
            self._own_turn = True
            self._state = "running"
            if report:
                self.report_state()

    def update(self, update: Any) -> None:
        """Send an update of the agent in the form of version 2."""
        own = isinstance(update, Unknown) and update.kind.startswith(OWN_TAGS)
        event = own_event(update) if own else event_of(update)
        if not self.closed and not self.turn_event(event) and not self.silent:
            self.insert()
            for item in self._updates(event):
                self.report(item)

    def turn_event(self, event: Event) -> bool:
        """Handle an event that is not sent as an update of its own. Return whether it was one."""
        match event:
            case TurnStarted() if self._running is not None:
                self.insert(event.message_id)
            case TurnStarted():
                self.join_turn()
                if event.prompt:
                    self.report(v2.UserMessage(event.message_id or self.ids.new(), cast(Any, event.prompt)))
            case TurnEnded() if self._own_turn:
                self._own_turn = False
                self.ids.end()
                self.report_state("idle", stop_reason=event.raw_reason or "error", error=_error(event))
                self._start_prompt()
            case StateChanged():
                background = background_v2(event.background)
                if background is not UNSET and background != self._background:
                    self._background = background
                    if self.replayed is None and not self.silent:  # its end reports the state
                        self.report_state()
            case TurnEnded():
                pass
            case _:
                return False
        return True

    def _updates(self, event: Event) -> list[Any]:
        if isinstance(event, ModeChanged):
            self.options.mode_changed(event.mode_id)
            return [v2.ConfigOptionUpdateV2(self.options.all_v2)]
        if isinstance(event, ConfigOptionUpdate):
            self.options.changed(event.config_options)
            return [v2.ConfigOptionUpdateV2(self.options.all_v2, meta=event.meta)]
        if isinstance(event, ToolCallChanged) and event.patch.title:
            self._titles[event.patch.tool_call_id] = event.patch.title
        updates = updates_of(event, self.ids)
        if self.replayed is not None and isinstance(event, MessageChunk | MessageChanged):
            updates = _with_beginnings(self.replayed, updates)
        return updates


def _with_beginnings(begun: set[tuple[type, str]], updates: list[Any]) -> list[Any]:
    """Let each replayed message begin empty, so that a second replay does not double it."""
    result: list[Any] = []
    for update in updates:
        whole = _WHOLE.get(update.__class__)
        if whole is not None and (whole, update.message_id) not in begun:
            begun.add((whole, update.message_id))
            result.append(whole(update.message_id, []))
        result.append(update)
    return result


def _error(event: TurnEnded) -> Any:
    return (
        UNSET if event.error is None else v2.ErrorV2(event.error.code, event.error.message, event.error.data)
    )
