"""`rehearsal`: answers a request by doing what its prompt says, step by step, with the tools it was given.

Pure: what comes next is read off the history of the request alone, so the same request gives the same events.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import msgspec

from accord.coder.messages import (
    AssistantMessage,
    ImagePart,
    TextPart,
    ThoughtPart,
    ToolUse,
    uses_of,
)
from accord.coder.models.model import (
    Effort,
    ModelError,
    ModelEvent,
    ModelRequest,
    Stopped,
    TextDelta,
    ThoughtDelta,
    Usage,
)

PROVIDER: Final = "rehearsal"
CONTEXT_SIZE: Final = 100_000

_PIECE: Final = re.compile(r"\S+\s*|\s+")
_WORDS_A_PIECE: Final = 4
_IMAGE_TOKENS: Final = 1000


class Rehearsal:
    """The model of nobody's making."""

    name = PROVIDER
    provider = PROVIDER
    sees_images = False
    efforts: Sequence[Effort] = ()

    def __init__(self, context_size: int = CONTEXT_SIZE) -> None:
        self.context_size: int | None = context_size
        self._room = context_size

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The events of the request, with a turn of the event loop between them."""
        for event in answer(request, self._room):
            yield event
            await asyncio.sleep(0)  # there is nothing to wait for, but a cancel must get its chance


def answer(request: ModelRequest, context_size: int = CONTEXT_SIZE) -> Iterator[ModelEvent]:
    """The answer to a request, as a stream of events."""
    # On first use: an agent that starts has no prompt yet.
    from accord.coder.models.rehearsal.play import next_parts

    read = _tokens_of(request)
    if read > context_size:
        raise ModelError(
            "context_full", f"rehearsal: {read} tokens do not fit into {context_size}; compact the session"
        )
    parts = list(next_parts(request))
    for part in parts:
        if isinstance(part, TextPart):
            yield from (TextDelta(piece) for piece in _pieces(part.text))
        elif isinstance(part, ThoughtPart):
            yield from (ThoughtDelta(piece) for piece in _pieces(part.text))
        else:
            yield part
    message = AssistantMessage(tuple(parts), PROVIDER)
    thought = sum(_tokens(part.text) for part in parts if isinstance(part, ThoughtPart))
    yield Usage(read, _tokens(msgspec.json.encode(message.parts).decode()), thought=thought, cost=0.0)
    yield Stopped("tool_use" if uses_of(message) else "end_turn", message)


def _pieces(text: str) -> Iterator[str]:
    words = _PIECE.findall(text)
    for start in range(0, len(words), _WORDS_A_PIECE):
        yield "".join(words[start : start + _WORDS_A_PIECE])


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _tokens_of(request: ModelRequest) -> int:
    total = _tokens(request.system) + sum(
        _tokens(tool.name) + _tokens(tool.description) + _tokens(msgspec.json.encode(tool.schema).decode())
        for tool in request.tools
    )
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ImagePart):
                total += _IMAGE_TOKENS
            elif isinstance(part, ToolUse):
                total += _tokens(part.name) + _tokens(msgspec.json.encode(part.arguments).decode())
            else:
                total += _tokens(part.text)
    return total
