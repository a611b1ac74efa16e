"""Asking the user: which options a question offers, what an answer means, and what it leaves behind in the session.

An answer counts by the kind of the option that was offered under its id; everything else is a no.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from accord.policy.request import ActionRequest, Decision, host_of
from accord.schema.client_requests import (
    CancelledOutcome,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
)
from accord.schema.codec import to_builtins
from accord.schema.dialects import PermissionDecision, read_outcome

_LONGEST_NAME: Final = 120


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """What the user (or nobody) said."""

    kind: PermissionOptionKind | None = None
    """The kind of the option that was chosen; None where none was."""
    reason: str = ""
    """What was said along with a no, for the model."""

    @property
    def allowed(self) -> bool:
        """Whether it was a yes."""
        return self.kind in ("allow_once", "allow_always")

    @property
    def always(self) -> bool:
        """Whether it is meant for the rest of the session."""
        return self.kind in ("allow_always", "reject_always")


NO_ANSWER: Final = UserAnswer()


def options_for(request: ActionRequest, decision: Decision) -> list[PermissionOption]:
    """The options to offer: once either way, and always where it can be said what that covers."""
    scope = decision.scope
    if scope is None:
        return [
            PermissionOption("allow_once", "Allow", "allow_once"),
            PermissionOption("reject_once", "Reject", "reject_once"),
        ]
    covered = _shortened(str(scope))
    return [
        PermissionOption("allow_once", "Allow", "allow_once"),
        PermissionOption("allow_always", f"Always allow {covered} in this session", "allow_always"),
        PermissionOption("reject_once", "Reject", "reject_once"),
        PermissionOption("reject_always", f"Always reject {covered} in this session", "reject_always"),
    ]


def read_answer(offered: Sequence[PermissionOption], outcome: Any, *, strict: bool = False) -> UserAnswer:
    """What an answer means. `outcome` is what came back, parsed or typed, or the option chosen; anything else is a no."""
    if isinstance(outcome, PermissionOption | PermissionDecision):
        return _by_id(offered, outcome.option_id)
    if isinstance(outcome, SelectedPermissionOutcome | CancelledOutcome):
        outcome = RequestPermissionResponse(outcome)
    try:
        result: Any = to_builtins(outcome)
    except (TypeError, ValueError, RecursionError):
        return NO_ANSWER
    chosen = read_outcome(result, [(option.option_id, option.kind) for option in offered], strict=strict)
    answer = _by_id(offered, chosen.option_id)
    return answer if answer.allowed else UserAnswer(answer.kind, chosen.word)


def _by_id(offered: Sequence[PermissionOption], option_id: str | None) -> UserAnswer:
    """By the kind of the option offered under this id; an id that was offered for two things stands for neither."""
    kinds: set[PermissionOptionKind] = {option.kind for option in offered if option.option_id == option_id}
    return UserAnswer(kinds.pop()) if len(kinds) == 1 else NO_ANSWER


def remember(request: ActionRequest, decision: Decision, answer: UserAnswer) -> None:
    """Keep for the session what the answer leaves behind: an "always", or a host that has now been seen."""
    if answer.allowed and request.url is not None and (host := host_of(request.url)):
        request.grants.allow_host(host)
    if answer.always and decision.scope is not None:
        if answer.allowed:
            request.grants.allow(decision.scope)
        else:
            request.grants.refuse(decision.scope)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 3]}..."
