"""OpenAI's responses, as streamed."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from accord.testing.models.format import Frame, event
from accord.testing.models.openai_chat import OpenAIChat
from accord.testing.models.script import Answer, Call, Drop, Fault, Gate, Raw, Refusal, Thought

_CHAT: Final = OpenAIChat()


class OpenAIResponses:
    """`POST /v1/responses`."""

    def frames(self, answer: Answer, number: int, model: str) -> Iterator[Frame]:
        return _Stream(answer, number, model).frames()

    def error(self, fault: Fault) -> dict[str, Any]:
        return _CHAT.error(fault)

    def listing(self, models: Sequence[str]) -> dict[str, Any]:
        return _CHAT.listing(models)


class _Stream:
    def __init__(self, answer: Answer, number: int, model: str) -> None:
        self._answer = answer
        self._number = number
        self._model = model
        self._sequence = count()
        self._output: list[dict[str, Any]] = []

    def frames(self) -> Iterator[Frame]:
        yield self._say("response.created", response=self._response("in_progress"))
        text: list[str] = []
        for piece in self._answer.pieces:
            if isinstance(piece, str):
                if not text:
                    yield from self._open_message()
                text.append(piece)
                yield self._say("response.output_text.delta", **self._in_message, delta=piece, logprobs=[])
                continue
            if isinstance(piece, Gate | Drop):
                yield piece
                continue
            if isinstance(piece, Raw):
                yield piece.data
                continue
            if text:
                yield from self._close_message(
                    {"type": "output_text", "text": "".join(text), "annotations": []}
                )
                text = []
            yield from self._whole(piece)
        if text:
            yield from self._close_message({"type": "output_text", "text": "".join(text), "annotations": []})
        if self._answer.stop == "max_tokens":
            ended = self._response("incomplete", incomplete_details={"reason": "max_output_tokens"})
            yield self._say("response.incomplete", response=ended)
        else:
            yield self._say("response.completed", response=self._response("completed"))

    def _whole(self, piece: Thought | Call | Refusal | Fault) -> Iterator[Frame]:
        if isinstance(piece, Thought):
            yield from self._thought(piece)
        elif isinstance(piece, Call):
            yield from self._call(piece)
        elif isinstance(piece, Refusal):
            yield from self._open_message()
            yield self._say("response.refusal.delta", **self._in_message, delta=piece.text)
            yield self._say("response.refusal.done", **self._in_message, refusal=piece.text)
            yield from self._close_message({"type": "refusal", "refusal": piece.text})
        else:
            error = _CHAT.error(piece)["error"]
            failed = self._response("failed", error={"code": error["code"], "message": error["message"]})
            yield self._say("response.failed", response=failed)

    def _thought(self, thought: Thought) -> Iterator[Frame]:
        item: dict[str, Any] = {"id": self._id("rs"), "type": "reasoning", "summary": []}
        where = {"item_id": item["id"], "output_index": len(self._output), "summary_index": 0}
        part = {"type": "summary_text", "text": thought.text}
        yield self._say("response.output_item.added", output_index=len(self._output), item=item)
        yield self._say("response.reasoning_summary_part.added", **where, part={**part, "text": ""})
        yield self._say("response.reasoning_summary_text.delta", **where, delta=thought.text)
        yield self._say("response.reasoning_summary_text.done", **where, text=thought.text)
        yield self._say("response.reasoning_summary_part.done", **where, part=part)
        yield self._done({**item, "summary": [part], "encrypted_content": thought.signature})

    def _call(self, call: Call) -> Iterator[Frame]:
        item = {
            "id": self._id("fc"),
            "type": "function_call",
            "call_id": call.id or f"call_{self._number}_{len(self._output)}",
            "name": call.name,
            "arguments": "",
            "status": "in_progress",
        }
        where = {"item_id": item["id"], "output_index": len(self._output)}
        yield self._say("response.output_item.added", output_index=len(self._output), item=item)
        for part in call.split:
            yield self._say("response.function_call_arguments.delta", **where, delta=part)
        yield self._say("response.function_call_arguments.done", **where, name=call.name, arguments=call.text)
        yield self._done({**item, "arguments": call.text, "status": "completed"})

    def _open_message(self) -> Iterator[Frame]:
        item: dict[str, Any] = {
            "id": self._id("msg"),
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        self._in_message = {"item_id": item["id"], "output_index": len(self._output), "content_index": 0}
        yield self._say("response.output_item.added", output_index=len(self._output), item=item)
        part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
        yield self._say("response.content_part.added", **self._in_message, part=part)

    def _close_message(self, part: Mapping[str, Any]) -> Iterator[Frame]:
        if part["type"] == "output_text":
            yield self._say("response.output_text.done", **self._in_message, text=part["text"], logprobs=[])
        yield self._say("response.content_part.done", **self._in_message, part=part)
        item_id = self._in_message["item_id"]
        item = {
            "id": item_id,
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        yield self._done(item)

    def _done(self, item: dict[str, Any]) -> Frame:
        self._output.append(item)
        return self._say("response.output_item.done", output_index=len(self._output) - 1, item=item)

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._number}_{len(self._output)}"

    def _response(self, status: str, **more: Any) -> dict[str, Any]:
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
            **more,
        }

    def _say(self, kind: str, **members: Any) -> bytes:
        return event({"type": kind, "sequence_number": next(self._sequence), **members}, kind)
