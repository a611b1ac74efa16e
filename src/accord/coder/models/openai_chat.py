"""OpenAI's chat completions, the format of most compatible and local servers.

https://platform.openai.com/docs/api-reference/chat
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from accord.coder.model_history import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolResult,
    ToolUse,
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

_THOUGHT_FIELDS: Final = ("reasoning_content", "reasoning")
"""Members in which servers send thoughts. A thought goes back in the member it came in."""
_THINK_TAGS: Final = ("<think>", "</think>")


class OpenAIChatFormat(OpenAIFormat):
    """Requests to one model as chat completions."""

    def path(self) -> str:
        return "/chat/completions"

    def body(self, asked: ModelRequest, sees_images: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [*self._system(asked.system), *self._history(asked.messages, sees_images)],
        }
        if asked.tools:
            body["tools"] = [self._tool(tool) for tool in asked.tools]
        if self.facts.max_output is not None:
            body["max_completion_tokens"] = self.facts.max_output
        efforts = tuple(level for level in self.features.efforts if level != "max")  # only responses have it
        if asked.effort is not None and (effort := nearest_effort(asked.effort, efforts)):
            body["reasoning_effort"] = effort
        if self.cache_marks:
            body["prompt_cache_options"] = CACHE_OPTIONS
        if asked.cache_key and self.takes_cache_key:
            body["prompt_cache_key"] = asked.cache_key
        return body

    def reader(self) -> AnswerReader:
        return _ChatReader(self.endpoint)

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        function: dict[str, Any] = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
        }
        if self.endpoint.base_url is None and (
            strict := strict_schema(tool.schema)
        ):  # some servers refuse `strict`
            function |= {"parameters": strict, "strict": True}
        return {"type": "function", "function": function}

    def _system(self, text: str) -> list[dict[str, Any]]:
        if not text.strip():
            return []
        if self.cache_marks:
            part = {"type": "text", "text": text, "prompt_cache_breakpoint": CACHE_MARK}
            return [{"role": "system", "content": [part]}]
        return [{"role": "user" if self.name.startswith("o1-mini") else "system", "content": text}]

    def _history(self, messages: Sequence[Message], sees_images: bool) -> list[dict[str, Any]]:
        history: list[dict[str, Any]] = []
        images: list[dict[str, Any]] = []
        """Images of the tool results before: only user messages can hold them."""
        for message in messages:
            if images and not isinstance(message, ToolResult):
                history.append({"role": "user", "content": images})
                images = []
            if isinstance(message, UserMessage):
                history.append({"role": "user", "content": _content(message.parts, sees_images)})
            elif isinstance(message, ToolResult):
                shown = has_images(message.parts, sees_images)
                text = result_text(
                    message.parts,
                    message.failed,
                    "[image: {}, in the next message]" if shown else "[image: {}]",
                )
                history.append({"role": "tool", "tool_call_id": message.id, "content": text})
                if shown:
                    images.append({"type": "text", "text": f"Images of the result of {message.id}:"})
                    images += [_image(part) for part in message.parts if isinstance(part, ImagePart)]
            else:
                history.append(self._answer(message))
        if images:
            history.append({"role": "user", "content": images})
        _fill_thought_field(history)
        return history

    def _answer(self, message: AssistantMessage) -> dict[str, Any]:
        own = self.owns(message)
        answer: dict[str, Any] = {"role": "assistant"}
        texts: list[str] = []
        calls: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                texts.append(part.text)
            elif isinstance(part, ToolUse):
                calls.append(_call(part, own))
            elif own:
                field = (part.opaque or {}).get("id")
                if field in _THOUGHT_FIELDS:
                    answer[field] = answer.get(field, "") + part.text
                elif field == "content":
                    texts.append(f"{_THINK_TAGS[0]}\n{part.text}\n{_THINK_TAGS[1]}")
        answer["content"] = "\n\n".join(texts) or None
        if calls:
            answer["tool_calls"] = calls
        return answer


def _call(use: ToolUse, own: bool) -> dict[str, Any]:
    call: dict[str, Any] = {
        "id": use.id,
        "type": "function",
        "function": {"name": use.name, "arguments": arguments_text(use)},
    }
    if own and (extra := details_of(use).get("extra_content")):
        call["extra_content"] = extra  # Gemini's signature in this format
    return call


def _fill_thought_field(history: list[dict[str, Any]]) -> None:
    """Give every answer with tool calls the member for thoughts that others have: DeepSeek requires it."""
    fields = {field for message in history for field in _THOUGHT_FIELDS if field in message}
    if len(fields) == 1:
        (field,) = fields
        for message in history:
            if "tool_calls" in message:
                message.setdefault(field, "")


def _content(parts: Sequence[Part], sees_images: bool) -> str | list[dict[str, Any]]:
    if not has_images(parts, sees_images):
        return text_of_parts(parts)
    return [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else _image(part) for part in parts
    ]


def _image(part: ImagePart) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


class _Function(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None  # some servers send an object


class _ToolCall(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Delta(Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(Struct):
    id: Any = None
    model: Any = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_DECODER: Final[msgspec.json.Decoder[_Chunk]] = msgspec.json.Decoder(_Chunk)
_FINISHES: Final[dict[str, Finish]] = {
    "length": "length",
    "model_length": "length",
    "content_filter": "refusal",
    "error": "error",
}
"""Other words, of which compatible servers have many, mean a complete answer."""


class _ChatReader(AnswerReader):
    """Reads the chunks of a chat completion."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._tags = _ThinkTags()
        self._call_keys: dict[int, int] = {}
        """The part of each open tool call, by the call's index."""
        self._calls = 0
        if not endpoint.finish_reason:
            self.finish = "stop"

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        if data.strip() == b"[DONE]":
            yield from self._text(*self._tags.end())
            self.done = True
            return
        chunk = decode_event(data, _DECODER)
        if chunk.error:
            raise failure_of_event(chunk.error)
        self.identify(chunk.id, chunk.model)
        if chunk.usage:
            self.usage = openai_usage(chunk.usage, "prompt", "completion")
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        if choice.delta is not None:
            yield from self._delta(choice.delta)
        if choice.finish_reason:
            yield from self._text(*self._tags.end())
            if not self.refusal_text:
                self.finish = _FINISHES.get(choice.finish_reason, "stop")
                self.finish_word = choice.finish_reason

    def _delta(self, delta: _Delta) -> Iterator[ModelEvent]:
        if delta.refusal:
            self.refusal_text += delta.refusal
            self.finish = "refusal"
        for field in _THOUGHT_FIELDS:
            thought = getattr(delta, field)
            if isinstance(thought, str) and thought:
                yield from self.add_thought(self.run_key(field), thought, part_id=field)
                break
        if text := _joined(delta.content):
            yield from self._text(*self._tags.split(text))
        for call in delta.tool_calls or ():
            self._add_call(call)

    def _text(self, thought: str, text: str) -> Iterator[ModelEvent]:
        if thought:
            yield from self.add_thought(self.run_key("think"), thought, part_id="content")
        if text:
            yield from self.add_text(self.run_key("text"), text)

    def _add_call(self, call: _ToolCall) -> None:
        """Add a piece of a tool call.

        Some servers send no index, or the same one for all calls: then a new id begins a new call.
        """
        self.end_run()
        index = call.index or 0
        key = self._call_keys.get(index)
        if call.index is None and not call.id and self._calls:
            key = self._calls - 1
        elif key is None or (call.id and self.call_id(key) not in ("", call.id)):
            key = self._call_keys[index] = self._calls
            self._calls += 1
        function = call.function or _Function()
        self.add_call(
            key,
            call_id=call.id or "",
            name=function.name or "",
            arguments=function.arguments or "",
            details={"extra_content": call.extra_content} if call.extra_content else None,
        )


