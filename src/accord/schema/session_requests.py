"""Session requests (new, load, resume, list, fork, close), modes, config options and slash commands.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from accord.schema.base import (
    IN_ORDER,
    UNSET,
    UNSTABLE,
    Choice,
    Items,
    KnownValues,
    Lenient,
    Object,
    Opt,
    OrEmpty,
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigValueId,
    SessionId,
    SessionModeId,
    Strict,
    Unstable,
    unstable,
)
from accord.schema.content import ContentBlock
from accord.schema.mcp import McpServer

# The message types of this module, which `accord.schema` exports.
__all__ = [
    "ArchiveSessionRequest", "ArchiveSessionResponse", "AvailableCommand", "AvailableCommandInput",
    "AvailableCommandsUpdate", "CloseSessionRequest", "CloseSessionResponse", "ConfigOptionUpdate",
    "CurrentModeUpdate", "DeleteSessionRequest", "DeleteSessionResponse", "ForkSessionRequest",
    "ForkSessionResponse", "ListSessionsRequest", "ListSessionsResponse", "LoadSessionRequest",
    "LoadSessionResponse", "NewSessionRequest", "NewSessionResponse", "ResumeSessionRequest",
    "ResumeSessionResponse", "SessionArchiveFilter", "SessionConfigBoolean", "SessionConfigOption",
    "SessionConfigOptionCategory", "SessionConfigSelect", "SessionConfigSelectGroup",
    "SessionConfigSelectOption", "SessionConfigSelectOptions", "SessionInfo", "SessionMode",
    "SessionModeState", "SessionStatus", "SessionStatusRequest", "SessionStatusResponse",
    "SetSessionConfigOptionRequest", "SetSessionConfigOptionResponse", "SetSessionModeRequest",
    "SetSessionModeResponse", "SetSessionTitleRequest", "SetSessionTitleResponse", "SystemPrompt",
    "SystemPromptMode", "UnarchiveSessionRequest", "UnarchiveSessionResponse", "UnstructuredCommandInput",
]  # fmt: skip


# Modes, and the config options that replace them.


class SessionMode(Object):
    """A way of working, such as asking first."""

    id: SessionModeId
    name: str
    description: Opt[str | None] = UNSET


class SessionModeState(Object):
    """The available modes and the current one."""

    current_mode_id: SessionModeId
    available_modes: Lenient[Items[SessionMode]]


class CurrentModeUpdate(Object, tag_field="sessionUpdate", tag="current_mode_update"):
    """The agent changed the mode. Any time in a session with modes."""

    current_mode_id: SessionModeId


class SetSessionModeRequest(Object):
    """Change the mode. Also possible during a turn."""

    session_id: SessionId
    mode_id: SessionModeId


class SetSessionModeResponse(Object):
    """The mode is set."""


SessionConfigOptionCategory: TypeAlias = Annotated[
    str, KnownValues("mode", "model", "model_config", "thought_level")
]
"""Where a user interface shows the option. Names of vendors start with an underscore."""


class SessionConfigSelectOption(Object):
    """One value to choose."""

    value: SessionConfigValueId
    name: str
    description: Opt[str | None] = UNSET


class SessionConfigSelectGroup(Object):
    """Values under a common heading."""

    group: SessionConfigGroupId
    name: str
    options: Lenient[Items[SessionConfigSelectOption]]


SessionConfigSelectOptions: TypeAlias = Choice[
    list[SessionConfigSelectOption] | list[SessionConfigSelectGroup], IN_ORDER
]
"""Either all plain values or all groups, never mixed."""


class SessionConfigSelect(Object, tag_field="type", tag="select"):
    """An option with one of several values."""

    id: SessionConfigId
    name: str
    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions
    description: Opt[str | None] = UNSET
    category: Opt[SessionConfigOptionCategory | None] = UNSET


class SessionConfigBoolean(Object, tag_field="type", tag="boolean"):
    """A boolean option. Only for clients that support it."""

    id: SessionConfigId
    name: str
    current_value: bool
    description: Opt[str | None] = UNSET
    category: Opt[SessionConfigOptionCategory | None] = UNSET


SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean
"""A setting of a session: a list of values, or on and off."""


class ConfigOptionUpdate(Object, tag_field="sessionUpdate", tag="config_option_update"):
    """All options with their values. Sent if one changed without a request of the client."""

    config_options: Lenient[Items[SessionConfigOption]]


class SetSessionConfigOptionRequest(Object):
    """Set one option: to the id of a value, or, with `type="boolean"`, to true or false."""

    session_id: SessionId
    config_id: SessionConfigId
    value: SessionConfigValueId | bool
    type: Opt[Literal["boolean"]] = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) and self.type != "boolean":
            raise ValueError("a true or false value needs type 'boolean'")


class SetSessionConfigOptionResponse(Object):
    """All options after the change, because one choice may change others."""

    config_options: Lenient[Items[SessionConfigOption]]


# Sessions: new, load, resume, list, close, delete, and unstable methods.

SystemPromptMode: TypeAlias = Annotated[str, KnownValues("append", "override"), UNSTABLE]
"""Unstable. An agent rejects an unknown mode."""


@unstable
class SystemPrompt(Object):
    """Unstable.

    Instructions in addition to the agent's own, or instead of them. At least one text block, only text.
    """

    mode: SystemPromptMode
    content: list[ContentBlock]


class NewSessionRequest(Object):
    """Create a session that works in an absolute directory."""

    cwd: str
    mcp_servers: OrEmpty[list[McpServer]]
    additional_directories: Strict[OrEmpty[list[str]]] = UNSET
    system_prompt: Unstable[Strict[SystemPrompt | None]] = UNSET


class NewSessionResponse(Object):
    """The new session and its options."""

    session_id: SessionId
    modes: Opt[SessionModeState | None] = UNSET
    config_options: Opt[Items[SessionConfigOption] | None] = UNSET


class LoadSessionRequest(Object):
    """Load a stored session. The agent replays its history before it answers."""

    session_id: SessionId
    cwd: str
    mcp_servers: OrEmpty[list[McpServer]]
    additional_directories: Strict[OrEmpty[list[str]]] = UNSET
    system_prompt: Unstable[Strict[SystemPrompt | None]] = UNSET


class LoadSessionResponse(Object):
    """The session is loaded and its history was replayed."""

    modes: Opt[SessionModeState | None] = UNSET
    config_options: Opt[Items[SessionConfigOption] | None] = UNSET


class ResumeSessionRequest(Object):
    """Resume a stored session without a replay."""

    session_id: SessionId
    cwd: str
    mcp_servers: Strict[OrEmpty[list[McpServer]]] = UNSET
    additional_directories: Strict[OrEmpty[list[str]]] = UNSET
    system_prompt: Unstable[Strict[SystemPrompt | None]] = UNSET


class ResumeSessionResponse(Object):
    """The session can be prompted again."""

    modes: Opt[SessionModeState | None] = UNSET
    config_options: Opt[Items[SessionConfigOption] | None] = UNSET


class CloseSessionRequest(Object):
    """Cancel what runs in the session and close it. Its history stays."""

    session_id: SessionId


class CloseSessionResponse(Object):
    """The session is closed."""


class DeleteSessionRequest(Object):
    """Delete the session from the list permanently."""

    session_id: SessionId


class DeleteSessionResponse(Object):
    """The session is deleted, or was not listed."""


SessionArchiveFilter: TypeAlias = Annotated[str, KnownValues("exclude", "include", "only"), UNSTABLE]
"""Unstable. Absent means `exclude`. An agent rejects an unknown filter."""


class ListSessionsRequest(Object):
    """Get one page of sessions, optionally of one directory. The cursor is opaque."""

    cwd: Strict[str | None] = UNSET
    cursor: Strict[str | None] = UNSET
    archived: Unstable[Strict[SessionArchiveFilter | None]] = UNSET


class SessionInfo(Object):
    """A session in a list."""

    session_id: SessionId
    cwd: str
    additional_directories: Opt[Items[str]] = UNSET
    title: Opt[str | None] = UNSET
    updated_at: Opt[str | None] = UNSET
    archived: Unstable[Opt[bool | None]] = UNSET


class ListSessionsResponse(Object):
    """A page of sessions. Without a cursor it is the last."""

    sessions: Lenient[Items[SessionInfo]]
    next_cursor: Opt[str | None] = UNSET


@unstable
class ForkSessionRequest(Object):
    """Unstable. Create a session with the context of another one."""

    session_id: SessionId
    cwd: str
    mcp_servers: Strict[OrEmpty[list[McpServer]]] = UNSET
    additional_directories: Strict[OrEmpty[list[str]]] = UNSET
    system_prompt: Strict[SystemPrompt | None] = UNSET


@unstable
class ForkSessionResponse(Object):
    """Unstable. The new session; it can be prompted at once."""

    session_id: SessionId
    modes: Opt[SessionModeState | None] = UNSET
    config_options: Opt[Items[SessionConfigOption] | None] = UNSET


OpeningResponse: TypeAlias = (
    NewSessionResponse | LoadSessionResponse | ResumeSessionResponse | ForkSessionResponse
)
"""The responses that open a session."""


@unstable
class ArchiveSessionRequest(Object):
    """Unstable. Close the session and hide it from the default list."""

    session_id: SessionId


@unstable
class ArchiveSessionResponse(Object):
    """Unstable. The session is archived."""


@unstable
class UnarchiveSessionRequest(Object):
    """Unstable. Show the session in the default list again, without loading it."""

    session_id: SessionId


@unstable
class UnarchiveSessionResponse(Object):
    """Unstable. The session is listed again."""


SessionStatus: TypeAlias = Annotated[str, KnownValues("open", "saved"), UNSTABLE]
"""Unstable. Any other value counts as `saved`."""


@unstable
class SessionStatusRequest(Object):
    """Unstable. Ask whether the agent holds the session in memory. Changes nothing."""

    session_id: SessionId


@unstable
class SessionStatusResponse(Object):
    """Unstable. The state at this moment."""

    status: SessionStatus


@unstable
class SetSessionTitleRequest(Object):
    """Unstable. Give a session a title, whether it is active or not."""

    session_id: SessionId
    title: str


@unstable
class SetSessionTitleResponse(Object):
    """Unstable. The title as the agent stored it."""

    title: str


# Slash commands, which the user types as `/name`. They are sent as ordinary prompt text.


class UnstructuredCommandInput(Object):
    """Free text after the name of the command. The hint describes it."""

    hint: str


AvailableCommandInput: TypeAlias = UnstructuredCommandInput
"""What a slash command takes after its name."""


class AvailableCommand(Object):
    """A command, without its slash."""

    name: str
    description: str
    input: Opt[AvailableCommandInput | None] = UNSET


class AvailableCommandsUpdate(Object, tag_field="sessionUpdate", tag="available_commands_update"):
    """All commands. Replaces the previous list. Any time after the session exists."""

    available_commands: Lenient[Items[AvailableCommand]]
