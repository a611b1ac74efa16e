"""A turn of the user: a prompt comes in, the loop runs, the prompt is answered; and all of it is in the log."""

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from msgspec import UNSET

from accord.agent.turn import Turn
from accord.coder.conversation import Conversation
from accord.coder.messages import UserMessage, note
from accord.coder.models.model import ModelError
from accord.coder.spending import Spending
from accord.errors import (
    AuthRequired,
    InternalError,
    InvalidParams,
    InvalidRequest,
    RpcError,
    StoreError,
    UsageError,
)
from accord.schema.content import TextContent
from accord.schema.prompts import PromptResponse, StopReason
from accord.session.events import TurnCancelling, turn_ended, turn_failed

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench

_LOG = logging.getLogger("accord.coder")


async def take_turn(turn: Turn) -> PromptResponse:
    """Answer one prompt. One that says nothing is refused: providers would refuse it, and it is nothing to keep."""
    if not any(not isinstance(block, TextContent) or block.text.strip() for block in turn.blocks):
        raise InvalidParams("prompt: there is nothing in it")
    conversation: Conversation = turn.session.data
    spent = Spending()
    remembered = len(conversation.history.messages)
    try:
        conversation.turn_begins(turn)
        reason = await _work(turn, conversation, spent)
        conversation.turn_ends(turn, turn_ended(reason, spent.of_turn()))
    except asyncio.CancelledError:
        if len(conversation.history.messages) == remembered and turn.command is None:
            _remember_unasked(turn, conversation)
        conversation.turn_ends(turn, TurnCancelling(), turn_ended("cancelled", spent.of_turn()))
        reason = "cancelled"  # which is an answer, too: it says what was used until then
    except Exception as error:  # noqa: BLE001 - the top of a turn: whatever it was, the prompt is answered
        told = _told(error)
        with suppress(StoreError):  # a log that cannot be written is what went wrong, or was told before
            conversation.turn_ends(turn, turn_failed(told))
        raise told from None
    return PromptResponse(reason, usage=spent.of_turn() or UNSET)


async def _work(turn: Turn, conversation: Conversation, spent: Spending) -> StopReason:
    bench: Workbench = await conversation.bench()
    return await bench.work(turn, spent)


def _remember_unasked(turn: Turn, conversation: Conversation) -> None:
    """A prompt that was cancelled before the model saw it: the user sees it in the conversation, and may refer to it."""
    from accord.coder.context.prompts import parts_of
    from accord.coder.loop import CANCELLED

    conversation.history.add(UserMessage(parts_of(turn.blocks, sees_images=False)), note(CANCELLED))


def _told(error: Exception) -> RpcError:
    """What the client is told of a turn that failed."""
    if isinstance(error, ExceptionGroup):
        # Of calls that ran side by side: the first failure has ended the others.
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    if isinstance(error, RpcError):
        return error
    if isinstance(error, ModelError):
        if error.kind == "auth":
            return AuthRequired(str(error))
        return InternalError(str(error), {"reason": "model_error", "kind": error.kind})
    if isinstance(error, UsageError):
        return InvalidRequest(
            str(error)
        )  # a setting that cannot be used: what to do about it is in its words
    if isinstance(error, StoreError):
        return InternalError(str(error))
    _LOG.error("a turn failed", exc_info=error)
    return InternalError(
        "The turn failed by a defect of the agent; the session is intact", {"error": type(error).__name__}
    )
