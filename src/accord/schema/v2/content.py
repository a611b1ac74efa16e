"""Content blocks, tool calls, diffs and terminals of ACP version 2. Imported on first use."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from accord.schema.base import (
    UNSET,
    Double,
    Int64,
    Items,
    KnownValues,
    MessageId,
    NumberFormat,
    Object,
    Open,
    Opt,
    Record,
    SessionId,
    TerminalId,
    ToolCallId,
    Uint64,
)
from accord.schema.content import (
    AudioContent,
    Content,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    Terminal,
    TextContent,
)

# The message types of this module, which `accord.schema.v2` exports.
__all__ = [
    "AbsolutePath", "AnnotationsV2", "CancelSessionNotification", "CancelTerminalRequest",
    "CancelTerminalResponse", "CancelToolCallRequest", "CancelToolCallResponse", "ContentBlockV2", "DiffAdd",
    "DiffChange", "DiffCopy", "DiffDelete", "DiffFileType", "DiffModify", "DiffMove", "DiffPatch",
    "DiffPatchFormat", "DiffPathChange", "DiffPathPairChange", "DiffV2", "Icon", "IconTheme", "MediaType",
    "PromptResponseV2", "ResourceLinkV2", "RoleV2", "TerminalCancelCapabilities", "TerminalCapabilities",
    "TerminalExitStatusV2", "TerminalOutput", "TerminalSize", "ToolCallCancelCapabilities",
    "ToolCallCapabilities", "ToolCallContentV2", "ToolCallLocationV2", "ToolCallStatusV2", "ToolCallUpdateV2",
    "ToolKindV2",
]  # fmt: skip


AbsolutePath: TypeAlias = str
"""A path in the native syntax of the agent's machine, never a URI."""

MediaType: TypeAlias = str
"""A media type such as `text/plain`."""

RoleV2: TypeAlias = Annotated[str, KnownValues("assistant", "user")]
"""Whom a content block is for."""


class AnnotationsV2(Object):
    """Hints about the audience and priority of a block."""

    audience: Opt[Items[RoleV2] | None] = UNSET
    last_modified: Opt[str | None] = UNSET
    priority: Opt[Double | None] = UNSET


IconTheme: TypeAlias = Annotated[str, KnownValues("light", "dark")]
"""The background that an icon is made for."""


class Icon(Object):
    """An image for a link. `src` is an `https:` or `data:` address."""

    src: str
    mime_type: Opt[MediaType | None] = UNSET
    sizes: Opt[Items[str] | None] = UNSET
    theme: Opt[IconTheme | None] = UNSET


class ResourceLinkV2(ResourceLink, tag_field="type", tag="resource_link"):
    """A link to something that the agent can fetch, possibly with icons."""

    size: Opt[Uint64 | None] = UNSET
    icons: Opt[Items[Icon] | None] = UNSET


ContentBlockV2: TypeAlias = Open[
    TextContent | ImageContent | AudioContent | ResourceLinkV2 | EmbeddedResource
]
"""A part of a prompt or a message: text, image, audio, link or embedded file."""


# Prompts.


class PromptResponseV2(Object):
    """The prompt is in the conversation, as the user message with this id. The work may only begin."""

    message_id: MessageId


class CancelSessionNotification(Object):
    """Ends the foreground work of a session, and its held prompts. Background work continues."""

    session_id: SessionId


# Diffs.

DiffFileType: TypeAlias = Annotated[str, KnownValues("text", "binary", "directory", "symlink")]
"""What was changed."""


class DiffPathChange(Record):
    """The path of an added, deleted or modified file."""

    path: AbsolutePath


class DiffPathPairChange(Record):
    """The paths of a moved or copied file."""

    old_path: AbsolutePath
    path: AbsolutePath


class FileChange(Object):
    """A change of the file at one path."""

    path: AbsolutePath
    file_type: Opt[DiffFileType | None] = UNSET
    mime_type: Opt[MediaType | None] = UNSET


class DiffAdd(FileChange, tag_field="operation", tag="add"):
    """A new file."""


class DiffDelete(FileChange, tag_field="operation", tag="delete"):
    """A file that was deleted."""


class DiffModify(FileChange, tag_field="operation", tag="modify"):
    """A file with another content."""


