"""The options of a permission question, what an answer means, and what is remembered.

An answer counts by the kind of the option that was offered under its id. Any other answer is a refusal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

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

_MAX_NAME_CHARS: Final = 120

KeptScope: TypeAlias = Literal["project", "user"]
_KEPT_OPTIONS: Final[dict[str, KeptScope]] = {"allow_project": "project", "allow_user": "user"}
"""The ids of the options whose answers outlast the session."""


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """The user's answer to a permission question."""

    kind: PermissionOptionKind | None = None
    """The kind of the chosen option; None if none was chosen."""
    reason: str = ""
    """The user's reason for a refusal, for the model."""
    option_id: str = ""

    @property
    def kept(self) -> KeptScope | None:
        """Where the answer counts beyond the session."""
        return _KEPT_OPTIONS.get(self.option_id) if self.kind == "allow_always" else None

    @property
    def allowed(self) -> bool:
        return self.kind in ("allow_once", "allow_always")

    @property
    def always(self) -> bool:
        """Whether the answer counts for the rest of the session."""
        return self.kind in ("allow_always", "reject_always")


NO_ANSWER: Final = UserAnswer()


def options_for(
    request: ActionRequest, decision: Decision, *, can_keep: bool = False
) -> list[PermissionOption]:
    """Return the options to offer. "Always" is offered only if its scope is known.

    `can_keep`: the caller can keep an answer for the project or the user. That is not offered for changes of
    the mode, and not for the user if a tool's name may mean another tool in another project (MCP).
    """
    scope = decision.scope
    if scope is None:
        return [
            PermissionOption("allow_once", "Allow", "allow_once"),
            PermissionOption("reject_once", "Reject", "reject_once"),
        ]
    scope_text = _shorten(scope.beside(request.paths, request.directories.cwd))
    always = f"Always allow {scope_text}"
    kept: list[PermissionOption] = []
    if can_keep and request.kind != "switch_mode":
        folder = _shorten(str(request.directories.cwd))
        kept.append(PermissionOption("allow_project", f"{always} in this project ({folder})", "allow_always"))
        if request.category != "external" or request.url is not None:
            kept.append(PermissionOption("allow_user", f"{always} for me, in all folders", "allow_always"))
    return [
        PermissionOption("allow_once", "Allow", "allow_once"),
        PermissionOption("allow_always", f"{always} in this session", "allow_always"),
        PermissionOption("reject_once", "Reject", "reject_once"),
        PermissionOption("reject_always", f"Always reject {scope_text} in this session", "reject_always"),
        *kept,  # last: users know the others by their numbers
    ]


def read_answer(options: Sequence[PermissionOption], outcome: Any, *, strict: bool = False) -> UserAnswer:
    """Interpret an answer.

    `outcome` is the response, parsed or typed, or the chosen option; anything else refuses.
    """
    if isinstance(outcome, PermissionOption | PermissionDecision):
        return _answer_by_id(options, outcome.option_id)
    if isinstance(outcome, SelectedPermissionOutcome | CancelledOutcome):
        outcome = RequestPermissionResponse(outcome)
    try:
        result: Any = to_builtins(outcome)
    except (TypeError, ValueError, RecursionError):
        return NO_ANSWER
    chosen = read_outcome(result, [(option.option_id, option.kind) for option in options], strict=strict)
    answer = _answer_by_id(options, chosen.option_id)
    return answer if answer.allowed else replace(answer, reason=chosen.message)


def _answer_by_id(options: Sequence[PermissionOption], option_id: str | None) -> UserAnswer:
    """Return the kind of the option with this id. An id that was offered for two kinds counts as neither."""
    kinds: set[PermissionOptionKind] = {option.kind for option in options if option.option_id == option_id}
    return UserAnswer(kinds.pop(), option_id=option_id or "") if len(kinds) == 1 else NO_ANSWER


def remember(request: ActionRequest, decision: Decision, answer: UserAnswer) -> None:
    """Store what the answer means for the session: an "always", or a host that is now allowed."""
    if answer.allowed and request.url is not None and (host := host_of(request.url)):
        request.grants.allow_host(host)
    if answer.always and decision.scope is not None:
        if answer.allowed:
            request.grants.allow(decision.scope)
        else:
            request.grants.refuse(decision.scope)


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_NAME_CHARS else f"{text[: _MAX_NAME_CHARS - 3]}..."
