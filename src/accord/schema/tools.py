"""Tool calls: what the agent does between its words, and how far it has come."""

from typing import Any, Literal, TypeAlias

from .base import UNSET, Object
from .content import ContentBlock
from .ids import TerminalId, ToolCallId
from .marks import Items, Opt, Uint32

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
"""What sort of work a call is, for icons and policies; absent means `other`."""

ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
"""How far a call is; absent on creation means `pending`."""


class Content(Object, tag_field="type", tag="content"):
    """One content block as output of a tool."""

    content: ContentBlock


class Diff(Object, tag_field="type", tag="diff"):
    """A change of one file. No old text means that the file is new."""

    path: str
    new_text: str
    old_text: Opt[str | None] = UNSET


class Terminal(Object, tag_field="type", tag="terminal"):
    """A terminal of the client, shown live inside the tool call, also after its release."""

    terminal_id: TerminalId


ToolCallContent: TypeAlias = Content | Diff | Terminal


class ToolCallLocation(Object):
    """A file the call is about, so that an editor can follow along. Lines count from 1."""

    path: str
    line: Opt[Uint32 | None] = UNSET


class ToolCall(Object, tag_field="sessionUpdate", tag="tool_call"):
    """A tool call begins. Comes before any change of that call, during a turn or a replay."""

    tool_call_id: ToolCallId
    title: str
    kind: Opt[ToolKind] = UNSET
    status: Opt[ToolCallStatus] = UNSET
    content: Opt[Items[ToolCallContent]] = UNSET
    locations: Opt[Items[ToolCallLocation]] = UNSET
    raw_input: Opt[Any] = UNSET
    raw_output: Opt[Any] = UNSET
    name: Opt[str | None] = UNSET


class ToolCallUpdate(Object):
    """What changed in a tool call; absent and null both mean unchanged. Lists replace the old ones whole.

    This untagged form travels inside permission requests; as a session update it is `ToolCallChange`.
    """

    tool_call_id: ToolCallId
    title: Opt[str | None] = UNSET
    kind: Opt[ToolKind | None] = UNSET
    status: Opt[ToolCallStatus | None] = UNSET
    content: Opt[Items[ToolCallContent] | None] = UNSET
    locations: Opt[Items[ToolCallLocation] | None] = UNSET
    raw_input: Opt[Any] = UNSET
    raw_output: Opt[Any] = UNSET
    name: Opt[str | None] = UNSET


class ToolCallChange(ToolCallUpdate, tag_field="sessionUpdate", tag="tool_call_update"):
    """A tool call changed. Comes after its `ToolCall`, until the call is completed or failed."""
