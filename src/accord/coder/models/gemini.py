"""Google's Gemini API.

https://ai.google.dev/api/generate-content
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

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
    details_of,
    google_headers,
    has_images,
    result_text,
    text_of_parts,
)
from accord.coder.user_config import ModelFacts

_NO_SIGNATURE: Final = b64encode(b"skip_thought_signature_validator").decode()
"""Google's placeholder for the signature of a call that it did not make itself."""
_RESULT_IMAGES: Final = ("image/png", "image/jpeg", "image/webp")
"""Images that a function response can hold."""

_LEVELS: Final = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
_LEVEL_BY_EFFORT: Final[dict[Effort, int]] = {"off": 0, "minimal": 0, "low": 1, "medium": 2}
_SOME_LEVELS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("gemini-4-argon", ("LOW", "MEDIUM", "HIGH")),
    ("gemini-3.8-flash", ("LOW", "MEDIUM", "HIGH")),
    ("gemini-3.7-flash", ("LOW", "MEDIUM", "HIGH")),
    ("gemini-3.1-pro-preview", ("LOW", "MEDIUM", "HIGH")),
    ("gemini-3-pro-preview", ("LOW", "HIGH")),
)
"""Models that do not have all levels, by the beginning of the name."""
_BUDGETS: Final[dict[Effort, int]] = {"minimal": 128, "low": 2048, "medium": 8192}
_LARGEST_BUDGET: Final = 24_576


