"""Anthropic's messages, as streamed."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from accord.testing.models.format import Frame, event
from accord.testing.models.script import Answer, Call, Drop, Fault, Gate, Raw, Refusal, Thought

_TYPES: Final = {
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
_MESSAGES: Final = {
    "context_full": "prompt is too long: 200001 tokens > 200000 maximum",
    "quota": "Your credit balance is too low to access the API.",
}
_STOP: Final = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "tool_use": "tool_use",
}


class Anthropic:
    """`POST /v1/messages` and `GET /v1/models`."""

    def frames(self, answer: Answer, number: int, model: str) -> Iterator[Frame]:
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
        yield _say("message_start", message=message)
        yield _say("ping")
        index = -1
        open_text = False
        for piece in answer.pieces:
            if isinstance(piece, Gate | Drop):
                yield piece
                continue
            if isinstance(piece, Raw | Fault):
                yield piece.data if isinstance(piece, Raw) else event(self.error(piece), "error")
                continue
            said = piece.text if isinstance(piece, Refusal) else piece if isinstance(piece, str) else None
            if open_text and said is None:
                yield _say("content_block_stop", index=index)
                open_text = False
            if said is not None:
                if not open_text:
                    index, open_text = index + 1, True
                    yield _say("content_block_start", index=index, content_block={"type": "text", "text": ""})
                yield _say("content_block_delta", index=index, delta={"type": "text_delta", "text": said})
            elif isinstance(piece, Thought | Call):
                index += 1
                yield from _block(piece, index, number)
        if open_text:
            yield _say("content_block_stop", index=index)
        stopped = {"stop_reason": _STOP[answer.stop], "stop_sequence": None}
        yield _say("message_delta", delta=stopped, usage={"output_tokens": tokens.output})
        yield _say("message_stop")

    def error(self, fault: Fault) -> dict[str, Any]:
        kind = "invalid_request_error" if fault.kind in _MESSAGES else _TYPES.get(fault.status, "api_error")
        message = _MESSAGES.get(fault.kind, fault.message)
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}

    def listing(self, models: Sequence[str]) -> dict[str, Any]:
        data = [
            {"type": "model", "id": name, "display_name": name.title(), "created_at": "2026-01-01T00:00:00Z"}
            for name in models
        ]
        first, last = (models[0], models[-1]) if models else (None, None)
        return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def _block(piece: Thought | Call, index: int, number: int) -> Iterator[Frame]:
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
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in piece.split]
    yield _say("content_block_start", index=index, content_block=block)
    for delta in deltas:
        yield _say("content_block_delta", index=index, delta=delta)
    yield _say("content_block_stop", index=index)


def _say(kind: str, **members: Any) -> bytes:
    return event({"type": kind, **members}, kind)
