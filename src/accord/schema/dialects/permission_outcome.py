"""Reads the answer to a permission request: which of the offered options the client selected.

The official answer is `{"outcome": {"outcome": "selected", "optionId": id}}`. A tolerant reader also accepts
rows 24-26 of the dialect table. Only an offered id approves, or a kind that exactly one offered option has.
Ids are compared exactly. Every other answer is a refusal. The reason of a refusal is read leniently, because
it decides nothing.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from accord.schema.dialects.json_members import OPTION_KINDS, is_object

_YES_WORDS: Final = frozenset(("selected", "allowed", "approved"))
_NO_WORDS: Final = frozenset(("denied", "rejected"))
# Words of the answer itself never select an option, even if an option has such an id.
_RESERVED: Final = _YES_WORDS | _NO_WORDS | {"cancelled", "canceled"}
_ALLOW_KINDS: Final = frozenset(("allow_once", "allow_always"))
_APPROVED_BY_ANY_OPTION: Final = frozenset(("iac-code",))
"""Agents, by `agentInfo.name`, that run the tool after every selected option (row 75)."""
_MESSAGE_KEYS: Final = ("reason", "feedback", "message", "comment")
_MAX_MESSAGE: Final = 2000


class PermissionDecision(NamedTuple):
    """The decision. `option_id` is an offered id; None if the request was canceled or the answer is unclear.

    Check `allowed`: the selected option may be a rejection.
    """

    option_id: str | None = None
    kind: str | None = None
    rows: tuple[int, ...] = ()
    message: str = ""
    """The user's comment on a refusal: the reason, or what to do instead."""

    @property
    def allowed(self) -> bool:
        """Whether an offered option with an allow kind was chosen."""
        return self.option_id is not None and self.kind in _ALLOW_KINDS


NO_DECISION: Final = PermissionDecision()


def must_cancel(agent_name: str, kind: str) -> bool:
    """Whether an option of this kind must be sent as `cancelled`: the agent would run what it rejects."""
    return agent_name in _APPROVED_BY_ANY_OPTION and kind not in _ALLOW_KINDS


class _OfferedOptions:
    """The options of one request. An id that has several kinds selects nothing."""

    def __init__(self, options: Iterable[tuple[str, str]]) -> None:
        self.kinds: dict[str, str | None] = {}
        self.ids: dict[str, list[str]] = {}
        for option_id, kind in options:
            same = self.kinds.setdefault(option_id, kind) == kind
            self.kinds[option_id] = kind if same else None
            self.ids.setdefault(kind, []).append(option_id)

    def by_id(self, option_id: Any, row: int | None = None) -> PermissionDecision:
        """The option of exactly this id."""
        kind = self.kinds.get(option_id) if isinstance(option_id, str) else None
        return (
            NO_DECISION
            if kind is None
            else PermissionDecision(option_id, kind, () if row is None else (row,))
        )

    def by_kind(self, kind: str, row: int) -> PermissionDecision:
        """The only option of this kind; no decision if there are several."""
        ids = self.ids.get(kind, [])
        return self.by_id(ids[0], row) if len(ids) == 1 else NO_DECISION


def read_outcome(
    result: Any, options: Iterable[tuple[str, str]], *, strict: bool = False
) -> PermissionDecision:
    """Read the `result` of `session/request_permission`, given the offered `(optionId, kind)` pairs."""
    decision = _read_decision(result, _OfferedOptions(options), strict)
    return decision if decision.allowed else decision._replace(message=_refusal_message(result, strict))


def _refusal_message(result: Any, strict: bool) -> str:
    """Return the reason of a refusal, from `_meta` or, leniently, from other members."""
    places = [place for place in (_member(result, "outcome"), result) if is_object(place)]
    for place in (*(_member(place, "_meta") for place in places), *(() if strict else places)):
        for name in _MESSAGE_KEYS:
            text = _member(place, name)
            if isinstance(text, str) and text.strip():
                return text.strip()[:_MAX_MESSAGE]
    return ""


def _member(value: Any, name: str) -> Any:
    return value.get(name) if is_object(value) else None


def _read_decision(result: Any, offered: _OfferedOptions, strict: bool) -> PermissionDecision:
    outcome = _member(result, "outcome")
    if is_object(outcome):
        return _read_nested(outcome, offered, strict)
    if strict:
        return NO_DECISION
    if isinstance(result, str):
        return _read_bare(result, offered)
    if is_object(result) and isinstance(outcome, str):
        return _read_flat(result, outcome, offered)
    return NO_DECISION


def _read_nested(outcome: dict[str, Any], offered: _OfferedOptions, strict: bool) -> PermissionDecision:
    if outcome.get("outcome") != "selected":
        return NO_DECISION
    if "optionId" in outcome or strict:
        return offered.by_id(outcome.get("optionId"))
    return offered.by_id(outcome.get("option_id"), 24)


def _read_flat(result: dict[str, Any], word: str, offered: _OfferedOptions) -> PermissionDecision:
    option_id = result["optionId"] if "optionId" in result else result.get("option_id")
    if word in _YES_WORDS:
        return offered.by_id(option_id, 26 if word == "selected" and "optionId" in result else 24)
    if word in _NO_WORDS:
        return offered.by_kind("reject_once", 24)
    chosen = _read_bare(word, offered)
    contradicts = ("optionId" in result or "option_id" in result) and option_id != chosen.option_id
    return NO_DECISION if contradicts else chosen


def _read_bare(word: str, offered: _OfferedOptions) -> PermissionDecision:
    if word in _RESERVED:
        return NO_DECISION
    by_id = offered.by_id(word, 25)
    if word not in OPTION_KINDS:
        return by_id
    if word in offered.kinds:
        # The word is the id of one option and the kind of another, so it selects neither.
        return by_id if by_id.kind == word else NO_DECISION
    return offered.by_kind(word, 25)
