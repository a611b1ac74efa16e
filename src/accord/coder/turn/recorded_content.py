"""Messages and tools in the form of the OpenTelemetry conventions for generative AI.

Imported only if the user switched the recording of content on.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from accord.coder.model_history import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThoughtPart,
    ToolResult,
    ToolUse,
    UserMessage,
    text_of,
)
from accord.coder.models.model import ModelRequest, StopCause, Stopped, ToolSpec

_FINISH_REASONS: Final[Mapping[StopCause, str]] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "refusal": "content_filter",
    "tool_use": "tool_call",
}


def system_instructions(request: ModelRequest) -> list[Any]:
    return [_text(request.system)]


def input_messages(request: ModelRequest) -> list[Any]:
    return [_message(message) for message in request.messages]


def output_messages(stopped: Stopped) -> list[Any]:
    return [{**_message(stopped.message), "finish_reason": _FINISH_REASONS[stopped.reason]}]


def tool_definitions(tools: Iterable[ToolSpec]) -> list[Any]:
    return [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.schema}
        for tool in tools
    ]


def _message(message: Message) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "parts": [_part(part) for part in message.parts]}
        case AssistantMessage():
            return {"role": "assistant", "parts": [_part(part) for part in message.parts]}
        case ToolResult():
            response = {"type": "tool_call_response", "id": message.id, "response": text_of(message)}
            return {"role": "tool", "parts": [response]}


def _part(part: Part | ThoughtPart | ToolUse) -> dict[str, Any]:
    match part:
        case TextPart():
            return _text(part.text)
        case ThoughtPart():
            return {"type": "reasoning", "content": part.text}
        case ToolUse():
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": part.arguments}
        case ImagePart():
            return _text(f"[image: {part.mime_type}]")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}
