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
    "AvailableCommandInputV2", "AvailableCommandV2", "AvailableCommandsUpdateV2", "Command",
    "ConfigOptionUpdateV2", "ForkSessionRequestV2", "ForkSessionResponseV2", "ListSessionsResponseV2",
    "McpServerHttpV2", "McpServerStdioV2", "McpServerV2", "NewSessionRequestV2", "NewSessionResponseV2",
    "ReplayFrom", "ReplayFromStart", "ResumeSessionRequestV2", "ResumeSessionResponseV2",
    "SessionConfigBooleanV2", "SessionConfigOptionV2", "SessionConfigSelectGroupV2",
    "SessionConfigSelectOptionsV2", "SessionConfigSelectV2", "SessionInfoV2", "SessionListCursor",
    "SetSessionConfigOptionRequestV2", "SetSessionConfigOptionResponseV2", "TextCommandInput",
]  # fmt: skip


# MCP servers.


class McpServerStdioV2(Object, tag_field="type", tag="stdio"):
    """A server started as a program. Only if the agent says it can."""

    name: str
    command: AbsolutePath
    args: Strict[OrEmpty[list[str]]] = UNSET
    env: Strict[OrEmpty[list[EnvVariable]]] = UNSET


class McpServerHttpV2(Object, tag_field="type", tag="http"):
    """A server reached over HTTP. Only if the agent says it can."""

    name: str
    url: str
    headers: Strict[OrEmpty[list[HttpHeader]]] = UNSET


McpServerV2: TypeAlias = Open[McpServerStdioV2 | McpServerHttpV2 | McpServerAcp]
"""A server that the agent connects to. An agent rejects an unknown type."""


# Config options. They include the mode, with the category `mode`.


class SessionConfigSelectGroupV2(Object):
    """Values under a common heading."""

    group_id: SessionConfigGroupId
    name: str
    options: Lenient[Items[SessionConfigSelectOption]]


SessionConfigSelectOptionsV2: TypeAlias = Choice[
    list[SessionConfigSelectOption] | list[SessionConfigSelectGroupV2], IN_ORDER
]
"""Either all plain values or all groups, never mixed."""


class SessionConfigSelectV2(Object, tag_field="type", tag="select"):
    """An option with one of several values."""

    config_id: SessionConfigId
    name: str
    current_value: SessionConfigValueId
    options: SessionConfigSelectOptionsV2
    description: Opt[str | None] = UNSET
    category: Opt[SessionConfigOptionCategory | None] = UNSET


class SessionConfigBooleanV2(Object, tag_field="type", tag="boolean"):
    """A boolean option."""

    config_id: SessionConfigId
    name: str
    current_value: bool
    description: Opt[str | None] = UNSET
    category: Opt[SessionConfigOptionCategory | None] = UNSET


SessionConfigOptionV2: TypeAlias = Open[SessionConfigSelectV2 | SessionConfigBooleanV2]
"""A setting of a session: a list of values, or on and off."""


class ConfigOptionUpdateV2(Object, tag_field="sessionUpdate", tag="config_option_update"):
    """All options with their values."""

    config_options: Items[SessionConfigOptionV2]


class SetSessionConfigOptionRequestV2(Object):
    """Set one option. `type` says what the value is: `id` for that of a select, or `boolean`."""

    session_id: SessionId
    config_id: SessionConfigId
    type: Annotated[str, KnownValues("id", "boolean")]
    value: Any


class SetSessionConfigOptionResponseV2(Object):
    """All options after the change, because one choice may change others."""

    config_options: Items[SessionConfigOptionV2]


# Slash commands.


class TextCommandInput(Object, tag_field="type", tag="text"):
    """Free text after the name of the command. The hint describes it."""

    hint: str


AvailableCommandInputV2: TypeAlias = Open[TextCommandInput]
"""What a slash command takes after its name."""


class Command(Object, tag_field="type", tag="command"):
    """A command, without its slash."""

    name: str
    description: str
    input: Opt[AvailableCommandInputV2 | None] = UNSET


AvailableCommandV2: TypeAlias = Open[Command]
"""An entry of the list of commands."""


class AvailableCommandsUpdateV2(Object, tag_field="sessionUpdate", tag="available_commands_update"):
    """All commands. Replaces the previous list."""

    available_commands: Items[AvailableCommandV2]


# Sessions.


class NewSessionRequestV2(Object):
    """Create a session that works in an absolute directory."""

    cwd: AbsolutePath
    additional_directories: Strict[OrEmpty[list[AbsolutePath]]] = UNSET
    mcp_servers: Strict[OrEmpty[list[McpServerV2]]] = UNSET
    system_prompt: Unstable[Strict[SystemPrompt | None]] = UNSET


class NewSessionResponseV2(Object):
    """The new session, with its options and commands. It is idle."""

    session_id: SessionId
    config_options: Opt[Items[SessionConfigOptionV2]] = UNSET
    available_commands: Opt[Items[AvailableCommandV2]] = UNSET


class ReplayFromStart(Object, tag_field="type", tag="start"):
    """Replay everything that the agent has kept."""


ReplayFrom: TypeAlias = Open[ReplayFromStart]
"""Where the replay of a history begins. An agent rejects an unknown one."""


class ResumeSessionRequestV2(Object):
    """Continue a stored session, with a replay if `replay_from` says so."""

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Strict[OrEmpty[list[AbsolutePath]]] = UNSET
    mcp_servers: Strict[OrEmpty[list[McpServerV2]]] = UNSET
    replay_from: Strict[ReplayFrom | None] = UNSET
    system_prompt: Unstable[Strict[SystemPrompt | None]] = UNSET


class ResumeSessionResponseV2(Object):
    """The session can be prompted again. A state update came before."""

    config_options: Opt[Items[SessionConfigOptionV2]] = UNSET
    available_commands: Opt[Items[AvailableCommandV2]] = UNSET


SessionListCursor: TypeAlias = str
"""Where the next page of a list begins. Even an empty text is a cursor."""


class SessionInfoV2(Object):
    """A session in a list."""

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Strict[OrEmpty[list[AbsolutePath]]] = UNSET
    title: Opt[str | None] = UNSET
    updated_at: Opt[str | None] = UNSET
    archived: Unstable[Opt[bool | None]] = UNSET


class ListSessionsResponseV2(Object):
    """A page of sessions. Without a cursor it is the last."""

    sessions: Lenient[Items[SessionInfoV2]]
    next_cursor: Strict[SessionListCursor | None] = UNSET


@unstable
class ForkSessionRequestV2(Object):
    """Unstable. Create a session with the context of another one."""

    session_id: SessionId
    cwd: AbsolutePath
    additional_directories: Strict[OrEmpty[list[AbsolutePath]]] = UNSET
    mcp_servers: Strict[OrEmpty[list[McpServerV2]]] = UNSET
    system_prompt: Strict[SystemPrompt | None] = UNSET


@unstable
class ForkSessionResponseV2(Object):
    """Unstable. The new session; it can be prompted at once."""

    session_id: SessionId
    config_options: Opt[Items[SessionConfigOptionV2]] = UNSET
    available_commands: Opt[Items[AvailableCommandV2]] = UNSET
