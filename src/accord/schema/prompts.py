"""The prompt turn: the request that starts it, the answer that ends it, and its cancellation."""

from typing import Literal, TypeAlias

from .base import UNSET, Object
from .content import ContentBlock
from .ids import SessionId
from .marks import Kept, Opt, Uint64, Unstable, unstable

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


@unstable
class Usage(Object):
    """Unstable. Tokens spent."""

    total_tokens: Uint64
    input_tokens: Uint64
    output_tokens: Uint64
    thought_tokens: Opt[Uint64 | None] = UNSET
    cached_read_tokens: Opt[Uint64 | None] = UNSET
    cached_write_tokens: Opt[Uint64 | None] = UNSET


class PromptRequest(Object):
    """Starts a turn. Only block types that the agent's prompt capabilities allow."""

    session_id: SessionId
    prompt: list[ContentBlock]


class PromptResponse(Object):
    """Ends a turn; the last message of it.

    A stop reason this version does not know reads as `Unknown(kind=reason, raw=reason)`: the turn is over, the reason open.
    """

    stop_reason: Kept[StopReason]
    usage: Unstable[Opt[Usage | None]] = UNSET


class CancelNotification(Object):
    """Ends the running turn of a session. The prompt is still answered, with `cancelled`."""

    session_id: SessionId
