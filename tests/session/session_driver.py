"""Feeds a session state with messages in their wire form, as a client receives them."""

from typing import Any

from accord.schema import PromptResponse, RequestPermissionRequest, SessionNotification, TextContent
from accord.schema.codec import read
from accord.session import (
    Event,
    Message,
    SessionState,
    ToolCallState,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
    protocol_v1,
)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


class SessionDriver:
    def __init__(self) -> None:
        self.state = SessionState("s1", "/home/me/app", ["/home/me/lib"])

    def update(self, tag: str, **members: Any) -> Event:
        """Apply one update of the agent. The keyword arguments are its members, by their wire names."""
        params = {"sessionId": "s1", "update": {"sessionUpdate": tag, **members}}
        return self.state.apply(read(SessionNotification, params).update)

    def agent_text(self, words: str, message_id: str | None = None) -> Event:
        return self.update("agent_message_chunk", content=text(words), **_id(message_id))

    def thought_text(self, words: str, message_id: str | None = None) -> Event:
        return self.update("agent_thought_chunk", content=text(words), **_id(message_id))

    def user_text(self, words: str, message_id: str | None = None) -> Event:
        return self.update("user_message_chunk", content=text(words), **_id(message_id))

    def tool_call(self, call_id: str, title: str = "Read", **members: Any) -> Event:
        return self.update("tool_call", toolCallId=call_id, title=title, **members)

    def tool_call_update(self, call_id: str, **members: Any) -> Event:
        return self.update("tool_call_update", toolCallId=call_id, **members)

    def ask_permission(self, permission_id: str, **tool_call: Any) -> Event:
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": "s1", "toolCall": tool_call, "options": options}
        return self.state.apply(
            protocol_v1.permission_event(permission_id, read(RequestPermissionRequest, params))
        )

    def start_turn(self, words: str = "go") -> None:
        self.state.apply(TurnStarted([TextContent(text=words)]))

    def cancel_turn(self) -> None:
        self.state.apply(TurnCancelling())

    def end_turn(self, reason: str = "end_turn", **members: Any) -> TurnEnded:
        event = protocol_v1.turn_ended_event(read(PromptResponse, {"stopReason": reason, **members}))
        self.state.apply(event)
        return event

    def call_state(self, call_id: str) -> ToolCallState:
        return self.state.tool_calls[call_id]

    @property
    def message_texts(self) -> list[tuple[str, str]]:
        """All messages as (kind, text)."""
        return [(message.kind, message.text) for message in self.state.messages]

    @property
    def timeline_summary(self) -> list[str]:
        """The timeline in short: the text of a message, the class name of any other item."""
        return [
            entry.text if isinstance(entry, Message) else type(entry).__name__
            for entry in self.state.timeline
        ]


def _id(message_id: str | None) -> dict[str, str]:
    return {} if message_id is None else {"messageId": message_id}
