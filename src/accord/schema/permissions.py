"""Permissions: the agent asks before it acts, the user (or a policy) answers."""

from typing import Literal, TypeAlias

from .base import Object, Record
from .ids import PermissionOptionId, SessionId
from .tools import ToolCallUpdate

PermissionOptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
"""A hint for the presentation of an option; what was decided is its id."""


class PermissionOption(Object):
    """One answer the user may give."""

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind


class RequestPermissionRequest(Object):
    """May this tool call run? The agent waits for the answer before it acts."""

    session_id: SessionId
    tool_call: ToolCallUpdate
    options: list[PermissionOption]


class CancelledOutcome(Record, tag_field="outcome", tag="cancelled"):
    """Nobody decided: the turn was cancelled. Counts as no."""


class SelectedPermissionOutcome(Object, tag_field="outcome", tag="selected"):
    """One of the offered options was chosen."""

    option_id: PermissionOptionId


RequestPermissionOutcome: TypeAlias = CancelledOutcome | SelectedPermissionOutcome


class RequestPermissionResponse(Object):
    """The user's answer. Whatever cannot be read as one of the two outcomes is a no."""

    outcome: RequestPermissionOutcome
