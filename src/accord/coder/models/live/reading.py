"""pydantic-ai's stream of an answer, as our events."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from pydantic_ai import messages as theirs
from pydantic_ai.models import StreamedResponse

from accord.coder.messages import (
    AnswerPart,
    AssistantMessage,
    Opaque,
    TextPart,
    ThoughtPart,
    ToolUse,
    too_deep,
)
from accord.coder.models.model import (
    ModelError,
    ModelEvent,
    StopCause,
    Stopped,
    TextDelta,
    ThoughtDelta,
    Usage,
)


def delta_of(event: theirs.ModelResponseStreamEvent) -> TextDelta | ThoughtDelta | None:
    """The piece of text or thought that an event brings, if it brings one."""
    if isinstance(event, theirs.PartStartEvent):
        if isinstance(event.part, theirs.TextPart) and event.part.content:
            return TextDelta(_clean(event.part.content))
        if isinstance(event.part, theirs.ThinkingPart) and event.part.content:
            gap = "\n\n" if event.previous_part_kind == "thinking" else ""
            return ThoughtDelta(gap + _clean(event.part.content))
    elif isinstance(event, theirs.PartDeltaEvent):
        if isinstance(event.delta, theirs.TextPartDelta) and event.delta.content_delta:
            return TextDelta(_clean(event.delta.content_delta))
        if isinstance(event.delta, theirs.ThinkingPartDelta) and event.delta.content_delta:
            return ThoughtDelta(_clean(event.delta.content_delta))
    return None


def ending_of(response: StreamedResponse, label: str) -> Iterator[ModelEvent]:
    """What follows the last delta: the tool uses, the usage and the whole answer. Raises ModelError if it was cut off."""
    whole = response.get()
    if whole.finish_reason is None or (whole.state == "incomplete" and whole.finish_reason != "length"):
        raise ModelError("network", f"{label}: the answer ended too early")
    if whole.finish_reason == "error":
        said = (whole.provider_details or {}).get("finish_reason", "error")
        raise ModelError("other", f"{label}: the provider broke off the answer ({said})")
    parts = list(_parts(whole))
    message = AssistantMessage(
        tuple(parts),
        whole.provider_name,
        {"system": whole.canonical_system} if whole.canonical_system else None,
    )
    uses = [part for part in parts if isinstance(part, ToolUse)]
    yield from uses
    if usage := usage_of(response):
        yield usage
    yield Stopped(_reason(whole.finish_reason, bool(uses)), message, _note(whole))


def usage_of(response: StreamedResponse) -> Usage | None:
    """The tokens that the provider has reported so far."""
    usage = response.usage
    if not (usage.input_tokens or usage.output_tokens):
        return None
    details = usage.details
    return Usage(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cached_read=usage.cache_read_tokens,
        cached_write=usage.cache_write_tokens,
        thought=details.get("reasoning_tokens") or details.get("thoughts_tokens") or 0,
    )


def _reason(finish: theirs.FinishReason, calls: bool) -> StopCause:
    if finish == "length":
        return "max_tokens"
    if finish == "content_filter":
        return "refusal"
    return "tool_use" if calls else "end_turn"


def _note(whole: theirs.ModelResponse) -> str:
    if whole.finish_reason != "content_filter":
        return ""
    details = whole.provider_details or {}
    return _clean(
        str(
            details.get("refusal")
            or details.get("block_reason_message")
            or details.get("finish_reason")
            or ""
        )
    )


def _parts(whole: theirs.ModelResponse) -> Iterator[AnswerPart]:
    """The parts, ready to be kept. Of the ids of items only those of thoughts: OpenAI refuses a history in which the
    item of an id lacks its neighbours, and nothing but the seal of a thought needs its id."""
    taken: set[str] = set()
    for part in whole.parts:
        if isinstance(part, theirs.TextPart):
            yield TextPart(_clean(part.content), _opaque(None, None, part.provider_details))
        elif isinstance(part, theirs.ThinkingPart):
            yield ThoughtPart(_clean(part.content), _opaque(part.id, part.signature, part.provider_details))
        elif isinstance(part, theirs.ToolCallPart):
            use_id, number = part.tool_call_id, 1
            while use_id in taken:
                use_id, number = f"{part.tool_call_id}-{number + 1}", number + 1
            taken.add(use_id)
            yield ToolUse(
                use_id, part.tool_name, _arguments(part.args), _opaque(None, None, part.provider_details)
            )


def _arguments(args: object) -> dict[str, Any] | str:
    """The arguments as an object, or as the text that came where that is none."""
    if not args:
        return {}
    if isinstance(args, str):
        try:
            value: Any = msgspec.json.decode(args)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return _clean(args)
        return cast(dict[str, Any], value) if _is_plain_object(value) else _clean(args)
    return cast(dict[str, Any], args) if _is_plain_object(args) else "(arguments that cannot be kept)"


def _opaque(part_id: str | None, signature: str | None, details: dict[str, Any] | None) -> Opaque | None:
    opaque: Opaque = {
        "id": part_id,
        "signature": signature,
        "details": details if _is_plain(details) else None,
    }
    return {name: value for name, value in opaque.items() if value} or None


def _is_plain_object(value: Any) -> bool:
    return isinstance(value, dict) and _is_plain(value)


def _is_plain(value: Any) -> bool:
    """Whether the log can keep it."""
    if too_deep(value):
        return False
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _clean(text: str) -> str:
    """The text without halves of characters, which no JSON may carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
