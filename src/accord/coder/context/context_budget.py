"""Keeps the history within the context window: decides when to compact it, and reports it to the client."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from accord.coder.context.compaction import (
    ASSUMED_SIZE,
    CompactionInput,
    CompactionResult,
    compact,
    describe_compaction,
    request_limit,
)
from accord.coder.context.token_estimate import TokenMeter, overhead
from accord.coder.model_history import ModelHistory, note_message
from accord.coder.models.model import Model, ModelError, ModelEvent, ModelRequest, RequestUsage, Retrying
from accord.coder.session.coder_session import UsageTotal
from accord.coder.turn.agent_loop import retry_notice
from accord.coder.turn.tool_runner import TurnOutput

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.turn.session_runtime import SessionRuntime


class CompactionBreaker:
    """Stops compaction that does not help: after two failures in a row it waits for the next prompt."""

    def __init__(self, failure_limit: int = 2) -> None:
        self._failure_limit = failure_limit
        self._failed_compactions = 0
        self._failed_summaries = 0

    @property
    def may_compact(self) -> bool:
        """Whether to compact again automatically."""
        return self._failed_compactions < self._failure_limit

    @property
    def may_ask_model(self) -> bool:
        """Whether to ask the model for a summary; not after it failed repeatedly."""
        return self._failed_summaries < self._failure_limit

    def record_compaction(self, *, fits: bool, summary_failed: bool) -> None:
        """Record the result of a compaction."""
        self._failed_compactions = 0 if fits else self._failed_compactions + 1
        self._failed_summaries = self._failed_summaries + 1 if summary_failed else 0

    def prompt_received(self) -> None:
        """Reset with a new prompt."""
        self._failed_compactions = 0
        self._failed_summaries = 0


CompactIfNeeded = Callable[[ModelRequest, bool], Awaitable[bool]]


class ContextBudget:
    """The context of one loop: that of the session, or that of a sub-agent."""

    def __init__(self, runtime: "SessionRuntime", history: ModelHistory) -> None:
        self._runtime = runtime
        self._history = history
        self._meter = TokenMeter()
        self._breaker = CompactionBreaker()

    def prompt_received(self) -> None:
        """Allow compaction again: with a new prompt it may help."""
        self._breaker.prompt_received()

    def record_usage(self, request: ModelRequest, usage: RequestUsage) -> int:
        """Record the tokens counted by the provider. Returns the tokens of the context with the answer."""
        self._meter.record(request, usage.input)
        return usage.input + usage.output

    def compaction_check(self, model: Model, usage: UsageTotal, output: TurnOutput) -> CompactIfNeeded:
        """The function a loop calls before each request.

        It compacts if the context is full or the request was too large.
        """

        async def compact_if_needed(request: ModelRequest, overflowed: bool) -> bool:
            used = self._meter.tokens(request)
            is_full = used >= request_limit(model.context_size)
            if not (is_full or overflowed) or not self._breaker.may_compact:
                return False
            # A request that was too large shows the real limit, whatever size is configured.
            size = min(model.context_size or ASSUMED_SIZE, used) if overflowed else model.context_size
            result = await self._compact(request, model, usage, output, size=size, force_summary=overflowed)
            if overflowed and not result.fits:
                raise ModelError(
                    "context_full",
                    f"{model.provider}:{model.name}: the prompt alone is too large: "
                    "send less of it, or choose a model with a larger context",
                )
            return result.method != "nothing"

        return compact_if_needed

    async def compact_now(
        self, turn: "Turn", model: Model, usage: UsageTotal, request: ModelRequest, focus: str = ""
    ) -> CompactionResult:
        """Compact on the user's request."""
        size = model.context_size
        return await self._compact(
            request, model, usage, turn, size=size, force_summary=True, focus=focus, automatic=False
        )

    async def _compact(
        self,
        request: ModelRequest,
        model: Model,
        usage: UsageTotal,
        output: TurnOutput,
        *,
        size: int | None,
        force_summary: bool,
        focus: str = "",
        automatic: bool = True,
    ) -> CompactionResult:
        session = self._runtime.session
        is_session = self._history is session.history
        hooks = self._runtime.hooks if is_session else None
        if hooks is not None:
            answer = await hooks.compacting(focus, automatic=automatic)
            if answer.block is not None or answer.stop is not None:
                await output.notice("Compaction blocked by a hook", answer.block or answer.stop)
                return CompactionResult(
                    messages=self._history.messages,
                    method="nothing",
                    before_tokens=0,
                    after_tokens=0,
                    fits=True,
                )
            focus = "\n".join(filter(None, (focus, answer.context)))
        inputs = CompactionInput(
            messages=self._history.messages,
            size=size,
            overhead=round(overhead(request) * self._meter.ratio),
            scale=self._meter.ratio,
            plan=session.plan if is_session else (),
            facts=self._runtime.compaction_facts() if is_session else (),
            focus=focus,
            force_summary=force_summary,
        )
        summary_model = await self._runtime.small_model(model) if self._breaker.may_ask_model else None

        on_event = self._retry_notices(output)
        if not is_session:
            result = await compact(inputs, summary_model, on_event=on_event)
        else:
            async with session.agent_session.compaction() as shown:
                result = await compact(inputs, summary_model, on_event=on_event)
                if result.summary:
                    await shown.summary(result.summary)
        if result.usage is not None:
            usage.add(result.usage)
            session.add_usage(result.usage)
        self._breaker.record_compaction(fits=result.fits, summary_failed=bool(result.summary_failure))
        if result.method != "nothing":
            self._history.replace(result.messages, "compacted")
        if is_session and result.method in ("summary", "mechanical"):
            self._runtime.prompt_builder.history_compacted()
            if hooks is not None and (text := await hooks.compacted(result.summary, automatic=automatic)):
                self._history.add(note_message(f"[hook] {text}"))
        if is_session and result.method != "nothing" and not session.agent_session.client.shows_compaction:
            await output.notice("Context compacted", describe_compaction(result))
        return result

    def _retry_notices(self, output: TurnOutput) -> Callable[[ModelEvent], None]:
        """Show when the request for a summary is repeated."""

        def on_event(event: ModelEvent) -> None:
            if isinstance(event, Retrying):
                title, reason = retry_notice(event)
                self._runtime.session.spawn(output.notice(title, reason, severity="warning"))

        return on_event