class FilePairChange(Object):
    """A change that has a source and a target."""

    old_path: AbsolutePath
    path: AbsolutePath
    file_type: Opt[DiffFileType | None] = UNSET
    mime_type: Opt[MediaType | None] = UNSET


class DiffMove(FilePairChange, tag_field="operation", tag="move"):
    """A file that was moved."""


class DiffCopy(FilePairChange, tag_field="operation", tag="copy"):
    """A file that was copied."""


DiffChange: TypeAlias = Open[DiffAdd | DiffDelete | DiffModify | DiffMove | DiffCopy]
"""What happened to one file."""

DiffPatchFormat: TypeAlias = Annotated[str, KnownValues("git_patch")]
"""The format of a patch."""


class DiffPatch(Object):
    """The changed lines. In a `git_patch` the paths are absolute and have no `a/` and `b/` in front."""

    format: DiffPatchFormat
    text: str


class DiffV2(Object, tag_field="type", tag="diff"):
    """Changes of files, if possible with the changed lines."""

    changes: Items[DiffChange]
    patch: Opt[DiffPatch | None] = UNSET


# Tool calls.

ToolKindV2: TypeAlias = Annotated[
    str,
    KnownValues(
        "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
    ),
]
"""The kind of work, for icons and policies. Absent means `other`."""

ToolCallStatusV2: TypeAlias = Annotated[
    str, KnownValues("pending", "in_progress", "paused", "completed", "failed", "cancelled")
]
"""The progress of a call. An unknown value counts as in progress."""

ToolCallContentV2: TypeAlias = Open[Content | DiffV2 | Terminal]
"""The content of a tool call: a content block, a diff or a terminal of the agent."""

Line: TypeAlias = Annotated[int, Meta(ge=1, le=2**32 - 1), NumberFormat("1..4294967295")]


class ToolCallLocationV2(Object):
    """A file that the call works on, so that an editor can follow. Lines start at 1."""

    path: AbsolutePath
    line: Opt[Line | None] = UNSET


class ToolCallCancelCapabilities(Object):
    """`tool_call/cancel` is possible."""


class ToolCallCapabilities(Object):
    """What the client can do with a call at present."""

    cancel: Opt[ToolCallCancelCapabilities | None] = UNSET


class ToolCallUpdateV2(Object):
    """Creates or changes a tool call: absent keeps, null clears, a value replaces.

    Permission requests contain this untagged form; the session update is `ToolCallChangeV2`.
    """

    tool_call_id: ToolCallId
    title: Opt[str | None] = UNSET
    kind: Opt[ToolKindV2 | None] = UNSET
    status: Opt[ToolCallStatusV2 | None] = UNSET
    content: Opt[Items[ToolCallContentV2] | None] = UNSET
    locations: Opt[Items[ToolCallLocationV2] | None] = UNSET
    raw_input: Opt[Any] = UNSET
    raw_output: Opt[Any] = UNSET
    name: Opt[str | None] = UNSET
    capabilities: Opt[ToolCallCapabilities | None] = UNSET


class CancelToolCallRequest(Object):
    """Ask to stop one tool call, which must have announced that this is possible."""

    session_id: SessionId
    tool_call_id: ToolCallId


class CancelToolCallResponse(Object):
    """The request is accepted. The final status of the call comes as an update."""


# Terminals of the agent, which a client shows.


class TerminalOutput(Object):
    """All output of a terminal, base64 encoded."""

    data: str


class TerminalExitStatusV2(Object):
    """How a command ended: a code, or the signal that ended it."""

    exit_code: Opt[Int64 | None] = UNSET
    signal: Opt[str | None] = UNSET


Size: TypeAlias = Annotated[int, Meta(ge=1, le=65535), NumberFormat("1..65535")]


class TerminalSize(Object):
    """The columns and rows of a terminal."""

    cols: Size
    rows: Size


class TerminalCancelCapabilities(Object):
    """`terminal/cancel` is possible."""


class TerminalCapabilities(Object):
    """What the client can do with a terminal at present."""

    cancel: Opt[TerminalCancelCapabilities | None] = UNSET


class CancelTerminalRequest(Object):
    """Ask to stop the command of a terminal, which must have announced that this is possible."""

    session_id: SessionId
    terminal_id: TerminalId


class CancelTerminalResponse(Object):
    """The request is accepted. The exit status comes as an update."""
