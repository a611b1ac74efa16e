"""The agent loop: ask the model, run the tool calls it asks for, repeat until it asks for none.

The loop knows neither the wire nor the store: it writes to a `TurnOutput`, keeps a `ModelHistory` and uses a
`ToolRunner`. A turn of the user and the task of a sub-agent each run one `AgentLoop`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from accord import telemetry
from accord.coder.model_history import (
    ModelHistory,
    UserMessage,
    note_message,
    text_of,
    tool_uses_of,
    without_new_images,
)
from accord.coder.models.model import (
    AnswerDraft,
    Effort,
    Model,
    ModelError,
    ModelRequest,
    RequestUsage,
    Retrying,
    Stopped,
    TextDelta,
    ThoughtDelta,
)
from accord.coder.turn.tool_runner import RepeatedCalls, ToolRunner, TurnOutput
from accord.coder.turn.usage_budget import RequestLimit, UsageBudget
from accord.schema.content import StopReason
from accord.text_width import count_text

TURN_CANCELLED: Final = "The user cancelled the turn here."
_REFUSED_IMAGE: Final = (
    "[image: {}, not shown to you: the provider refused the request with it; tell the user]"
)
_SHOWN_NAMES: Final = 20
COMPACTION_RETRIES: Final = 2
"""How many times in a row a request that is too large is compacted and sent again."""


@dataclass(kw_only=True)
class AgentLoop:
    """One run of the loop: its inputs and its progress."""

    output: TurnOutput
    model: Model
    history: ModelHistory
    tool_runner: ToolRunner
    system: str
    collect_notes: Callable[[], Awaitable[Sequence[UserMessage]]]
    """Returns notes for the model before a request, such as a new mode or instructions for a folder."""
    budget: UsageBudget
    request_limit: RequestLimit
    may_end: Callable[[], bool]
    """Called when the model asks for no tool: whether the user has sent nothing meanwhile."""
    await_background: Callable[[], Awaitable[bool]] | None = None
    """Called when the model asks for no tool: waits for news of background sub-agents, if there are any."""
    on_stop: Callable[[str, int], Awaitable[str | None]] | None = None
    """Called with the last text when the loop would end, and how often that was prevented before.

    Returns the next input of the model if it must go on.
    """
    reported_tools: set[str] = field(default_factory=set[str])
    """Tools that the model does not get, as the user knows: there are more than it takes."""
    effort: Effort | None = None
    cache_key: str = ""
    on_usage: Callable[[RequestUsage, ModelRequest], Awaitable[None]]
    """Called with the usage of each request."""
    compact_if_needed: Callable[[ModelRequest, bool], Awaitable[bool]]
    """Called before each request: compacts the history if needed.

    The flag says that the request was too large. Returns whether the history is smaller now.
    """
    _repeated_calls: RepeatedCalls = field(default_factory=RepeatedCalls)
    _prevented_ends: int = 0
    last_text: str = ""
    """The last text of the model."""

    async def run(self) -> StopReason:
        """Run to the end. Raises ModelError. A canceled run leaves a valid history."""
        for _ in range(self.request_limit.number):
            if (limit := self.budget.reached()) is not None:
                return await self._stop(limit)
            answer = await self._next_answer()
            self.last_text = text_of(answer.message) or self.last_text
            if answer.reason in ("refusal", "max_tokens"):
                if answer.reason == "refusal" and answer.refusal_text:
                    await self.output.say_separately(answer.refusal_text)
                return answer.reason
            tool_uses = tool_uses_of(answer.message)
            if not tool_uses:
                if self.await_background is not None and await self.await_background():
                    continue
                if await self._goes_on():
                    continue
                if self.may_end():
                    return "end_turn"
                continue
            await self.tool_runner.run_calls(tool_uses, self.output, self._repeated_calls, self.history.add)
            if (stop_reason := self.tool_runner.stop_reason) is not None:
                await self.output.notice("Stopped by a hook", stop_reason, severity="warning")
                return "end_turn"
            if self._repeated_calls.limit_reached:
                await self.output.notice(
                    "Stopped: the model repeats the same call",
                    "It ignored the warnings. Describe what it should do instead.",
                    severity="warning",
                )
                return "max_turn_requests"
        number, source = self.request_limit
        return await self._stop(f"{count_text(number, 'model request')} made ({source})")

    async def _goes_on(self) -> bool:
        """Whether a hook prevents the end of the loop; then the model gets the reason."""
        prompt = None if self.on_stop is None else await self.on_stop(self.last_text, self._prevented_ends)
        if prompt is None:
            return False
        self._prevented_ends += 1
        self.history.add(note_message(prompt))
        return True

    async def _stop(self, limit: str) -> StopReason:
        await self.output.notice("Stopped at a limit", limit, severity="warning")
        return "max_turn_requests"

    def request(self) -> ModelRequest:
        """The next model request."""
        messages, tools = self.history.repaired(), self.tool_runner.specs()[: self.model.max_tools]
        return ModelRequest(self.system, messages, tools, self.effort, self.cache_key)

    async def _next_answer(self) -> Stopped:
        """Get one answer and add it to the history. Compacts and retries if the request is too large."""
        attempts = 0
        self.history.add(*await self.collect_notes())
        await self._report_left_out()
        request = self.request()
        if await self.compact_if_needed(request, False):
            request = self.request()
        while True:
            try:
                return await self._stream_answer(request)
            except ModelError as error:
                if error.kind == "bad_request" and error.status in (400, 422) and self._drop_new_images():
                    await self.output.notice("Left a picture out", str(error), severity="warning")
                    request = self.request()
                    continue
                attempts += 1
                if (
                    error.kind != "context_full"
                    or attempts > COMPACTION_RETRIES
                    or error.partial_answer is not None
                ):
                    raise
                if not await self.compact_if_needed(request, True):
                    raise
                request = self.request()

    async def _report_left_out(self) -> None:
        """Name the tools that are more than the model takes. The last ones are those of MCP servers."""
        limit = self.model.max_tools
        names = [] if limit is None else [spec.name for spec in self.tool_runner.specs()[limit:]]
        if self.reported_tools.issuperset(names):
            return
        self.reported_tools.update(names)
        shown = ", ".join(names[:_SHOWN_NAMES])
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        text = f"{self.model.provider}:{self.model.name} takes {limit}. Left out: {shown}{more}"
        await self.output.notice(f"{count_text(len(names), 'tool')} left out", text, severity="warning")

    def _drop_new_images(self) -> bool:
        """Replace images that no answer has followed yet by notes. Returns whether there were any."""
        messages = without_new_images(self.history.messages, _REFUSED_IMAGE)
        if messages != self.history.messages:
            self.history.replace(messages, "refused")
            return True
        return False

    async def _stream_answer(self, request: ModelRequest) -> Stopped:
        """Get one answer, in a span of its own."""
        model = self.model
        with telemetry.operation("chat", model.name, client=True) as operation:
            if operation is not None:
                operation.set(provider_name=model.provider, request_model=model.name, request_stream=True)
                _record_request(operation, request)
            stopped = await self._read_answer(request, operation)
            if operation is not None:
                operation.set(response_finish_reasons=[stopped.reason])
                operation.set(response_id=stopped.response_id, response_model=stopped.response_model)
                _record_answer(operation, stopped)
            return stopped

    async def _read_answer(self, request: ModelRequest, operation: "telemetry.Operation | None") -> Stopped:
        draft = AnswerDraft()
        try:
            async with aclosing(self.model.stream(request)) as events:
                async for event in events:
                    draft.add(event)
                    if operation is not None and isinstance(event, TextDelta | ThoughtDelta):
                        operation.first_chunk()
                    if isinstance(event, TextDelta):
                        await self.output.say(event.text)
                    elif isinstance(event, ThoughtDelta):
                        await self.output.think(event.text)
                    elif isinstance(event, RequestUsage):
                        if operation is not None:
                            operation.add_tokens(event)
                        await self.on_usage(event, request)
                    elif isinstance(event, Retrying):
                        draft = AnswerDraft()
                        if event.began:
                            await self.output.say_separately("The answer broke off. It begins again:")
                        await self.output.notice(*retry_notice(event), severity="warning")
                    elif isinstance(event, Stopped):
                        self.history.add(event.message)
                        return event
        except ModelError as error:
            if error.partial_answer is not None:
                self.history.add(error.partial_answer, note_message(f"Your answer broke off here: {error}"))
            raise
        except asyncio.CancelledError:
            if draft.message is not None:
                self.history.add(draft.message)
            self.history.add(note_message(TURN_CANCELLED))
            raise
        raise ModelError(
            "other", f"{self.model.provider}:{self.model.name}: the stream ended without a stop event"
        )


def _record_request(operation: telemetry.Operation, request: ModelRequest) -> None:
    if operation.captures_content:
        from accord.coder.turn import recorded_content  # imported only if it is used

        operation.set_content("system_instructions", lambda: recorded_content.system_instructions(request))
        operation.set_content("input_messages", lambda: recorded_content.input_messages(request))
        operation.set_content("tool_definitions", lambda: recorded_content.tool_definitions(request.tools))


def _record_answer(operation: telemetry.Operation, stopped: Stopped) -> None:
    if operation.captures_content:
        from accord.coder.turn import recorded_content  # imported only if it is used

        operation.set_content("output_messages", lambda: recorded_content.output_messages(stopped))


def retry_notice(event: Retrying) -> tuple[str, str]:
    """The title and the reason that the user sees when a request is retried."""
    if event.next_model:
        return f"Continuing with {event.next_model}", event.reason
    return f"Trying again in {event.seconds:.0f} s (attempt {event.attempt})", event.reason
