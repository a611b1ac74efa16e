"""One prompt from request to response.

A turn ends exactly once: with the response, with an error, or because the client gave it up. The response is
handled in wire order, so `TurnEnded` comes after every earlier update. If the agent is silent for too long,
the turn is canceled first. If the agent stays silent, the turn is given up.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from accord import telemetry
from accord.client.agent_connection import InitializedConnection
from accord.client.client_events import ClientEvent
from accord.client.client_options import SilenceTimer
from accord.client.event_stream import EventQueue
from accord.errors import AccordError, ConnectionClosed, TurnSilent
from accord.schema import (
    UNSET,
    AgentMessageChunk,
    CancelNotification,
    ContentBlock,
    PromptRequest,
    PromptResponse,
    StopReason,
    TextContent,
    Usage,
)
from accord.schema.dialects import final_text
from accord.session import Message, SessionState, TurnEnded, turn_failed
from accord.session.protocol_v1 import turn_ended_event

if TYPE_CHECKING:
    from accord.client.session_core import SessionCore


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The agent's messages of one turn, and why it stopped."""

    messages: tuple[Message, ...]
    stop_reason: StopReason | None
    """None for a reason that this version does not know; see `raw_reason`."""
    raw_reason: str
    """The stop reason as the agent sent it."""
    usage: Usage | None

    @property
    def text(self) -> str:
        """The agent's messages, without thoughts, separated by empty lines."""
        return "\n\n".join(message.text for message in self.messages if message.text)


def turn_result(state: SessionState, ended: TurnEnded) -> TurnResult:
    """The result of the turn that ended last."""
    return TurnResult(_agent_messages(state), ended.stop_reason, ended.raw_reason, ended.usage)


class PromptTurn:
    """A running turn of a session. `queue` receives its events if the caller iterates over them."""

    def __init__(
        self, session: "SessionCore", connection: InitializedConnection, queue: EventQueue[ClientEvent] | None
    ) -> None:
        self.queue: EventQueue[ClientEvent] | None = queue
        self.cancelling: bool = False
        self.ended: TurnEnded | None = None
        self.error: Exception | None = None
        """Why the turn failed; raised to the caller after the last event."""
        self._session = session
        self._connection = connection
        self._limits = connection.options.limits
        self._task: asyncio.Task[None] | None = None
        self._sent: bool = False
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer = self._start_timer(self._limits.silence, self._silence_expired, lambda: session.busy)

    async def start(self, blocks: list[ContentBlock]) -> None:
        """Send the prompt. It has been sent when this returns."""
        self._task = asyncio.create_task(self._run(blocks))
        try:
            # The task's first step sends the request. A cancellation must come after it.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.leave()
            raise
        finally:
            self._sent = True
            if self.cancelling:
                self._send_cancel()

    async def wait(self) -> None:
        """Wait until the turn has ended."""
        await asyncio.shield(self._finished)

    def cancel(self) -> None:
        """Send `session/cancel`, behind the prompt, and switch to the shorter time limit."""
        self.cancelling = True
        if self._sent:
            self._send_cancel()
        self._timer.stop()
        self._timer = self._start_timer(self._limits.cancel, self._cancel_expired, lambda: False)

    def leave(self) -> None:
        """Discard unread events, and cancel the turn if it still runs; it ends in the background."""
        if self.queue is not None:
            self._session.listeners.remove(self.queue)
            self.queue.discard()
        if self.ended is None and not self.cancelling:
            self._session.cancel()

    def fail(self, error: Exception) -> None:
        """End the turn with an error and stop waiting for the response."""
        self._end(turn_failed(error), error)
        if self._task is not None:
            self._task.cancel()

    async def join(self) -> None:
        """Wait for the task of a turn that has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, blocks: list[ContentBlock]) -> None:
        info = self._connection.initialize_response.agent_info
        name = info.name if info else ""
        with telemetry.operation("invoke_agent", name, client=True) as operation:
            if operation is not None:
                operation.set(agent_name=name, conversation_id=self._session.id)
            await self._run_turn(blocks, telemetry.injected())
            if operation is not None and self.ended is not None and self.ended.raw_reason:
                operation.set(response_finish_reasons=[self.ended.raw_reason])
            if operation is not None and self.error is not None:
                operation.end(self.error)

    async def _run_turn(self, blocks: list[ContentBlock], meta: dict[str, Any]) -> None:
        session_id = self._session.id
        call = self._connection.rpc.request(
            "session/prompt",
            PromptRequest(session_id, blocks, meta=meta or UNSET),
            read=self._read_response,
            key=session_id,
            streaming=True,
        )
        try:
            await self._connection.with_auth_methods(call)
        except AccordError as error:
            self._end(turn_failed(error), error)
        except asyncio.CancelledError:
            # Canceled by `fail` or by the shutdown of the event loop: no response will be read.
            error = ConnectionClosed("the turn was given up before it was answered")
            self._end(turn_failed(error), error)
            raise

    def _send_cancel(self) -> None:
        if self.ended is None:
            self._connection.notify("session/cancel", CancelNotification(self._session.id))

    def _read_response(self, raw: Raw) -> PromptResponse:
        """Read the response and end the turn, at the response's place in the wire order."""
        response: PromptResponse = self._connection.result_reader("session/prompt")(raw)
        chunk = final_text_chunk(self._session.state, response)
        if chunk is not None:
            self._session.receive(chunk, len(chunk.text))
        self._end(turn_ended_event(response), self.error)
        return response

    def _end(self, event: TurnEnded, error: Exception | None) -> None:
        if self.ended is not None:
            return
        self.ended = event
        self.error = error
        self._timer.stop()
        self._session.turn_ended(self, event)
        if self.queue is not None:
            self.queue.close()
        if not self._finished.done():
            self._finished.set_result(None)

    # -- silence ---------------------------------------------------------------------------------------------

    def _start_timer(
        self, limit: float | None, expired: Callable[[], None], suspended: Callable[[], bool]
    ) -> SilenceTimer:
        rpc = self._connection.rpc
        return SilenceTimer(
            self._connection.options.clock,
            limit,
            expired,
            activity=lambda: rpc.reads,
            suspended=lambda: rpc.pressure.paused or suspended(),
        )

    def _silence_expired(self) -> None:
        limit = self._limits.silence or 0.0
        self.error = TurnSilent(f"the agent sent nothing for {limit:g} s; the turn was canceled")
        self._session.cancel()

    def _cancel_expired(self) -> None:
        limit = self._limits.cancel
        if self.error is None:
            error = TurnSilent(f"the turn was canceled, but the agent sent nothing for another {limit:g} s")
        else:
            error = TurnSilent(f"{self.error}, but the agent did not respond within {limit:g} s")
        self.fail(error)


def final_text_chunk(state: SessionState, response: PromptResponse) -> AgentMessageChunk | None:
    """Return the text of a response as a message chunk, without the part that was streamed already.

    Some agents send their text only in the response, and some send it a second time there.
    """
    text = final_text(response)
    if not text:
        return None
    message_id = None
    messages = [message for message in _agent_messages(state) if message.text]
    if messages:
        last = messages[-1]
        if not text.startswith(last.text):
            return None
        text = text[len(last.text) :]
        message_id = last.id
    return AgentMessageChunk(TextContent(text=text), message_id=message_id or UNSET) if text else None


def _agent_messages(state: SessionState) -> tuple[Message, ...]:
    return tuple(
        entry for entry in state.history.latest_turn if isinstance(entry, Message) and entry.kind == "agent"
    )
