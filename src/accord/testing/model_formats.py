"""The streaming formats of Anthropic, Gemini, OpenAI chat and OpenAI responses."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from accord.testing.model_script import (
    DroppedConnection,
    ModelAnswer,
    ModelFault,
    ModelToolCall,
    RawBytes,
    Refusal,
    StreamFrame,
    StreamPause,
    Thought,
    event,
)

_ANTHROPIC_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_ANTHROPIC_MESSAGES: Final = {
    "context_full": "prompt is too long: 200001 tokens > 200000 maximum",
    "quota": "Your credit balance is too low to access the API.",
}
_ANTHROPIC_STOP: Final = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "tool_use": "tool_use",
}


class Anthropic:
    """Anthropic: `POST /v1/messages` and `GET /v1/models`."""

    def frames(self, answer: ModelAnswer, number: int, model: str) -> Iterator[StreamFrame]:
        tokens = answer.usage
        usage = {
            "input_tokens": tokens.input - tokens.cached_read - tokens.cached_write,
            "cache_read_input_tokens": tokens.cached_read,
            "cache_creation_input_tokens": tokens.cached_write,
            "output_tokens": 1,
        }
        message: dict[str, Any] = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        yield _anthropic_event("message_start", message=message)
        yield _anthropic_event("ping")
        index = -1
        open_text = False
        for piece in answer.pieces:
            if isinstance(piece, StreamPause | DroppedConnection):
                yield piece
                continue
            if isinstance(piece, RawBytes | ModelFault):
                yield piece.data if isinstance(piece, RawBytes) else event(self.error(piece), "error")
                continue
            text = piece.text if isinstance(piece, Refusal) else piece if isinstance(piece, str) else None
            if open_text and text is None:
                yield _anthropic_event("content_block_stop", index=index)
                open_text = False
            if text is not None:
                if not open_text:
                    index, open_text = index + 1, True
                    yield _anthropic_event(
                        "content_block_start", index=index, content_block={"type": "text", "text": ""}
                    )
                yield _anthropic_event(
                    "content_block_delta", index=index, delta={"type": "text_delta", "text": text}
                )
            elif isinstance(piece, Thought | ModelToolCall):
                index += 1
                yield from _anthropic_block(piece, index, number)
        if open_text:
            yield _anthropic_event("content_block_stop", index=index)
        delta = {"stop_reason": _ANTHROPIC_STOP[answer.stop], "stop_sequence": None}
        yield _anthropic_event("message_delta", delta=delta, usage={"output_tokens": tokens.output})
        yield _anthropic_event("message_stop")

    def error(self, fault: ModelFault) -> dict[str, Any]:
        kind = (
            "invalid_request_error"
            if fault.kind in _ANTHROPIC_MESSAGES
            else _ANTHROPIC_ERROR_TYPES.get(fault.status, "api_error")
        )
        message = _ANTHROPIC_MESSAGES.get(fault.kind, fault.message)
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}

    def listing(self, models: Sequence[str]) -> dict[str, Any]:
        data = [
            {"type": "model", "id": name, "display_name": name.title(), "created_at": "2026-01-01T00:00:00Z"}
            for name in models
        ]
        first, last = (models[0], models[-1]) if models else (None, None)
        return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def _anthropic_block(piece: Thought | ModelToolCall, index: int, number: int) -> Iterator[StreamFrame]:
    deltas: list[dict[str, Any]]
    if isinstance(piece, Thought):
        block: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [
            {"type": "thinking_delta", "thinking": piece.text},
            {"type": "signature_delta", "signature": piece.signature},
        ]
    else:
        block = {
            "type": "tool_use",
            "id": piece.id or f"toolu_{number}_{index}",
            "name": piece.name,
            "input": {},
        }
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in piece.argument_chunks]
    yield _anthropic_event("content_block_start", index=index, content_block=block)
    for delta in deltas:
        yield _anthropic_event("content_block_delta", index=index, delta=delta)
    yield _anthropic_event("content_block_stop", index=index)


def _anthropic_event(kind: str, **members: Any) -> bytes:
    return event({"type": kind, **members}, kind)


_GEMINI_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_GEMINI_MESSAGES: Final = {
    "context_full": "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    "auth": "API key not valid. Please pass a valid API key.",
}
_GEMINI_FINISH: Final = {
    "end_turn": "STOP",
    "max_tokens": "MAX_TOKENS",
    "refusal": "SAFETY",
    "tool_use": "STOP",
}


class Gemini:
    """Google: `POST /v1beta/models/NAME:streamGenerateContent` and `GET /v1beta/models`.

    A tool call comes in one chunk.
    """

    def frames(self, answer: ModelAnswer, number: int, model: str) -> Iterator[StreamFrame]:
        head = {"responseId": f"gemini-{number}", "modelVersion": model}

        def chunk(parts: list[dict[str, Any]], finish: str | None = None, **members: Any) -> bytes:
            candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
            if finish:
                candidate["finishReason"] = finish
            return event({"candidates": [candidate], **head, **members})

        for piece in answer.pieces:
            if isinstance(piece, StreamPause | DroppedConnection):
                yield piece
            elif isinstance(piece, RawBytes):
                yield piece.data
            elif isinstance(piece, ModelFault):
                yield event(self.error(piece))
            elif isinstance(piece, Thought):
                yield chunk([{"text": piece.text, "thought": True, "thoughtSignature": piece.signature}])
            elif isinstance(piece, ModelToolCall):
                call = {
                    "name": piece.name,
                    "args": _gemini_arguments(piece),
                    **({"id": piece.id} if piece.id else {}),
                }
                yield chunk([{"functionCall": call}])
            else:
                yield chunk([{"text": piece.text if isinstance(piece, Refusal) else piece}])
        yield chunk([{"text": ""}], _GEMINI_FINISH[answer.stop], usageMetadata=_gemini_usage(answer))

    def error(self, fault: ModelFault) -> dict[str, Any]:
        message = _GEMINI_MESSAGES.get(fault.kind, fault.message)
        status = _GEMINI_STATUS.get(
            fault.status, "UNAVAILABLE" if fault.status >= 500 else "INVALID_ARGUMENT"
        )
        error: dict[str, Any] = {"code": fault.status, "message": message, "status": status}
        if fault.kind == "auth":
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
            error["details"] = [info]
        return {"error": error}

    def listing(self, models: Sequence[str]) -> dict[str, Any]:
        methods = ["generateContent", "countTokens"]
        return {
            "models": [
                {
                    "name": f"models/{name}",
                    "displayName": name,
                    "inputTokenLimit": 1048576,
                    "supportedGenerationMethods": methods,
                }
                for name in models
            ]
        }


def _gemini_arguments(call: ModelToolCall) -> Any:
    try:
        return json.loads(call.text)
    except ValueError:
        return {"malformed": call.text}  # the format cannot express malformed arguments


def _gemini_usage(answer: ModelAnswer) -> dict[str, Any]:
    tokens = answer.usage
    return {
        "promptTokenCount": tokens.input,
        "cachedContentTokenCount": tokens.cached_read,
        "candidatesTokenCount": tokens.output - tokens.thought,
        "thoughtsTokenCount": tokens.thought,
        "totalTokenCount": tokens.input + tokens.output,
    }


_OPENAI_ERRORS_BY_KIND: Final = {
    "auth": ("invalid_request_error", "invalid_api_key"),
    "context_full": ("invalid_request_error", "context_length_exceeded"),
    "quota": ("insufficient_quota", "insufficient_quota"),
    "unknown_model": ("invalid_request_error", "model_not_found"),
}
_OPENAI_ERRORS_BY_STATUS: Final = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: ("server_error", "server_error"),
    503: ("service_unavailable_error", "service_unavailable"),
}
_OPENAI_CHAT_FINISH: Final = {
    "end_turn": "stop",
    "max_tokens": "length",
    "refusal": "stop",
    "tool_use": "tool_calls",
}


class OpenAIChat:
    """OpenAI chat completions: `POST /v1/chat/completions` and `GET /v1/models`."""

    def frames(self, answer: ModelAnswer, number: int, model: str) -> Iterator[StreamFrame]:
        head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model}

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            return event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

        yield chunk({"role": "assistant", "content": ""})
        calls = 0
        for piece in answer.pieces:
            if isinstance(piece, str):
                yield chunk({"content": piece})
            elif isinstance(piece, Thought):
                yield chunk({"reasoning_content": piece.text})
            elif isinstance(piece, Refusal):
                yield chunk({"refusal": piece.text})
            elif isinstance(piece, ModelToolCall):
                yield from self._call_frames(piece, calls, number, chunk)
                calls += 1
            elif isinstance(piece, StreamPause | DroppedConnection):
                yield piece
            else:
                yield piece.data if isinstance(piece, RawBytes) else event(self.error(piece))
        yield chunk({}, _OPENAI_CHAT_FINISH[answer.stop])
        yield event({**head, "choices": [], "usage": _openai_chat_usage(answer)})
        yield event("[DONE]")

    def _call_frames(self, call: ModelToolCall, index: int, number: int, chunk: Any) -> Iterator[StreamFrame]:
        call_id = call.id or f"call_{number}_{index}"
        function = {"name": call.name, "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
        )
        for part in call.argument_chunks:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})

    def error(self, fault: ModelFault) -> dict[str, Any]:
        kind, code = (
            _OPENAI_ERRORS_BY_KIND.get(fault.kind)
            or _OPENAI_ERRORS_BY_STATUS.get(fault.status)
            or ("invalid_request_error", None)
        )
        return {"error": {"message": fault.message, "type": kind, "param": None, "code": code}}

    def listing(self, models: Sequence[str]) -> dict[str, Any]:
        return {
            "object": "list",
            "data": [{"id": name, "object": "model", "created": 1, "owned_by": "script"} for name in models],
        }


def _openai_chat_usage(answer: ModelAnswer) -> dict[str, Any]:
    tokens = answer.usage
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.thought},
    }


_OPENAI_CHAT: Final = OpenAIChat()


class OpenAIResponses:
    """OpenAI responses: `POST /v1/responses`."""

    def frames(self, answer: ModelAnswer, number: int, model: str) -> Iterator[StreamFrame]:
        return _ResponsesStream(answer, number, model).frames()

    def error(self, fault: ModelFault) -> dict[str, Any]:
        return _OPENAI_CHAT.error(fault)

    def listing(self, models: Sequence[str]) -> dict[str, Any]:
        return _OPENAI_CHAT.listing(models)


class _ResponsesStream:
    def __init__(self, answer: ModelAnswer, number: int, model: str) -> None:
        self._answer = answer
        self._number = number
        self._model = model
        self._sequence = count()
        self._output: list[dict[str, Any]] = []

    def frames(self) -> Iterator[StreamFrame]:
        yield self._event("response.created", response=self._response("in_progress"))
        text: list[str] = []
        for piece in self._answer.pieces:
            if isinstance(piece, str):
                if not text:
                    yield from self._open_message()
                text.append(piece)
                yield self._event(
                    "response.output_text.delta", **self._message_position, delta=piece, logprobs=[]
                )
                continue
            if isinstance(piece, StreamPause | DroppedConnection):
                yield piece
                continue
            if isinstance(piece, RawBytes):
                yield piece.data
                continue
            if text:
                yield from self._close_message(
                    {"type": "output_text", "text": "".join(text), "annotations": []}
                )
                text = []
            yield from self._item_frames(piece)
        if text:
            yield from self._close_message({"type": "output_text", "text": "".join(text), "annotations": []})
        if self._answer.stop == "max_tokens":
            incomplete = self._response("incomplete", incomplete_details={"reason": "max_output_tokens"})
            yield self._event("response.incomplete", response=incomplete)
        else:
            yield self._event("response.completed", response=self._response("completed"))

    def _item_frames(self, piece: Thought | ModelToolCall | Refusal | ModelFault) -> Iterator[StreamFrame]:
        if isinstance(piece, Thought):
            yield from self._thought_frames(piece)
        elif isinstance(piece, ModelToolCall):
            yield from self._call_frames(piece)
        elif isinstance(piece, Refusal):
            yield from self._open_message()
            yield self._event("response.refusal.delta", **self._message_position, delta=piece.text)
            yield self._event("response.refusal.done", **self._message_position, refusal=piece.text)
            yield from self._close_message({"type": "refusal", "refusal": piece.text})
        else:
            error = _OPENAI_CHAT.error(piece)["error"]
            failed = self._response("failed", error={"code": error["code"], "message": error["message"]})
            yield self._event("response.failed", response=failed)

    def _thought_frames(self, thought: Thought) -> Iterator[StreamFrame]:
        item: dict[str, Any] = {"id": self._make_id("rs"), "type": "reasoning", "summary": []}
        position = {"item_id": item["id"], "output_index": len(self._output), "summary_index": 0}
        part = {"type": "summary_text", "text": thought.text}
        yield self._event("response.output_item.added", output_index=len(self._output), item=item)
        yield self._event("response.reasoning_summary_part.added", **position, part={**part, "text": ""})
        yield self._event("response.reasoning_summary_text.delta", **position, delta=thought.text)
        yield self._event("response.reasoning_summary_text.done", **position, text=thought.text)
        yield self._event("response.reasoning_summary_part.done", **position, part=part)
        yield self._finish_item({**item, "summary": [part], "encrypted_content": thought.signature})

    def _call_frames(self, call: ModelToolCall) -> Iterator[StreamFrame]:
        item = {
            "id": self._make_id("fc"),
            "type": "function_call",
            "call_id": call.id or f"call_{self._number}_{len(self._output)}",
            "name": call.name,
            "arguments": "",
            "status": "in_progress",
        }
        position = {"item_id": item["id"], "output_index": len(self._output)}
        yield self._event("response.output_item.added", output_index=len(self._output), item=item)
        for part in call.argument_chunks:
            yield self._event("response.function_call_arguments.delta", **position, delta=part)
        yield self._event(
            "response.function_call_arguments.done", **position, name=call.name, arguments=call.text
        )
        yield self._finish_item({**item, "arguments": call.text, "status": "completed"})

    def _open_message(self) -> Iterator[StreamFrame]:
        item: dict[str, Any] = {
            "id": self._make_id("msg"),
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        self._message_position = {
            "item_id": item["id"],
            "output_index": len(self._output),
            "content_index": 0,
        }
        yield self._event("response.output_item.added", output_index=len(self._output), item=item)
        part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
        yield self._event("response.content_part.added", **self._message_position, part=part)

    def _close_message(self, part: Mapping[str, Any]) -> Iterator[StreamFrame]:
        if part["type"] == "output_text":
            yield self._event(
                "response.output_text.done", **self._message_position, text=part["text"], logprobs=[]
            )
        yield self._event("response.content_part.done", **self._message_position, part=part)
        item_id = self._message_position["item_id"]
        item = {
            "id": item_id,
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        yield self._finish_item(item)

    def _finish_item(self, item: dict[str, Any]) -> StreamFrame:
        self._output.append(item)
        return self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)

    def _make_id(self, kind: str) -> str:
        return f"{kind}_{self._number}_{len(self._output)}"

    def _response(self, status: str, **members: Any) -> dict[str, Any]:
        tokens = self._answer.usage
        usage = {
            "input_tokens": tokens.input,
            "input_tokens_details": {
                "cached_tokens": tokens.cached_read,
                "cache_write_tokens": tokens.cached_write,
            },
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.thought},
            "total_tokens": tokens.input + tokens.output,
        }
        return {
            "id": f"resp_{self._number}",
            "object": "response",
            "created_at": 1,
            "status": status,
            "model": self._model,
            "output": list(self._output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "usage": None if status == "in_progress" else usage,
            **members,
        }

    def _event(self, kind: str, **members: Any) -> bytes:
        return event({"type": kind, "sequence_number": next(self._sequence), **members}, kind)
