"""Sessions of ACP version 2, their MCP servers, config options and commands. Imported on first use."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from accord.schema.base import (
    IN_ORDER,
    UNSET,
    Choice,
    Items,
    KnownValues,
    Lenient,
    Object,
    Open,
    Opt,
    OrEmpty,
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigValueId,
    SessionId,
    Strict,
    Unstable,
    unstable,
)
from accord.schema.client_requests import EnvVariable
from accord.schema.mcp import HttpHeader, McpServerAcp
from accord.schema.session_requests import (
    SessionConfigOptionCategory,
    SessionConfigSelectOption,
    SystemPrompt,
)
from accord.schema.v2.content import AbsolutePath

# The message types of this module, which `accord.schema.v2` exports.
__all__ = [
    "AvailableCommand", "AvailableCommandInput", "AvailableCommandsUpdate", "Command", "ConfigOptionUpdate",
    "ForkSessionRequest", "ForkSessionResponse", "ListSessionsResponse", "McpServer", "McpServerHttp",
    "McpServerStdio", "NewSessionRequest", "NewSessionResponse", "ReplayFrom", "ReplayFromStart",
    "ResumeSessionRequest", "ResumeSessionResponse", "SessionConfigBoolean", "SessionConfigOption",
    "SessionConfigSelect", "SessionConfigSelectGroup", "SessionConfigSelectOptions", "SessionInfo",
    "SessionListCursor", "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse", "TextCommandInput",
]  # fmt: skip


# MCP servers.


class McpServerStdio(Object, tag_field="type", tag="stdio"):
    """A server started as a program. Only if the agent says it can."""

    name: str
    command: AbsolutePath
    args: Strict[OrEmpty[list[str]]] = UNSET
    env: Strict[OrEmpty[list[EnvVariable]]] = UNSET


class McpServerHttp(Object, tag_field="type", tag="http"):
    """A server reached over HTTP. Only if the agent says it can."""

    name: str
    url: str
    headers: Strict[OrEmpty[list[HttpHeader]]] = UNSET


McpServer: TypeAlias = Open[McpServerStdio | McpServerHttp | McpServerAcp]
"""A server that the agent connects to. An agent rejects an unknown type."""


# Config options. They include the mode, with the category `mode`.


class SessionConfigSelectGroup(Object):
    """Values under a common heading."""

    group_id: SessionConfigGroupId
    name: str
    options: Lenient[Items[SessionConfigSelectOption]]


SessionConfigSelectOptions: TypeAlias = Choice[
    list[SessionConfigSelectOption] | list[SessionConfigSelectGroup], IN_ORDER
]
"""Either all plain values or all groups, never mixed."""


class SessionConfigSelect(Object, tag_field="type", tag="select"):
    """An option with one of several values."""

    config_id: SessionConfigId
    name: str
    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions
    description: Opt[str | None] = UNSET
    category: Opt[SessionConfigOptionCategory | None] = UNSET


class SessionConfigBoolean(Object, tag_field="type", tag="boolean"):
    """A boolean option."""

    config_id: SessionConfigId
    name: str
    current_value: bool
    description: Opt[str | None] = UNSET
    category: Opt[SessionConfigOptionCategory | None] = UNSET


SessionConfigOption: TypeAlias = Open[SessionConfigSelect | SessionConfigBoolean]
"""A setting of a session: a list of values, or on and off."""


class ConfigOptionUpdate(Object, tag_field="sessionUpdate", tag="config_option_update"):
    """All options with their values."""

    config_options: Items[SessionConfigOption]


class SetSessionConfigOptionRequest(Object):
    """Set one option. `type` says what the value is: `id` for that of a select, or `boolean`."""

    session_id: SessionId
    config_id: SessionConfigId
    type: Annotated[str, KnownValues("id", "boolean")]
    value: Any


class SetSessionConfigOptionResponse(Object):
    """All options after the change, because one choice may change others."""

    config_options: Items[SessionConfigOption]


# Slash commands.


class TextCommandInput(Object, tag_field="type", tag="text"):
    """Free text after the name of the command. The hint describes it."""

    hint: str


AvailableCommandInput: TypeAlias = Open[TextCommandInput]
"""What a slash command takes after its name."""


class Command(Object, tag_field="type", tag="command"):
    """A command, without its slash."""

    name: str
    description: str
    input: Opt[AvailableCommandInput | None] = UNSET


AvailableCommand: TypeAlias = Open[Command]
"""An entry of the list of commands."""


class AvailableCommandsUpdate(Object, tag_field="sessionUpdate", tag="available_commands_update"):
    """All commands. Replaces the previous list."""

    available_commands: Items[AvailableCommand]


# Sessions.


class NewSessionRequest(Object):
    """Create a session that works in an absolute directory."""

    cwd: AbsolutePath
    additional_directories: Strict[OrEmpty[list[AbsolutePath]]] = UNSET
    mcp_servers: Strict[OrEmpty[list[McpServer]]] = UNSET
    system_prompt: Unstable[Strict[SystemPrompt | None]] = UNSET


class NewSessionResponse(Object):
    """The new session, with its options and commands. It is idle."""

    session_id: SessionId
    config_options: Opt[Items[SessionConfigOption]] = UNSET
    available_commands: Opt[Items[AvailableCommand]] = UNSET


class ReplayFromStart(Object, tag_field="type", tag="start"):
    """Replay everything that the agent has kept."""


ReplayFrom: TypeAlias = Open[ReplayFromStart]
"""Where the replay of a history begins. An agent rejects an unknown one."""


class ResumeSessionRequest(Object):
    """Continue a stored session, with a replay if `replay_from` says so."""

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Strict[OrEmpty[list[AbsolutePath]]] = UNSET
    mcp_servers: Strict[OrEmpty[list[McpServer]]] = UNSET
    replay_from: Strict[ReplayFrom | None] = UNSET
    system_prompt: Unstable[Strict[SystemPrompt | None]] = UNSET


class ResumeSessionResponse(Object):
    """The session can be prompted again. A state update came before."""

    config_options: Opt[Items[SessionConfigOption]] = UNSET
    available_commands: Opt[Items[AvailableCommand]] = UNSET


SessionListCursor: TypeAlias = str
"""Where the next page of a list begins. Even an empty text is a cursor."""


class SessionInfo(Object):
    """A session in a list."""

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Strict[OrEmpty[list[AbsolutePath]]] = UNSET
    title: Opt[str | None] = UNSET
    updated_at: Opt[str | None] = UNSET
    archived: Unstable[Opt[bool | None]] = UNSET


class ListSessionsResponse(Object):
    """A page of sessions. Without a cursor it is the last."""

    sessions: Lenient[Items[SessionInfo]]
    next_cursor: Strict[SessionListCursor | None] = UNSET


@unstable
class ForkSessionRequest(Object):
    """Unstable. Create a session with the context of another one."""

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Strict[OrEmpty[list[AbsolutePath]]] = UNSET
    mcp_servers: Strict[OrEmpty[list[McpServer]]] = UNSET
    system_prompt: Strict[SystemPrompt | None] = UNSET


@unstable
class ForkSessionResponse(Object):
    """Unstable. The new session; it can be prompted at once."""

    session_id: SessionId
    config_options: Opt[Items[SessionConfigOption]] = UNSET
    available_commands: Opt[Items[AvailableCommand]] = UNSET
