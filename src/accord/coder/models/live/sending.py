"""Our history, tools and settings, as pydantic-ai's requests."""

from collections.abc import Sequence
from typing import Any

from pydantic_ai import messages as theirs
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from accord.coder.messages import (
    AnswerPart,
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThoughtPart,
    ToolResult,
    UserMessage,
)
from accord.coder.models.model import ModelRequest

NO_OUTPUT = "(no output)"


def history_of(messages: Sequence[Message], sees_images: bool) -> list[theirs.ModelMessage]:
    """The history. What stands between two answers is one request: results first, then what was said."""
    history: list[theirs.ModelMessage] = []
    parts: list[theirs.ModelRequestPart] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            if parts:
                history.append(theirs.ModelRequest(parts))
                parts = []
            history.append(_answer(message))
        elif isinstance(message, UserMessage):
            parts.append(theirs.UserPromptPart(_content(message.parts, sees_images)))
        else:
            parts.append(_result(message, sees_images))
    if parts:
        history.append(theirs.ModelRequest(parts))
    return history


def parameters_of(request: ModelRequest) -> ModelRequestParameters:
    """The instructions and the tools."""
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema)
        for tool in request.tools
    ]
    instructions = [theirs.InstructionPart(content=request.system)] if request.system.strip() else None
    return ModelRequestParameters(function_tools=tools, instruction_parts=instructions)


def _content(parts: Sequence[Part], sees_images: bool) -> str | list[str | theirs.BinaryContent]:
    """The parts; as one text where they are no more than that."""
    if sees_images and any(isinstance(part, ImagePart) for part in parts):
        return [
            part.text
            if isinstance(part, TextPart)
            else theirs.BinaryContent(data=part.data, media_type=part.mime_type)
            for part in parts
        ]
    return "\n\n".join(
        part.text if isinstance(part, TextPart) else f"[image: {part.mime_type}]" for part in parts
    )


def _result(message: ToolResult, sees_images: bool) -> theirs.ToolReturnPart:
    return theirs.ToolReturnPart(
        tool_name=message.name,
        content=_content(message.parts, sees_images) or NO_OUTPUT,
        tool_call_id=message.id,
        outcome="failed" if message.failed else "success",
    )


def _answer(message: AssistantMessage) -> theirs.ModelResponse:
    return theirs.ModelResponse(
        parts=[_answer_part(part, message.provider) for part in message.parts],
        provider_name=message.provider,
        canonical_system=(message.opaque or {}).get("system"),
    )


def _answer_part(part: AnswerPart, provider: str | None) -> theirs.ModelResponsePart:
    opaque = part.opaque or {}
    sealed: dict[str, Any] = {}
    if opaque:
        sealed = {
            "id": opaque.get("id"),
            "provider_name": provider,
            "provider_details": opaque.get("details"),
        }
    if isinstance(part, TextPart):
        return theirs.TextPart(part.text, **sealed)
    if isinstance(part, ThoughtPart):
        return theirs.ThinkingPart(part.text, signature=opaque.get("signature"), **sealed)
    return theirs.ToolCallPart(part.name, part.arguments, part.id, **sealed)
