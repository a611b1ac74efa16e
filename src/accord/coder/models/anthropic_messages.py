"""Anthropic's messages.

https://platform.claude.com/docs/en/api/messages
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

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
from accord.coder.models.model import Effort, ModelEvent, ModelRequest, RequestUsage
from accord.coder.models.provider_errors import failure_of_event
from accord.coder.models.wire_format import (
    AnswerReader,
    Finish,
    WireFormat,
    arguments_object,
    base64_of,
    count,
    decode_event,
    google_headers,
    has_images,
    members_of,
    result_text,
    text_of_parts,
)
from accord.coder.user_config import ModelFacts

_VERSION: Final = "2026-10-21"
_CACHE_MARK: Final = {"type": "ephemeral"}
_REDACTED: Final = "redacted_thinking"

_BUDGETS: Final[dict[Effort, int]] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 10_000,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
"""Tokens of thinking, for models before adaptive thinking."""
_ANSWER_TOKENS: Final = 4096
"""Tokens that remain for the answer beside the budget of thinking."""


class ClaudeModel:
    """What a model accepts, by the family and version in its name."""

    def __init__(self, name: str) -> None:
        found = re.search(r"claude-(?:([a-z]+)-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)(?:-([a-z]+))?", name)
        self.is_claude: bool = found is not None or "claude" in name
        self._family: str = (found[1] or found[4] or "") if found else ""
        numbers = (found[2], found[3] or "0") if found else ("0", "0")
        self._version: tuple[int, int] = (int(numbers[0]), int(numbers[1]))
        self._adaptive: bool = self._version >= (4, 6)
        self._no_budget: bool = self._version >= (5, 0) or (
            self._family == "opus" and self._version >= (4, 7)
        )

    @property
    def max_output(self) -> int:
        """The largest answer that can be requested."""
        if self._adaptive:
            return 128_000
        if self._version == (4, 5):
            return 64_000
        # Older models refuse a limit that does not fit into the context beside the prompt.
        return 4096 if self.is_claude else 16_384

    def thinking(self, effort: Effort | None) -> dict[str, Any]:
        """The members of a request that ask for this level."""
        if effort is None:
            return {}
        if effort == "off":
            return self._thinking_off()
        members: dict[str, Any] = {}
        if self._adaptive:
            members["thinking"] = {"type": "adaptive"}
        else:
            members["thinking"] = {"type": "enabled", "budget_tokens": _BUDGETS[effort]}
        if self._adaptive or (self._family, self._version) == ("opus", (4, 5)):
            members["output_config"] = {"effort": self._effort(effort)}
        return members

    def _effort(self, effort: Effort) -> str:
        if effort == "minimal":
            return "low"
        if effort in ("xhigh", "max"):
            if not self._adaptive:
                return "high"
            return effort if self._no_budget else "max"
        return effort

    def _thinking_off(self) -> dict[str, Any]:
        """Turn thinking off, where a model thinks by default and this is possible."""
        if self._version < (5, 0):
            return {}
        if self._family in ("fable", "mythos") or (self._family == "opus" and self._version >= (5, 5)):
            return {}
        if self._family == "sonnet" and self._version >= (5, 5):
            return {"thinking": {"type": "between_tools"}}
        return {"thinking": {"type": "disabled"}}


class AnthropicFormat(WireFormat):
    """Requests to one model as messages."""

    official_address: str = "https://api.anthropic.com"
    list_path: str = "/v1/models?limit=1000"

    def __init__(self, endpoint: Endpoint, model: str, facts: ModelFacts) -> None:
        super().__init__(endpoint, model, facts)
        self._model = ClaudeModel(model)

    def path(self) -> str:
        return "/v1/messages"

    def headers(self) -> dict[str, str]:
        headers = {"anthropic-version": _VERSION}
        if self.endpoint.key is not None:
            headers["authorization"] = f"Bearer {self.endpoint.key.reveal()}"
        return headers

    def body(self, asked: ModelRequest, sees_images: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "stream": True,
            "messages": self._history(asked.messages, sees_images),
            **self._limits(asked.effort),
        }
        if asked.system.strip():
            body["system"] = [{"type": "text", "text": asked.system, "cache_control": _CACHE_MARK}]
        if asked.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in asked.tools
            ]
            body["tools"][-1]["cache_control"] = _CACHE_MARK
        users = [message["content"][-1] for message in body["messages"] if message["role"] == "user"]
        if len(users) > 1 and users[-2].get("text", "-"):  # an empty text cannot be marked
            # The server looks only some blocks back from a mark for an earlier one: a step with many results
            # would lose the cache of everything before it.
            users[-2]["cache_control"] = _CACHE_MARK
        if self.endpoint.base_url is None:
            body["cache_control"] = _CACHE_MARK  # the server marks the end of the history
        else:
            # Compatible servers support marks on blocks, but not always the automatic one.
            body["messages"][-1]["content"][-1]["cache_control"] = _CACHE_MARK
        return body

    def reader(self) -> AnswerReader:
        return _MessagesReader(self.endpoint)

    def _limits(self, effort: Effort | None) -> dict[str, Any]:
        members = self._model.thinking(effort)
        limit = self.facts.max_output or self._model.max_output
        thinking = members_of(members.get("thinking"))
        if budget := count(thinking.get("budget_tokens")):
            if self.facts.max_output is None:
                limit = max(limit, budget + _ANSWER_TOKENS)
            elif budget >= limit:
                if limit <= _BUDGETS["minimal"]:
                    members.pop("thinking")
                else:
                    thinking["budget_tokens"] = limit - 1
        return {"max_tokens": limit, **members}

    def _history(self, messages: Sequence[Message], sees_images: bool) -> list[dict[str, Any]]:
        """Convert the history. All messages between two answers become one."""
        history: list[dict[str, Any]] = []
        for message in messages:
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            if isinstance(message, AssistantMessage):
                blocks = self._answer(message)
            elif isinstance(message, UserMessage):
                blocks = _content(message.parts, sees_images)
            else:
                blocks = [_result(message, sees_images)]
            if history and history[-1]["role"] == role:
                history[-1]["content"] += blocks
            elif blocks:
                history.append({"role": role, "content": blocks})
        return history

    def _answer(self, message: AssistantMessage) -> list[dict[str, Any]]:
        own = self.owns(message)
        blocks: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                blocks.append({"type": "text", "text": part.text})
            elif not isinstance(part, ThoughtPart):
                block = {
                    "type": "tool_use",
                    "id": part.id,
                    "name": part.name,
                    "input": arguments_object(part),
                }
                blocks.append(block)
            elif own and (signature := (part.opaque or {}).get("signature")):
                if (part.opaque or {}).get("id") == _REDACTED:
                    blocks.append({"type": _REDACTED, "data": signature})
                else:
                    blocks.append({"type": "thinking", "thinking": part.text, "signature": signature})
        return blocks


class VertexAnthropicFormat(AnthropicFormat):
    """Requests to Claude at Vertex: the model is in the path, the version in the body."""

    def path(self) -> str:
        return f"/publishers/anthropic/models/{quote(self.name)}:streamRawPredict"

    def headers(self) -> dict[str, str]:
        return google_headers(self.endpoint)

    def body(self, asked: ModelRequest, sees_images: bool) -> dict[str, Any]:
        body = super().body(asked, sees_images)
        del body["model"]
        return {"anthropic_version": "vertex-2023-10-16", **body}


def _result(message: ToolResult, sees_images: bool) -> dict[str, Any]:
    if has_images(message.parts, sees_images):
        content = _content(message.parts, True)
    else:
        content = [{"type": "text", "text": result_text(message.parts, False)}]
    return {"type": "tool_result", "tool_use_id": message.id, "content": content, "is_error": message.failed}


def _content(parts: Sequence[Part], sees_images: bool) -> list[dict[str, Any]]:
    if not has_images(parts, sees_images):
        return [{"type": "text", "text": text_of_parts(parts)}]
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {
            "type": "image",
            "source": {"type": "base64", "media_type": part.mime_type, "data": base64_of(part)},
        }
        for part in parts
    ]


class _Block(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class _StopDetails(Struct):
    explanation: str | None = None


class _Delta(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Message(Struct):
    id: Any = None
    model: Any = None
    usage: dict[str, Any] | None = None


class _Event(Struct):
    type: str = ""
    index: int | None = None
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_DECODER: Final[msgspec.json.Decoder[_Event]] = msgspec.json.Decoder(_Event)
_FINISHES: Final[dict[str, Finish]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class _MessagesReader(AnswerReader):
    """Reads the events of a message."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._tokens: dict[str, Any] = {}

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        event = decode_event(data, _DECODER)
        match event.type:
            case "message_start" if event.message is not None:
                self.identify(event.message.id, event.message.model)
                self._count(event.message.usage)
            case "content_block_start" if event.content_block is not None:
                yield from self._start(event.index, event.content_block)
            case "content_block_delta" if event.delta is not None:
                yield from self._delta(event.index, event.delta)
            case "message_delta":
                self._count(event.usage)
                self._finish(event.delta or _Delta())
            case "message_stop":
                self.done = True
            case _:
                if event.type == "error" or event.error:
                    raise failure_of_event(event.error)

    def _start(self, index: int | None, block: _Block) -> Iterator[ModelEvent]:
        if block.type == "text":
            yield from self.add_text(index, block.text or "")
        elif block.type == "thinking":
            yield from self.add_thought(index, block.thinking or "", signature=block.signature or "")
        elif block.type == _REDACTED:
            yield from self.add_thought(index, "", part_id=_REDACTED, signature=block.data or "")
        elif block.type == "tool_use":
            arguments = members_of(block.input)
            self.add_call(index, call_id=block.id or "", name=block.name or "", arguments=arguments or "")

    def _delta(self, index: int | None, delta: _Delta) -> Iterator[ModelEvent]:
        if delta.text:
            yield from self.add_text(index, delta.text)
        elif delta.thinking or delta.signature:
            yield from self.add_thought(index, delta.thinking or "", signature=delta.signature or "")
        elif delta.partial_json and self.call_id(index) is not None:
            self.add_call(index, arguments=delta.partial_json)

    def _finish(self, delta: _Delta) -> None:
        if delta.stop_reason:
            self.finish_word = delta.stop_reason
            # A paused answer is one that the server wants to continue: it is not complete.
            self.finish = (
                None if delta.stop_reason == "pause_turn" else _FINISHES.get(delta.stop_reason, "stop")
            )
        if delta.stop_details is not None:
            self.refusal_text = delta.stop_details.explanation or ""

    def _count(self, usage: dict[str, Any] | None) -> None:
        """Take over the tokens. Those at the end replace those at the beginning."""
        self._tokens |= {name: value for name, value in (usage or {}).items() if value is not None}
        read = count(self._tokens.get("cache_read_input_tokens"))
        written = count(self._tokens.get("cache_creation_input_tokens"))
        tokens = RequestUsage(
            input=count(self._tokens.get("input_tokens")) + read + written,
            output=count(self._tokens.get("output_tokens")),
            cached_read=read,
            cached_write=written,
            thought=count(members_of(self._tokens.get("output_tokens_details")).get("thinking_tokens")),
        )
        self.usage = tokens if tokens.input or tokens.output else None
