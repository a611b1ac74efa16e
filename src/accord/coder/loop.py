"""The loop: ask the model, show what it says, do what it asks for, until it has nothing more to ask for.

It knows neither the wire nor the store: it speaks to a `TurnOutput`, remembers in a `ModelHistory`, and works with a `ToolRunner`. A turn of the
user and a sub-agent's task are both a `AgentLoop` of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from accord.coder.model_history import ModelHistory, UserMessage, note, text_of, uses_of
from accord.coder.models.model import (
    Effort,
    Model,
    ModelError,
    ModelRequest,
    PartialAnswer,
    RequestUsage,
    Retrying,
    Stopped,
    TextDelta,
    ThoughtDelta,
)
from accord.coder.tool_runner import RepeatedCalls, ToolRunner
from accord.coder.turn_output import TurnOutput
from accord.schema.content import StopReason

CANCELLED: Final = "The user cancelled the turn here."
OVERFLOWS: Final = 2
"""How often in a row a request that does not fit is made smaller and sent again."""


@dataclass(kw_only=True)
class AgentLoop:
    """One run: everything it needs, and what it has done so far."""

    voice: TurnOutput
    model: Model
    history: ModelHistory
    toolbox: ToolRunner
    system: str
    notes: Callable[[], Awaitable[Sequence[UserMessage]]]
    """What the model is to be told before its next request: another mode, instructions for a folder it looked into."""
    requests: int
    """How many requests it may make."""
    effort: Effort | None = None
    spent: Callable[[RequestUsage, ModelRequest], Awaitable[None]]
    """Told what each request has used."""
    make_room: Callable[[ModelRequest, bool], Awaitable[bool]]
    """Before each request: makes the history smaller if it must be; the flag says that the request did not fit. Whether it is
    smaller now."""
    _repetition: RepeatedCalls = field(default_factory=RepeatedCalls)
    last: str = ""
    """What the model said last."""

    async def go(self) -> StopReason:
        """Run to the end. Raises ModelError; a cancel leaves a history that can be gone on with."""
        for _ in range(self.requests):
            answer = await self._answer()
            self.last = text_of(answer.message) or self.last
            if answer.reason in ("refusal", "max_tokens"):
                if answer.reason == "refusal" and answer.note:
                    await self.voice.say(answer.note)
                return answer.reason
            uses = uses_of(answer.message)
            if not uses:
                return "end_turn"
            await self.toolbox.perform(uses, self.voice, self._repetition, self.history.add)
            if self._repetition.hopeless:
                await self.voice.notice(
                    "Stopped: the model repeats the same call",
                    "It was told so and went on. Say what it should do instead.",
                    severity="warning",
                )
                return "max_turn_requests"
        return "max_turn_requests"

    def request(self) -> ModelRequest:
        """What the model would be asked now."""
        return ModelRequest(self.system, self.history.sound(), self.toolbox.specs(), self.effort)

    async def _answer(self) -> Stopped:
        """One answer, in the history. A request that does not fit is made to."""
        overflows = 0
        self.history.add(*await self.notes())
        request = self.request()
        if await self.make_room(request, False):
            request = self.request()
        while True:
            try:
                return await self._ask(request)
            except ModelError as error:
                overflows += 1
                if error.kind != "context_full" or overflows > OVERFLOWS or error.partial is not None:
                    raise
                if not await self.make_room(request, True):
                    raise
                request = self.request()

    async def _ask(self, request: ModelRequest) -> Stopped:
        draft = PartialAnswer()
        try:
            async with aclosing(self.model.stream(request)) as events:
                async for event in events:
                    draft.add(event)
                    if isinstance(event, TextDelta):
                        await self.voice.say(event.text)
                    elif isinstance(event, ThoughtDelta):
                        await self.voice.think(event.text)
                    elif isinstance(event, RequestUsage):
                        await self.spent(event, request)
                    elif isinstance(event, Retrying):
                        await self.voice.notice(*retrying(event), severity="warning")
                    elif isinstance(event, Stopped):
                        self.history.add(event.message)
                        return event
        except ModelError as error:
            if error.partial is not None:
                self.history.add(error.partial, note(f"Your answer broke off here: {error}"))
            raise
        except asyncio.CancelledError:
            if draft.message is not None:
                self.history.add(draft.message)
            self.history.add(note(CANCELLED))
            raise
        raise ModelError("other", f"{self.model.provider}:{self.model.name}: the stream ended without an end")


def retrying(event: Retrying) -> tuple[str, str]:
    """What the user is told of a request that goes out again: in short, and why."""
    return f"Trying again in {event.seconds:.0f} s (attempt {event.attempt})", event.why