class GeminiModel:
    """What a model accepts, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._has_budget = "gemini-2.5" in name
        old = "gemini-1" in name or ("gemini-2." in name and not self._has_budget) or name == "gemini-pro"
        self.thinks: bool = not (old or "gemma" in name or "gemini-2.5-flash-image" in name)
        self.images_in_results: bool = not (old or self._has_budget or "gemma" in name)

    def thinking(self, effort: Effort | None) -> dict[str, Any] | None:
        """The `thinkingConfig` of a request for this level."""
        if effort is None or not self.thinks:
            return None
        config: dict[str, Any] = {} if effort == "off" else {"includeThoughts": True}
        if self._has_budget:
            lowest = _BUDGETS["minimal"] if "pro" in self._name else 0  # pro models cannot stop thinking
            budget = lowest if effort == "off" else _BUDGETS.get(effort, _LARGEST_BUDGET)
            return {**config, "thinkingBudget": budget}
        wanted = _LEVEL_BY_EFFORT.get(effort, 3)
        levels = next((some for prefix, some in _SOME_LEVELS if self._name.startswith(prefix)), _LEVELS)
        return {**config, "thinkingLevel": min(levels, key=lambda level: abs(_LEVELS.index(level) - wanted))}


class GeminiFormat(WireFormat):
    """Requests to one model of the Gemini API."""

    official_address: str = "https://generativelanguage.googleapis.com"
    list_path: str = "/v1beta/models?pageSize=1000"

    def __init__(self, endpoint: Endpoint, model: str, facts: ModelFacts) -> None:
        super().__init__(endpoint, model, facts)
        self._model = GeminiModel(model)

    def path(self) -> str:
        name = self.name if self.name.startswith(("models/", "tunedModels/")) else f"models/{self.name}"
        return f"/v1/{quote(name)}:streamGenerateContent?alt=sse"

    def headers(self) -> dict[str, str]:
        return google_headers(self.endpoint)

    def body(self, asked: ModelRequest, sees_images: bool) -> dict[str, Any]:
        config: dict[str, Any] = {"responseModalities": ["TEXT"]}
        if self.facts.max_output is not None:
            config["maxOutputTokens"] = self.facts.max_output
        if thinking := self._model.thinking(asked.effort):
            config["thinkingConfig"] = thinking
        body: dict[str, Any] = {
            "contents": self._history(asked.messages, sees_images),
            "generationConfig": config,
        }
        if asked.system.strip():
            body["systemInstruction"] = {"parts": [{"text": asked.system}]}
        if asked.tools:
            functions = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
                for tool in asked.tools
            ]
            body["tools"] = [{"functionDeclarations": functions}]
            if self._model.thinks:
                body["toolConfig"] = {"functionCallingConfig": {"mode": "VALIDATED"}}
        return body

    def reader(self) -> AnswerReader:
        return _GeminiReader(self.endpoint)

    def _history(self, messages: Sequence[Message], sees_images: bool) -> list[dict[str, Any]]:
        """Convert the history. Results of calls stand alone; other messages of one side are joined."""
        contents: list[dict[str, Any]] = []
        images: list[dict[str, Any]] = []
        """Images of the results before, which the results themselves cannot hold."""
        last: type[Message] | None = None
        for message in messages:
            if images and not isinstance(message, ToolResult):
                contents.append({"role": "user", "parts": images})
                images, last = [], None
            if isinstance(message, ToolResult):
                parts = [self._result(message, sees_images, images)]
            elif isinstance(message, UserMessage):
                parts = _content(message.parts, sees_images)
            else:
                parts = self._answer(message)
            if not parts:
                continue
            if type(message) is last:
                contents[-1]["parts"] += parts
            else:
                role = "model" if isinstance(message, AssistantMessage) else "user"
                contents.append({"role": role, "parts": parts})
            last = type(message)
        if images:
            contents.append({"role": "user", "parts": images})
        return contents

    def _result(self, message: ToolResult, sees_images: bool, images: list[dict[str, Any]]) -> dict[str, Any]:
        text = result_text(message.parts, False)
        response: dict[str, Any] = {
            "id": message.id,
            "name": message.name,
            "response": {"error" if message.failed else "output": text},
        }
        if has_images(message.parts, sees_images):
            shown = [part for part in message.parts if isinstance(part, ImagePart)]
            if self._model.images_in_results and all(part.mime_type in _RESULT_IMAGES for part in shown):
                response["parts"] = [_image(part) for part in shown]
            else:
                images += [{"text": f"Images of the result of {message.id}:"}, *map(_image, shown)]
        return {"functionResponse": response}

    def _answer(self, message: AssistantMessage) -> list[dict[str, Any]]:
        own = self.owns(message)
        parts: list[dict[str, Any]] = []
        first_call = True
        for part in message.parts:
            signature = details_of(part).get("thought_signature") if own else None
            if isinstance(part, TextPart):
                item: dict[str, Any] = {"text": part.text}
            elif isinstance(part, ToolUse):
                item = {"functionCall": {"id": part.id, "name": part.name, "args": arguments_object(part)}}
                signature = signature or (_NO_SIGNATURE if first_call else None)
                first_call = False
            elif own and part.text:
                item = {"text": part.text, "thought": True}
            else:
                continue
            if signature:
                item["thoughtSignature"] = signature
            parts.append(item)
        return parts


def _content(parts: Sequence[Part], sees_images: bool) -> list[dict[str, Any]]:
    if not has_images(parts, sees_images):
        return [{"text": text_of_parts(parts)}]
    return [{"text": part.text} if isinstance(part, TextPart) else _image(part) for part in parts]


def _image(part: ImagePart) -> dict[str, Any]:
    return {"inlineData": {"mimeType": part.mime_type, "data": base64_of(part)}}


class VertexGeminiFormat(GeminiFormat):
    """Requests to one model at Vertex."""

    def path(self) -> str:
        return f"/publishers/google/models/{quote(self.name)}:streamGenerateContent?alt=sse"


class _Call(Struct):
    name: str = ""
    args: dict[str, Any] | None = None
    id: str | None = None


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(Struct):
    parts: list[_Part] | None = None


class _Candidate(Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _PromptFeedback(Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Chunk(Struct, rename="camel"):
    response_id: Any = None
    model_version: Any = None
    candidates: list[_Candidate] | None = None
    prompt_feedback: _PromptFeedback | None = None
    usage_metadata: dict[str, Any] | None = None
    error: Any = None


_DECODER: Final[msgspec.json.Decoder[_Chunk]] = msgspec.json.Decoder(_Chunk)
_FINISHES: Final[dict[str, Finish]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "refusal"),
    **dict.fromkeys(("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"), "refusal"),
    **dict.fromkeys(("LANGUAGE", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "NO_IMAGE"), "error"),
}


class _GeminiReader(AnswerReader):
    """Reads the chunks of a generated content."""

    def read(self, data: bytes) -> Iterator[ModelEvent]:
        chunk = decode_event(data, _DECODER)
        if chunk.error:
            raise failure_of_event(chunk.error)
        self.identify(chunk.response_id, chunk.model_version)
        if chunk.usage_metadata:
            self.usage = gemini_usage(chunk.usage_metadata)
        if not chunk.candidates:
            if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
                self.finish, self.finish_word = "refusal", chunk.prompt_feedback.block_reason
                self.refusal_text = chunk.prompt_feedback.block_reason_message or ""
            return
        candidate = chunk.candidates[0]
        for part in (candidate.content.parts if candidate.content else None) or ():
            yield from self._part(part)
        if candidate.finish_reason and self.finish != "refusal":
            self.finish_word = candidate.finish_reason
            self.finish = _FINISHES.get(candidate.finish_reason)

    def _part(self, part: _Part) -> Iterator[ModelEvent]:
        """Add a part. A piece with a signature is the last of its part."""
        details = {"thought_signature": part.thought_signature} if part.thought_signature else {}
        if part.function_call is not None:
            call = part.function_call
            key = self.run_key("call")
            self.add_call(
                key, call_id=call.id or "", name=call.name, arguments=call.args or {}, details=details
            )
            self.end_run()
        elif part.text is not None and (part.text or details):
            add = self.add_thought if part.thought else self.add_text
            yield from add(self.run_key("thought" if part.thought else "text"), part.text, details=details)
            if details:
                self.end_run()


def gemini_usage(usage: dict[str, Any]) -> RequestUsage | None:
    """The tokens of a request; None if the server counted none."""
    thought = count(usage.get("thoughtsTokenCount"))
    tokens = RequestUsage(
        input=count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount")),
        output=count(usage.get("candidatesTokenCount")) + thought,
        cached_read=count(usage.get("cachedContentTokenCount")),
        thought=thought,
    )
    return tokens if tokens.input or tokens.output else None
