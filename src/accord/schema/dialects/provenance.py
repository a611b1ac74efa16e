"""What a repair leaves behind in `_meta`, so that nobody mistakes a repaired value for one that was sent.

A tool call's `kind` holds only what the peer sent in official spelling: a repaired kind goes to `_meta` and is for
display. A permission option's `kind` is required, so a repaired one stands in place and the option is marked. A policy
that approves by itself asks `official_kind`, for the tool call and for the option it picks.
"""

from typing import Any, Final, TypeGuard

DISPLAY_KIND: Final = "accord/displayKind"
KIND_AS_SENT: Final = "accord/kindAsSent"
FINAL_TEXT: Final = "accord/finalText"
STOP_REASON_AS_SENT: Final = "accord/stopReasonAsSent"
SET_BY: Final = "accord/setBy"
FORMAT_AS_SENT: Final = "accord/formatAsSent"
VARIABLES: Final = "accord/variables"

TOOL_KINDS: Final = frozenset(
    ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
)
OPTION_KINDS: Final = frozenset(("allow_once", "allow_always", "reject_once", "reject_always"))


def _mark(carrier: Any, key: str) -> Any:
    meta = getattr(carrier, "meta", None)
    return meta.get(key) if _is_object(meta) else None


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def official_kind(carrier: Any) -> str | None:
    """The `kind` of a tool call or a permission option if the peer sent it as such; None if absent or repaired."""
    kind = getattr(carrier, "kind", None)
    if not isinstance(kind, str) or kind not in TOOL_KINDS | OPTION_KINDS:
        return None
    meta = getattr(carrier, "meta", None)
    return None if _is_object(meta) and KIND_AS_SENT in meta else kind


def display_kind(tool_call: Any) -> str:
    """The kind to show for a tool call: as sent, else as repaired, else `other`. Never a ground for approval."""
    kind = getattr(tool_call, "kind", None)
    if isinstance(kind, str) and kind in TOOL_KINDS:
        return kind
    repaired = _mark(tool_call, DISPLAY_KIND)
    return repaired if isinstance(repaired, str) and repaired in TOOL_KINDS else "other"


def final_text(prompt_response: Any) -> str | None:
    """The text of a peer that puts the whole message into the prompt's result; show it if no chunk came (row 3)."""
    text = _mark(prompt_response, FINAL_TEXT)
    return text if isinstance(text, str) else None


def stop_reason_as_sent(prompt_response: Any) -> str | None:
    """The peer's own word where the stop reason had to be replaced by `end_turn` (rows 4 and 5)."""
    reason = _mark(prompt_response, STOP_REASON_AS_SENT)
    return reason if isinstance(reason, str) else None


def variables(auth_method: Any) -> list[str] | None:
    """The variables of the environment that an `env_var` method wants set; None for any other method (row 205)."""
    names = _mark(auth_method, VARIABLES)
    return names if isinstance(names, list) else None  # pyright: ignore[reportUnknownVariableType]


def set_by(config_option: Any) -> str | None:
    """`session/set_model` for an option made from a `models` object: that peer knows no other way to set it (row 42)."""
    method = _mark(config_option, SET_BY)
    return method if method == "session/set_model" else None