class _ThinkTags:
    """Splits the thoughts that local models write between `<think>` tags at the beginning of their text."""

    def __init__(self) -> None:
        self._open: bool | None = None
        """Whether the text is between the tags; None as long as it may still begin with the first."""
        self._held: str = ""
        """Text that may be the beginning of a tag."""
        self._over = False

    def split(self, text: str) -> tuple[str, str]:
        """Return the thought and the text in the next piece of text."""
        if self._over:
            return "", text
        text, self._held = self._held + text, ""
        if self._open is None:
            start = text.lstrip()
            if start.startswith(_THINK_TAGS[0]):
                self._open, text = True, start[len(_THINK_TAGS[0]) :]
            elif _THINK_TAGS[0].startswith(start):
                self._held = text
                return "", ""
            else:
                self._over = True
                return "", text
        thought, end, rest = text.partition(_THINK_TAGS[1])
        if end:
            self._over = True
            return thought, rest
        for size in range(min(len(_THINK_TAGS[1]) - 1, len(text)), 0, -1):
            if text.endswith(_THINK_TAGS[1][:size]):
                self._held = text[-size:]
                return text[:-size], ""
        return text, ""

    def end(self) -> tuple[str, str]:
        """Return the held thought and text at the end of the answer."""
        held, self._held = self._held, ""
        return (held, "") if self._open and not self._over else ("", held)


def _joined(content: Any) -> str:
    """Return the text of a delta; some servers send a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [cast(dict[str, Any], part) for part in cast(list[Any], content) if isinstance(part, dict)]
    return "".join(text for part in parts if isinstance(text := part.get("text"), str))
