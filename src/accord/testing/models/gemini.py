"""Google's `streamGenerateContent`. Its tool calls come whole."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from accord.testing.models.format import Frame, event
from accord.testing.models.script import Answer, Call, Drop, Fault, Gate, Raw, Refusal, Thought

_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_MESSAGES: Final = {
    "context_full": "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    "auth": "API key not valid. Please pass a valid API key.",
}
_FINISH: Final = {"end_turn": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY", "tool_use": "STOP"}


class Gemini:
    """`POST /v1beta/models/NAME:streamGenerateContent` and `GET /v1beta/models`."""

    def frames(self, answer: Answer, number: int, model: str) -> Iterator[Frame]:
        head = {"responseId": f"gemini-{number}", "modelVersion": model}

        def chunk(parts: list[dict[str, Any]], finish: str | None = None, **more: Any) -> bytes:
            candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
            if finish:
                candidate["finishReason"] = finish
            return event({"candidates": [candidate], **head, **more})

        for piece in answer.pieces:
            if isinstance(piece, Gate | Drop):
                yield piece
            elif isinstance(piece, Raw):
                yield piece.data
            elif isinstance(piece, Fault):
                yield event(self.error(piece))
            elif isinstance(piece, Thought):
                yield chunk([{"text": piece.text, "thought": True, "thoughtSignature": piece.signature}])
            elif isinstance(piece, Call):
                call = {"name": piece.name, "args": _object(piece), **({"id": piece.id} if piece.id else {})}
                yield chunk([{"functionCall": call}])
            else:
                yield chunk([{"text": piece.text if isinstance(piece, Refusal) else piece}])
        yield chunk([{"text": ""}], _FINISH[answer.stop], usageMetadata=_usage(answer))

    def error(self, fault: Fault) -> dict[str, Any]:
        message = _MESSAGES.get(fault.kind, fault.message)
        status = _STATUS.get(fault.status, "UNAVAILABLE" if fault.status >= 500 else "INVALID_ARGUMENT")
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


def _object(call: Call) -> Any:
    try:
        return json.loads(call.text)
    except ValueError:
        return {"malformed": call.text}  # the format has no way to say it


def _usage(answer: Answer) -> dict[str, Any]:
    tokens = answer.usage
    return {
        "promptTokenCount": tokens.input,
        "cachedContentTokenCount": tokens.cached_read,
        "candidatesTokenCount": tokens.output - tokens.thought,
        "thoughtsTokenCount": tokens.thought,
        "totalTokenCount": tokens.input + tokens.output,
    }
