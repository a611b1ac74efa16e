"""Room in the model's context: how full it is, as the client is told, and how it is made empty again in time."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from accord.coder.context.compaction import Compacted, Material, compact
from accord.coder.context.tokens import Meter, overhead
from accord.coder.context.window import ASSUMED_SIZE, Breaker, Window
from accord.coder.history import History
from accord.coder.loop import retrying
from accord.coder.models.model import Model, ModelError, ModelEvent, ModelRequest, Retrying, Usage
from accord.coder.spending import Spending
from accord.coder.voice import Voice

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.workbench import Workbench

MakeRoom = Callable[[ModelRequest, bool], Awaitable[bool]]


class Room:
    """The context of one run of the loop: the session's own, or that of a sub-agent."""

    def __init__(self, bench: "Workbench", history: History) -> None:
        self._bench = bench
        self._history = history
        self._meter = Meter()
        self._breaker = Breaker()

    def prompted(self) -> None:
        """A new prompt: what did not help before may help now."""
        self._breaker.prompted()

    def used(self, request: ModelRequest, usage: Usage) -> int:
        """The provider has counted a request; how many tokens the context has with its answer."""
        self._meter.told(request, usage.input)
        return usage.input + usage.output

    def making(self, model: Model, spent: Spending, voice: Voice) -> MakeRoom:
        """What a run calls before its requests: compacts if it is time, or if the request did not fit."""

        async def make_room(request: ModelRequest, overflowed: bool) -> bool:
            window = Window(model.context_size, self._meter.tokens(request))
            if not (window.full or overflowed) or not self._breaker.may_compact:
                return False
            # What did not fit shows how much does at most, whatever the model is said to take.
            size = min(model.context_size or ASSUMED_SIZE, window.used) if overflowed else model.context_size
            done = await self._compact(request, model, spent, voice, size=size, thorough=overflowed)
            if overflowed and not done.fits:
                raise ModelError(
                    "context_full",
                    f"{model.provider}:{model.name}: the prompt is too large by itself: send less of it, or choose a model "
                    "with a larger context",
                )
            return done.how != "nothing"

        return make_room

    async def compact_now(
        self, turn: "Turn", model: Model, spent: Spending, request: ModelRequest, focus: str = ""
    ) -> Compacted:
        """On the user's wish."""
        size = model.context_size
        return await self._compact(request, model, spent, turn, size=size, thorough=True, focus=focus)

    async def _compact(
        self,
        request: ModelRequest,
        model: Model,
        spent: Spending,
        voice: Voice,
        *,
        size: int | None,
        thorough: bool,
        focus: str = "",
    ) -> Compacted:
        conversation = self._bench.conversation
        own = self._history is conversation.history
        material = Material(
            messages=self._history.messages,
            size=size,
            overhead=round(overhead(request) * self._meter.ratio),
            scale=self._meter.ratio,
            plan=conversation.plan if own else (),
            facts=self._bench.facts() if own else (),
            focus=focus,
            thorough=thorough,
        )
        summing_up = model if self._breaker.may_ask else None

        def watch(event: ModelEvent) -> None:
            if isinstance(event, Retrying):
                title, why = retrying(event)
                conversation.soon(voice.notice(title, why, severity="warning"))

        if not own:
            done = await compact(material, summing_up, watch=watch)
        else:
            async with conversation.session.compaction() as shown:
                done = await compact(material, summing_up, watch=watch)
                if done.summary:
                    await shown.summary(done.summary)
        if done.usage is not None:
            spent.add(done.usage)
            conversation.spend(done.usage)
        self._breaker.compacted(fits=done.fits, asked_in_vain=bool(done.why))
        if done.how != "nothing":
            self._history.replace(done.messages, "compacted")
        if own and done.how in ("summary", "mechanical"):
            self._bench.briefing.context_lost()
        if own and done.how != "nothing" and not conversation.session.client.shows_compaction:
            await voice.notice("Context compacted", told(done))
        return done


def told(done: Compacted) -> str:
    """What came of a compaction, in one line."""
    sizes = f"{done.before_tokens:,} -> {done.after_tokens:,} tokens"
    match done.how:
        case "nothing":
            return "there is nothing to leave out"
        case "shortened":
            return f"{sizes}; old results were shortened"
        case "summary":
            return f"{sizes}; the earlier part is summed up, the whole conversation stays in the log"
        case "mechanical":
            return f"{sizes}; the model wrote no summary ({done.why or 'not asked'}), the gist was kept without it"
