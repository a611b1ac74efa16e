"""Members that were part of an official schema for a while, so that they are not custom members.

Imported on first use.
"""

import re
from typing import Any, Final, NamedTuple, cast

from accord.schema.content import PromptRequest, PromptResponse
from accord.schema.initialize import InitializeRequest, InitializeResponse
from accord.schema.session_requests import (
    ForkSessionResponse,
    ListSessionsRequest,
    LoadSessionResponse,
    NewSessionResponse,
    ResumeSessionResponse,
    SetSessionModeResponse,
)
from accord.schema.validation import UNKNOWN_MEMBER, Violation


class FormerMember(NamedTuple):
    """A member of these types that later schemas no longer have."""

    types: tuple[type, ...]
    path: str
    """A regular expression for its path."""
    releases: str
    """The releases of the official TypeScript SDK whose schema has it."""
    value: str = ""
    """The value that it had then; empty: any."""


_OPENED: Final = (NewSessionResponse, LoadSessionResponse, ResumeSessionResponse, ForkSessionResponse)
FORMER_MEMBERS: Final = (
    FormerMember((InitializeResponse,), r"authMethods\[\d+\]\.type", "0.15 to 1.3", "env_var"),
    FormerMember((InitializeResponse,), r"authMethods\[\d+\]\.(vars|link)", "0.15 to 1.3"),
    FormerMember((InitializeResponse,), r"agentCapabilities\.(nes|positionEncoding)", "0.18 to 1.8"),
    FormerMember((InitializeResponse,), r"agentCapabilities\.sessionCapabilities\.stop", "0.15 to 0.16"),
    FormerMember(_OPENED, r"models", "0.4 to 0.23"),
    FormerMember((PromptResponse,), r"userMessageId", "0.15 to 0.24"),
    FormerMember((SetSessionModeResponse,), r"meta", "0.3 to 0.4"),
    FormerMember((InitializeRequest,), r"clientCapabilities\.(nes|positionEncodings)", "0.18 to 1.8"),
    FormerMember((InitializeRequest,), r"clientCapabilities\.planCapabilities", "0.23 to 0.24"),
    FormerMember((PromptRequest,), r"messageId", "0.15 to 0.24"),
    FormerMember((ListSessionsRequest,), r"additionalDirectories", "0.18 to 0.21"),
)
"""The members that were removed from the schema."""


def former_member(cls: Any, value: Any, violation: Violation) -> FormerMember | None:
    """Return the former member that a violation in a message of this type is about; None for others."""
    if violation.reason != UNKNOWN_MEMBER:
        return None
    for member in FORMER_MEMBERS:
        if cls in member.types and re.fullmatch(rf"\$\.{member.path}", violation.path):
            return member if not member.value or _value_at(value, violation.path) == member.value else None
    return None


def _value_at(value: Any, path: str) -> Any:
    for step in re.findall(r"\w+", path):
        value = cast(list[Any], value)[int(step)] if isinstance(value, list) else value[step]
    return value
