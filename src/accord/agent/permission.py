"""Asking for permission. Only an allow option that was offered and selected is a yes; everything else is a no."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from accord.errors import AccordError, BadAnswer, ConnectionClosed, RpcError, UsageError
from accord.schema.permissions import PermissionOption, RequestPermissionRequest
from accord.schema.tools import ToolCallUpdate

from .waiting import limited

if TYPE_CHECKING:
    from .peer import Peer

ALLOW_OR_REJECT: Final = (
    PermissionOption("allow", "Allow", "allow_once"),
    PermissionOption("reject", "Reject", "reject_once"),
)


class PermissionAnswer:
    """What came of a question. True only for a yes."""

    def __init__(
        self,
        option: PermissionOption | None = None,
        reason: Literal["selected", "cancelled", "timeout", "failed"] = "cancelled",
        error: AccordError | None = None,
        word: str = "",
    ) -> None:
        self.option = option
        """The option that was selected; it may be a rejection."""
        self.reason = reason
        """`cancelled` stands for every answer that selects nothing that was offered."""
        self.error = error
        """Why the question failed, where it did."""
        self.word = word
        """What was said along with a no, for the model: why, or what to do instead. Empty if nothing was."""

    @property
    def allowed(self) -> bool:
        """Whether an offered allow option was selected."""
        return self.option is not None and self.option.kind in ("allow_once", "allow_always")

    @property
    def always(self) -> bool:
        """Whether the answer is meant for the next times as well, be it a yes or a no."""
        return self.option is not None and self.option.kind in ("allow_always", "reject_always")

    def __bool__(self) -> bool:
        return self.allowed

    def __repr__(self) -> str:
        return f"PermissionAnswer(allowed={self.allowed}, reason={self.reason!r}, option={self.option!r})"


async def ask(
    peer: "Peer",
    session_id: str,
    tool_call: ToolCallUpdate,
    options: Sequence[PermissionOption],
    timeout: float | None,
) -> PermissionAnswer:
    """Put the question to the client and wait for the answer."""
    _check(options)
    params = RequestPermissionRequest(session_id, tool_call, list(options))
    read = peer.reader.outcome_reader(options)
    question = peer.ask("session/request_permission", params, key=session_id, read=read)
    try:
        outcome = await limited(question, timeout, peer.clock)
    except TimeoutError:
        return PermissionAnswer(reason="timeout")
    except (RpcError, BadAnswer, ConnectionClosed) as error:
        return PermissionAnswer(reason="failed", error=error)
    chosen = next((option for option in options if option.option_id == outcome.option_id), None)
    return PermissionAnswer(chosen, "cancelled" if chosen is None else "selected", word=outcome.word)


def _check(options: Sequence[PermissionOption]) -> None:
    ids = [option.option_id for option in options]
    if not ids or len(set(ids)) != len(ids):
        raise UsageError(f"a permission needs options, each with an id of its own; got {ids}")
