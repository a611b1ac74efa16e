"""A session as a client sees it: what the agent says is read as from the wire, then taken in."""

from typing import Any

from accord.schema import (
    PromptResponse,
    RequestPermissionRequest,
    SessionNotification,
    TextContent,
)
from accord.schema.codec import read
from accord.session import (
    Event,
    Message,
    SessionState,
    ToolCallState,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
    v1,
)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


class Scene:
    def __init__(self) -> None:
        self.state = SessionState("s1", "/home/me/app", ["/home/me/lib"])

    def says(self, tag: str, **members: Any) -> Event:
        """One update of the agent, in the members' wire names."""
        params = {"sessionId": "s1", "update": {"sessionUpdate": tag, **members}}
        return self.state.apply(read(SessionNotification, params).update)

    def agent(self, words: str, message_id: str | None = None) -> Event:
        return self.says("agent_message_chunk", content=text(words), **_id(message_id))

    def thought(self, words: str, message_id: str | None = None) -> Event:
        return self.says("agent_thought_chunk", content=text(words), **_id(message_id))

    def user(self, words: str, message_id: str | None = None) -> Event:
        return self.says("user_message_chunk", content=text(words), **_id(message_id))

    def call(self, call_id: str, title: str = "Read", **members: Any) -> Event:
        return self.says("tool_call", toolCallId=call_id, title=title, **members)

    def patch(self, call_id: str, **members: Any) -> Event:
        return self.says("tool_call_update", toolCallId=call_id, **members)

    def asks(self, permission_id: str, **tool_call: Any) -> Event:
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": "s1", "toolCall": tool_call, "options": options}
        return self.state.apply(v1.permission_asked(permission_id, read(RequestPermissionRequest, params)))

    def prompts(self, words: str = "go") -> None:
        self.state.apply(TurnStarted([TextContent(text=words)]))

    def cancels(self) -> None:
        self.state.apply(TurnCancelling())

    def answers(self, reason: str = "end_turn", **members: Any) -> TurnEnded:
        event = v1.prompt_answered(read(PromptResponse, {"stopReason": reason, **members}))
        self.state.apply(event)
        return event

    def the_call(self, call_id: str) -> ToolCallState:
        return self.state.tool_calls[call_id]

    @property
    def spoken(self) -> list[tuple[str, str]]:
        """The messages as (kind, text)."""
        return [(message.kind, message.text) for message in self.state.messages]

    @property
    def order(self) -> list[str]:
        """The timeline in short: the text of messages, the names of the rest."""
        return [
            entry.text if isinstance(entry, Message) else type(entry).__name__
            for entry in self.state.timeline
        ]


def _id(message_id: str | None) -> dict[str, str]:
    return {} if message_id is None else {"messageId": message_id}
