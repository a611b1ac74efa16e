"""Permission answers: which offered option, if any, did the client choose? Everything doubtful is a no.

The official answer is nested: `{"outcome": {"outcome": "selected", "optionId": id}}`. A tolerant reader also
takes rows 24-26 of the dialect table, and there only an offered id approves, or a kind that exactly one
offered option has. Comparison is exact: no folding of case, no trimming, no guess from the only option there
is. The reason of a refusal is read leniently, because it decides nothing.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from accord.schema.dialects.json_members import OPTION_KINDS, is_object

_YES_WORDS: Final = frozenset(("selected", "allowed", "approved"))
_NO_WORDS: Final = frozenset(("denied", "rejected"))
# Words of the answer itself never name an option, even where an option has such an id.
_RESERVED: Final = _YES_WORDS | _NO_WORDS | {"cancelled", "canceled"}
_ALLOW_KINDS: Final = frozenset(("allow_once", "allow_always"))
_WORDS_FOR_A_REASON: Final = ("reason", "feedback", "message", "comment")
_LONGEST_WORD: Final = 2000


class PermissionDecision(NamedTuple):
    """The decision. `option_id` is an offered id, or None (cancelled, or not understood).

    Only `allowed` is a yes: a chosen option may well be a rejection.
    """

    option_id: str | None = None
    kind: str | None = None
    rows: tuple[int, ...] = ()
    word: str = ""
    """What was said along with a no: why, or what to do instead."""

    @property
    def allowed(self) -> bool:
        """Whether an offered option with an allow kind was chosen."""
        return self.option_id is not None and self.kind in _ALLOW_KINDS


NO: Final = PermissionDecision()


class _Offer:
    """The options of one request. An id that stands for different kinds names nothing."""

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
        return NO if kind is None else PermissionDecision(option_id, kind, () if row is None else (row,))

    def by_kind(self, kind: str, row: int) -> PermissionDecision:
        """The one option that has this kind; none if several have."""
        ids = self.ids.get(kind, [])
        return self.by_id(ids[0], row) if len(ids) == 1 else NO


def read_outcome(
    result: Any, options: Iterable[tuple[str, str]], *, strict: bool = False
) -> PermissionDecision:
    """Read the `result` of `session/request_permission`, given the offered `(optionId, kind)` pairs."""
    decided = _decided(result, _Offer(options), strict)
    return decided if decided.allowed else decided._replace(word=_word(result, strict))


def _word(result: Any, strict: bool) -> str:
    """Return the reason of a refusal, from `_meta` or, leniently, from other members."""
    places = [place for place in (_member(result, "outcome"), result) if is_object(place)]
    for place in (*(_member(place, "_meta") for place in places), *(() if strict else places)):
        for name in _WORDS_FOR_A_REASON:
            text = _member(place, name)
            if isinstance(text, str) and text.strip():
                return text.strip()[:_LONGEST_WORD]
    return ""


def _member(value: Any, name: str) -> Any:
    return value.get(name) if is_object(value) else None


def _decided(result: Any, offer: _Offer, strict: bool) -> PermissionDecision:
    outcome = _member(result, "outcome")
    if is_object(outcome):
        return _nested(outcome, offer, strict)
    if strict:
        return NO
    if isinstance(result, str):
        return _bare(result, offer)
    if is_object(result) and isinstance(outcome, str):
        return _flat(result, outcome, offer)
    return NO


def _nested(outcome: dict[str, Any], offer: _Offer, strict: bool) -> PermissionDecision:
    if outcome.get("outcome") != "selected":
        return NO
    if "optionId" in outcome or strict:
        return offer.by_id(outcome.get("optionId"))
    return offer.by_id(outcome.get("option_id"), 24)


def _flat(result: dict[str, Any], word: str, offer: _Offer) -> PermissionDecision:
    named = result["optionId"] if "optionId" in result else result.get("option_id")
    if word in _YES_WORDS:
        return offer.by_id(named, 26 if word == "selected" and "optionId" in result else 24)
    if word in _NO_WORDS:
        return offer.by_kind("reject_once", 24)
    chosen = _bare(word, offer)
    contradicts = ("optionId" in result or "option_id" in result) and named != chosen.option_id
    return NO if contradicts else chosen


def _bare(word: str, offer: _Offer) -> PermissionDecision:
    if word in _RESERVED:
        return NO
    by_id = offer.by_id(word, 25)
    if word not in OPTION_KINDS:
        return by_id
    if word in offer.kinds:
        # The id of one option and the kind of another: two readings, so it names neither.
        return by_id if by_id.kind == word else NO
    return offer.by_kind(word, 25)
