"""OpenAI's responses, the format of its own server. Nothing is stored there: the history is sent every time.

https://platform.openai.com/docs/api-reference/responses
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from accord.coder.model_history import (
    AssistantMessage,
    Message,
    Part,
    TextPart,
    ThoughtPart,
    ToolResult,
    UserMessage,
)
from accord.coder.models.endpoints import Endpoint
from accord.coder.models.model import ModelEvent, ModelRequest, ToolSpec
from accord.coder.models.openai_models import (
    CACHE_MARK,
    CACHE_OPTIONS,
    OpenAIFormat,
    nearest_effort,
    openai_usage,
    strict_schema,
)
from accord.coder.models.provider_errors import failure_of_event
from accord.coder.models.wire_format import (
    AnswerReader,
    Finish,
    arguments_text,
    data_url,
    decode_event,
    details_of,
    has_images,
    result_text,
    text_of_parts,
)
from accord.coder.user_config import ModelFacts

_PHASES: Final = ("commentary", "final_answer")


class OpenAIResponsesFormat(OpenAIFormat):
    """Requests to one model as responses."""

    def __init__(self, endpoint: Endpoint, model: str, facts: ModelFacts) -> None:
        super().__init__(endpoint, model, facts)
        self.summaries: bool = bool(self.features.efforts)
        """Whether summaries of thoughts are requested. OpenAI refuses them to unverified organizations."""

    def path(self) -> str:
        return "/responses"

    def body(self, asked: ModelRequest, sees_images: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "stream": True,
            "store": False,
            "input": self._history(asked.messages, sees_images),
        }
        if asked.system.strip():
            if self.cache_marks:
                part = {"type": "input_text", "text": asked.system, "prompt_cache_breakpoint": CACHE_MARK}
                body["input"].insert(0, {"role": "system", "content": [part]})
            else:
                body["instructions"] = asked.system
        if self.cache_marks:
            body["prompt_cache_options"] = CACHE_OPTIONS
        if asked.cache_key and self.takes_cache_key:
            body["prompt_cache_key"] = asked.cache_key
        if asked.tools:
            body["tools"] = [_tool(tool) for tool in asked.tools]
        if self.facts.max_output is not None:
            body["max_output_tokens"] = self.facts.max_output
        if self.features.efforts:
            body["include"] = ["reasoning.encrypted_content"]
        if reasoning := self._reasoning(asked):
            body["reasoning"] = reasoning
        return body

    def reader(self) -> AnswerReader:
        return _ResponsesReader(self.endpoint)

    def _reasoning(self, asked: ModelRequest) -> dict[str, Any]:
        reasoning: dict[str, Any] = {}
        if asked.effort is not None and (effort := nearest_effort(asked.effort, self.features.efforts)):
            reasoning["effort"] = effort
        if self.features.keeps_thoughts:
            reasoning["context"] = "all_turns"
        if self.summaries and asked.effort != "off":
            reasoning["summary"] = "auto"
        return reasoning

    def _history(self, messages: Sequence[Message], sees_images: bool) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for message in messages:
            if isinstance(message, UserMessage):
                items.append({"role": "user", "content": _content(message.parts, sees_images)})
            elif isinstance(message, ToolResult):
                shown = has_images(message.parts, sees_images)
                output = (
                    _content(message.parts, True) if shown else result_text(message.parts, message.failed)
                )
                items.append({"type": "function_call_output", "call_id": message.id, "output": output})
            else:
                self._add_answer(items, message)
        return items

    def _add_answer(self, items: list[dict[str, Any]], message: AssistantMessage) -> None:
        own = self.owns(message)
        for part in message.parts:
            if isinstance(part, TextPart):
                item: dict[str, Any] = {"role": "assistant", "content": part.text}
                phase = details_of(part).get("phase")
                if own and self.features.keeps_thoughts and phase in _PHASES:
                    item["phase"] = phase
                items.append(item)
            elif isinstance(part, ThoughtPart):
                if own:
                    _add_thought(items, part)
            else:
                items.append(
                    {
                        "type": "function_call",
                        "call_id": part.id,
                        "name": part.name,
                        "arguments": arguments_text(part),
                    }
                )


def _add_thought(items: list[dict[str, Any]], part: ThoughtPart) -> None:
    """Add a thought that the server can use: an encrypted one, or a raw one."""
    opaque = part.opaque or {}
    details = details_of(part)
    raw = details.get("raw_content") or ([part.text] if details.get("raw") else [])
    summary = [{"type": "summary_text", "text": part.text}] if part.text and not raw else []
    last = items[-1] if items else {}
    if summary and last.get("type") == "reasoning" and last.get("id") == opaque.get("id"):
        last["summary"] += summary  # the next part of the same summary
    elif opaque.get("signature") or raw:
        item = {"type": "reasoning", "id": opaque.get("id"), "summary": summary}
        if raw:
            item["content"] = [{"type": "reasoning_text", "text": text} for text in raw]
        if signature := opaque.get("signature"):
            item["encrypted_content"] = signature
        items.append(item)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    strict = strict_schema(tool.schema)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": strict or tool.schema,
        "strict": strict is not None,
    }


def _content(parts: Sequence[Part], sees_images: bool) -> str | list[dict[str, Any]]:
    if not has_images(parts, sees_images):
        return text_of_parts(parts)
    return [
        {"type": "input_text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
        for part in parts
    ]


class _Item(Struct):
    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    encrypted_content: str | None = None
    phase: str | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _Response(Struct):
    id: Any = None
    model: Any = None
    status: str | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    incomplete_details: _Incomplete | None = None


class _Event(Struct):
    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: Any = None
    refusal: str | None = None
    item: _Item | None = None
    response: _Response | None = None
    error: dict[str, Any] | None = None
    code: Any = None
    message: str | None = None


_DECODER: Final[msgspec.json.Decoder[_Event]] = msgspec.json.Decoder(_Event)
_FINISHES: Final[dict[str, Finish]] = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "refusal",
    "cancelled": "error",
    "failed": "error",
}


class _ResponsesReader(AnswerReader):
    """Reads the events of a response."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._phases: dict[int | str, str] = {}

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        if data.strip() == b"[DONE]":
            self.done = True
            return
        event = decode_event(data, _DECODER)
        # The index comes first: some servers change the ids of items between events.
        item = event.output_index if event.output_index is not None else event.item_id or ""
        delta = event.delta if isinstance(event.delta, str) else ""
        match event.type:
            case "response.output_text.delta":
                key = (item, event.content_index)
                phase = {"phase": self._phases[item]} if item in self._phases else None
                if delta:
                    yield from self.add_text(key, delta, phase)
            case "response.reasoning_summary_text.delta":
                key = (item, event.summary_index or 0)
                yield from self.add_thought(key, delta, part_id=event.item_id or "")
            case "response.reasoning_text.delta":
                key, part_id = (item, 0), event.item_id or ""
                yield from self.add_thought(key, delta, part_id=part_id, details={"raw": True})
            case "response.function_call_arguments.delta":
                self.add_call(item, arguments=delta)
            case "response.refusal.delta" | "response.refusal.done":
                self.finish = "refusal"
                self.refusal_text = event.refusal or self.refusal_text + delta
            case "response.output_item.added" | "response.output_item.done" if event.item is not None:
                yield from self._item(item, event.item, is_done=event.type.endswith("done"))
            case "response.completed" | "response.incomplete" | "response.failed":
                self._end(event.response or _Response())
            case "error":
                raise failure_of_event(event.error or {"code": event.code, "message": event.message})
            case _:
                if event.error:
                    raise failure_of_event(event.error)

    def _item(self, key: int | str, item: _Item, *, is_done: bool) -> Iterator[ModelEvent]:
        if item.type == "function_call":
            self.add_call(key, call_id=item.call_id or "", name=item.name or "")
            self.replace_arguments(key, item.arguments or "")
        elif item.type == "reasoning" and is_done and item.encrypted_content:
            yield from self.add_thought((key, 0), "", part_id=item.id or "", signature=item.encrypted_content)
        elif item.type == "message" and item.phase in _PHASES:
            self._phases[key] = item.phase

    def _end(self, response: _Response) -> None:
        self.done = True
        self.identify(response.id, response.model)
        if response.usage:
            self.usage = openai_usage(response.usage, "input", "output")
        if response.status == "failed" and response.error:
            raise failure_of_event(response.error)
        if self.finish != "refusal":
            reason = response.incomplete_details.reason if response.incomplete_details else response.status
            self.finish_word = reason or ""
            self.finish = _FINISHES.get(self.finish_word)
