"""One prompt from request to answer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Raw

from accord.client.agent_connection import InitializedConnection
from accord.client.client_events import ClientEvent
from accord.client.client_options import SilenceTimer
from accord.client.event_stream import EventQueue
from accord.errors import AccordError, ConnectionClosed, TurnSilent
from accord.schema import ContentBlock, PromptRequest, PromptResponse, StopReason, TextContent, Usage
from accord.schema.dialects import final_text
from accord.session import Message, MessageChanged, SessionState, TurnEnded, turn_failed
from accord.session.protocol_v1 import prompt_answered

if TYPE_CHECKING:
    from accord.client.client_session import ClientSession


# MERGED client.turn: One prompt from its request to its answer. However it goes, it ends once: with the answer, an error, or given up.
#
# The answer is taken in its place in the wire's order, so `TurnEnded` comes behind every update before it. Silence is
# watched: first the turn is cancelled, then, if that brings nothing either, it is given up.


class PromptTurn:
    """A running turn of a session; `inbox` is where its events go, for a caller who wants them."""

    def __init__(
        self, session: "ClientSession", link: InitializedConnection, inbox: EventQueue[ClientEvent] | None
    ) -> None:
        self.session = session
        self.inbox = inbox
        self.cancelling = False
        self.ended: TurnEnded | None = None
        self.error: Exception | None = None
        """Why it failed; raised to the caller behind the last event."""
        self._link = link
        self._limits = link.options.limits
        self._task: asyncio.Task[None] | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watch = self._watching(self._limits.silence, self._silent, self._waits)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.ended is not None

    async def start(self, blocks: list[ContentBlock]) -> None:
        """Send the prompt. When this returns, it is on its way."""
        self._task = asyncio.create_task(self._run(blocks))
        try:
            await asyncio.sleep(
                0
            )  # the task's first step sends the request; a cancellation must come behind it
        except asyncio.CancelledError:
            self.leave()
            raise

    async def wait(self) -> None:
        """Return once it has ended."""
        await asyncio.shield(self._over)

    def cancel(self) -> None:
        """The agent was asked to stop: from now on its silence is borne for a shorter while only."""
        self.cancelling = True
        self._watch.stop()
        self._watch = self._watching(self._limits.cancel, self._deaf, lambda: False)

    def leave(self) -> None:
        """The caller is gone. What is still running is cancelled and ends by itself."""
        if self.inbox is not None:
            self.session.unsubscribe(self.inbox)
            self.inbox.abandon()
        if not self.over:
            self.session.cancel()

    def give_up(self, error: Exception) -> None:
        """End it without an answer."""
        self._end(turn_failed(error), error)
        if self._task is not None:
            self._task.cancel()

    async def finish(self) -> None:
        """Wait for what is left of it, after it has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, blocks: list[ContentBlock]) -> None:
        session = self.session
        prompt = PromptRequest(session.id, blocks)
        call = self._link.connection.request(
            "session/prompt", prompt, read=self._answered, key=session.id, streaming=True
        )
        try:
            await self._link.checked(call)
        except AccordError as error:
            self._end(turn_failed(error), error)
        except asyncio.CancelledError:
            # Ours, from `give_up`, or the loop's own shutdown: either way no answer will be taken.
            error = ConnectionClosed("the turn was given up before it was answered")
            self._end(turn_failed(error), error)
            raise

    def _answered(self, raw: Raw) -> PromptResponse:
        """Runs when the answer's turn has come in the order of the wire."""
        answer: PromptResponse = self._link.result_of("session/prompt")(raw)
        text = final_text(answer)
        if text and not self._said_something():
            self.session.publish(MessageChanged("agent", content=[TextContent(text=text)]))
        self._end(prompt_answered(answer), self.error)
        return answer

    def _said_something(self) -> bool:
        latest = self.session.state.history.latest_turn
        return any(isinstance(entry, Message) and entry.kind == "agent" for entry in latest)

    def _end(self, ended: TurnEnded, error: Exception | None) -> None:
        if self.over:
            return
        self.ended = ended
        self.error = error
        self._watch.stop()
        self.session.turn_over(self, ended)
        if self.inbox is not None:
            self.inbox.close()
        if not self._over.done():
            self._over.set_result(None)

    # -- silence ------------------------------------------------------------------------------------------------

    def _watching(
        self, limit: float | None, expired: Callable[[], None], still: Callable[[], bool]
    ) -> SilenceTimer:
        connection = self._link.connection
        return SilenceTimer(
            self._link.options.clock,
            limit,
            expired,
            heard=lambda: connection.reads,
            still=lambda: connection.paused or still(),
        )

    def _waits(self) -> bool:
        return self.session.busy

    def _silent(self) -> None:
        limit = self._limits.silence or 0.0
        self.error = TurnSilent(f"the agent gave no sign of life for {limit:g} s; the turn was cancelled")
        self.session.cancel()

    def _deaf(self) -> None:
        limit = self._limits.cancel
        if self.error is None:
            error = TurnSilent(f"the turn was cancelled, but the agent was silent for {limit:g} s after that")
        else:
            error = TurnSilent(f"{self.error}, which was not answered within {limit:g} s either")
        self.give_up(error)


# MERGED client.answer: The outcome of one turn, for callers who do not want to see it happen.


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What the agent said in one turn, and why it stopped."""

    messages: tuple[Message, ...]
    stop_reason: StopReason | None
    """None for a reason this version does not know; `raw_reason` has it."""
    raw_reason: str
    usage: Usage | None

    @property
    def text(self) -> str:
        """The agent's messages of this turn, thoughts aside, with an empty line between them."""
        return "\n\n".join(message.text for message in self.messages if message.text)

    @staticmethod
    def of(state: SessionState, ended: TurnEnded) -> "TurnResult":
        """From the state right after the turn."""
        said = tuple(
            entry
            for entry in state.history.latest_turn
            if isinstance(entry, Message) and entry.kind == "agent"
        )
        return TurnResult(said, ended.stop_reason, ended.raw_reason, ended.usage)
