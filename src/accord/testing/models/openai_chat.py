"""OpenAI's chat completions, as streamed."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from accord.testing.models.format import Frame, event
from accord.testing.models.script import Answer, Call, Drop, Fault, Gate, Raw, Refusal, Thought

_CODES: Final = {
    "auth": ("invalid_request_error", "invalid_api_key"),
    "context_full": ("invalid_request_error", "context_length_exceeded"),
    "quota": ("insufficient_quota", "insufficient_quota"),
    "unknown_model": ("invalid_request_error", "model_not_found"),
}
_STATUS_CODES: Final = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: ("server_error", "server_error"),
    503: ("service_unavailable_error", "service_unavailable"),
}
_FINISH: Final = {"end_turn": "stop", "max_tokens": "length", "refusal": "stop", "tool_use": "tool_calls"}


class OpenAIChat:
    """`POST /v1/chat/completions` and `GET /v1/models`."""

    def frames(self, answer: Answer, number: int, model: str) -> Iterator[Frame]:
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
            elif isinstance(piece, Call):
                yield from self._call(piece, calls, number, chunk)
                calls += 1
            elif isinstance(piece, Gate | Drop):
                yield piece
            else:
                yield piece.data if isinstance(piece, Raw) else event(self.error(piece))
        yield chunk({}, _FINISH[answer.stop])
        yield event({**head, "choices": [], "usage": _usage(answer)})
        yield event("[DONE]")

    def _call(self, call: Call, index: int, number: int, chunk: Any) -> Iterator[Frame]:
        call_id = call.id or f"call_{number}_{index}"
        function = {"name": call.name, "arguments": ""}
        yield chunk(
            {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
        )
        for part in call.split:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})

    def error(self, fault: Fault) -> dict[str, Any]:
        kind, code = (
            _CODES.get(fault.kind) or _STATUS_CODES.get(fault.status) or ("invalid_request_error", None)
        )
        return {"error": {"message": fault.message, "type": kind, "param": None, "code": code}}

    def listing(self, models: Sequence[str]) -> dict[str, Any]:
        return {
            "object": "list",
            "data": [{"id": name, "object": "model", "created": 1, "owned_by": "script"} for name in models],
        }


def _usage(answer: Answer) -> dict[str, Any]:
    tokens = answer.usage
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.thought},
    }
