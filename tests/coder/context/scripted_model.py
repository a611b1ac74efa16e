"""A scripted model, and histories to compact."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from accord.coder.model_history import (
    AssistantMessage,
    Message,
    TextPart,
    ToolUse,
    assistant_message,
    result_message,
    user_message,
)
from accord.coder.models.model import (
    Effort,
    ModelError,
    ModelEvent,
    ModelRequest,
    RequestUsage,
    Stopped,
    TextDelta,
)

SUMMARY = "## Task\nMake the tests green.\n## Promised\nTo write the changelog."


class Scripted:
    """Answers each request with the next text or error. `REFUSAL` gives a refusal, `STALL` never answers."""

    REFUSAL = "(refused)"
    STALL = "(stalled)"

    name = "scripted"
    provider = "tests"
    sees_images = True
    efforts: Sequence[Effort] = ()
    max_tools: int | None = None

    def __init__(self, *answers: str | ModelError, size: int | None = 100_000) -> None:
        self.context_size = size
        self.requests: list[ModelRequest] = []
        self.asked = asyncio.Event()
        self.closed = 0
        self._answers = list(answers)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        self.asked.set()
        answer = self._answers.pop(0)
        try:
            if isinstance(answer, ModelError):
                yield RequestUsage(10, 0, cost=0.5)
                raise answer
            if answer == self.STALL:
                await asyncio.Event().wait()
            refused = answer == self.REFUSAL
            for start in range(0, len(answer), 50):
                yield TextDelta(answer[start : start + 50])
            yield RequestUsage(100, 20, cost=1.0)
            message = AssistantMessage((TextPart(answer),))
            yield Stopped("refusal" if refused else "end_turn", message)
        finally:
            self.closed += 1


def turn(number: int, *, steps: int = 3, size: int = 4000) -> list[Message]:
    """Return a prompt, some reads with large results, and an answer."""
    messages: list[Message] = [user_message(f"Prompt {number}: make module_{number} faster.")]
    for step in range(steps):
        use = ToolUse(f"call-{number}-{step}", "read_file", {"path": f"src/module_{number}_{step}.py"})
        messages += [
            assistant_message(f"I look at step {step}.", use),
            result_message(use, f"line {step}\n" * (size // 7)),
        ]
    return [*messages, assistant_message(f"Answer {number}: done, I will measure it next.")]


def turns(count: int, **more: int) -> list[Message]:
    return [message for number in range(1, count + 1) for message in turn(number, **more)]
