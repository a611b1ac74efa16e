"""Answers a prompt: runs its turn, logs it, and reports a failure as a protocol error."""

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from msgspec import UNSET

from accord import __version__, telemetry
from accord.agent.turn import Turn
from accord.coder.context.user_prompt import parts_of
from accord.coder.model_history import UserMessage, note_message
from accord.coder.models.model import ModelError
from accord.coder.session.coder_session import CoderSession, UsageTotal, prompt_id
from accord.coder.turn.agent_loop import TURN_CANCELLED
from accord.errors import (
    CONFIGURATION,
    AuthRequired,
    InternalError,
    InvalidParams,
    InvalidRequest,
    RpcError,
    StoreError,
    UsageError,
)
from accord.schema.content import PromptResponse, TextContent
from accord.session import Event
from accord.session.events import TurnCancelling, TurnStarted, turn_ended, turn_failed

if TYPE_CHECKING:
    from accord.coder.turn.session_runtime import SessionRuntime

_LOG = logging.getLogger("accord.coder")


async def answer_prompt(turn: Turn) -> PromptResponse:
    """Answer one prompt and log the turn. Refuses an empty prompt, as providers would."""
    if not any(not isinstance(block, TextContent) or block.text.strip() for block in turn.blocks):
        raise InvalidParams("prompt: it is empty")
    session: CoderSession = turn.session.data
    usage = UsageTotal()
    with telemetry.operation("invoke_agent", "accord", parent=turn.request.meta) as operation:
        try:
            response = await _answer(turn, session, usage)
            if operation is not None:
                operation.set(response_finish_reasons=[response.stop_reason])
            return response
        finally:
            if operation is not None:
                model = session.model  # the turn may have changed it
                operation.set(agent_name="accord", agent_version=__version__, conversation_id=session.id)
                operation.set(provider_name=model.provider, request_model=model.name)
                operation.add_tokens(usage)


async def _answer(turn: Turn, session: CoderSession, usage: UsageTotal) -> PromptResponse:
    """Run the turn, log it, and report its usage."""
    history_length = len(session.history.messages)
    try:
        async with session.rewind_lock:
            _log_start(turn, session)
        runtime: SessionRuntime = await session.runtime()
        reason = await runtime.run_turn(turn, usage)
        _log_end(turn, session, turn_ended(reason, usage.turn_usage()))
    except asyncio.CancelledError:
        if len(session.history.messages) == history_length and turn.command is None:
            _keep_cancelled_prompt(turn, session)
        _log_end(turn, session, TurnCancelling(), turn_ended("cancelled", usage.turn_usage()))
        reason = "cancelled"  # the response still reports the usage
    except Exception as error:  # noqa: BLE001 - the top of a turn: the prompt is answered in any case
        reported = _protocol_error(error)
        with suppress(StoreError):  # a log that cannot be written is the error itself, or was reported before
            _log_end(turn, session, turn_failed(reported))
        raise reported from None
    return PromptResponse(reason, usage=usage.turn_usage() or UNSET)


def _log_start(turn: Turn, session: CoderSession) -> None:
    """Log a prompt. First log the end of an earlier turn that was answered but has not stopped yet."""
    unfinished, session.logged_turn = session.logged_turn, turn
    if unfinished is not None:
        session.journal.append(TurnCancelling(), turn_ended("cancelled"))
    session.journal.append(TurnStarted(turn.blocks, turn.message_id))
    session.journal.commit()
    session.prompt_id = prompt_id(session.journal.committed)
    session.list_changed()


def _log_end(turn: Turn, session: CoderSession, *events: Event) -> None:
    """Log the end of a turn, unless it is logged already or the session is closed."""
    if session.logged_turn is turn:
        session.logged_turn = None
        if not session.journal.closed:
            session.journal.append(*events)
            session.list_changed()


def _keep_cancelled_prompt(turn: Turn, session: CoderSession) -> None:
    """Keep a prompt that was canceled before the model saw it: the user may refer to it."""
    session.history.add(UserMessage(parts_of(turn.blocks, sees_images=False)), note_message(TURN_CANCELLED))


def _protocol_error(error: Exception) -> RpcError:
    """The protocol error for a failed turn."""
    if isinstance(error, ExceptionGroup):
        # From parallel tool calls: the first failure ended the others.
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    if isinstance(error, RpcError):
        return error
    if isinstance(error, ModelError):
        if error.kind == "auth":
            return AuthRequired(str(error))
        return InternalError(str(error), {"reason": "model_error", "kind": error.kind})
    if isinstance(error, UsageError):
        # An unusable setting: the message says what to do.
        return InvalidRequest(str(error), {"reason": CONFIGURATION})
    if isinstance(error, StoreError):
        return InternalError(str(error))
    _LOG.error("a turn failed", exc_info=error)
    return InternalError(
        "The turn failed because of an internal error of the agent; the session is intact",
        {"error": type(error).__name__},
    )
