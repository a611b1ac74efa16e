"""A turn of the user: a prompt comes in, the loop runs, the prompt is answered; and all of it is in the log."""

import asyncio
import logging
from typing import TYPE_CHECKING

from accord.agent.turn import Turn
from accord.coder.conversation import Conversation
from accord.coder.models.model import ModelError
from accord.coder.spending import Spending
from accord.errors import AuthRequired, InternalError, InvalidRequest, RpcError, StoreError, UsageError
from accord.schema.prompts import PromptResponse, StopReason
from accord.session.events import TurnCancelling, TurnStarted, turn_ended, turn_failed

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench

_LOG = logging.getLogger("accord.coder")


async def take_turn(turn: Turn) -> PromptResponse:
    """Answer one prompt."""
    conversation: Conversation = turn.session.data
    journal = conversation.journal
    journal.append(TurnStarted(turn.blocks))
    spent = Spending()
    try:
        reason = await _work(turn, conversation, spent)
    except asyncio.CancelledError:
        journal.append(TurnCancelling(), turn_ended("cancelled", spent.of_turn()))
        raise
    except Exception as error:  # noqa: BLE001 - the top of a turn: whatever it was, the prompt is answered
        told = _told(error)
        journal.append(turn_failed(told))
        raise told from None
    response = PromptResponse(reason)
    if spent.requests:
        response.usage = spent.of_turn()
    journal.append(turn_ended(reason, response.usage or None))
    return response


async def _work(turn: Turn, conversation: Conversation, spent: Spending) -> StopReason:
    bench: Workbench = await conversation.bench()
    return await bench.work(turn, spent)


def _told(error: Exception) -> RpcError:
    """What the client is told of a turn that failed."""
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
