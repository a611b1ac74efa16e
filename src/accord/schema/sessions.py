"""The life of a session: new, load, resume, list, close, delete, and the unstable methods around them."""

from typing import Annotated, TypeAlias

from .base import UNSET, Object
from .config import SessionConfigOption, SessionModeState
from .content import ContentBlock
from .ids import SessionId
from .marks import UNSTABLE, Items, Known, Lenient, Opt, OrEmpty, Strict, Unstable, unstable
from .mcp import McpServer

SystemPromptMode: TypeAlias = Annotated[str, Known("append", "override"), UNSTABLE]
"""Unstable. An agent refuses a mode it does not know."""


@unstable
class SystemPrompt(Object):
    """Unstable. Instructions beside, or instead of, the agent's own. Text blocks only, at least one."""

    mode: SystemPromptMode
    content: list[ContentBlock]


class NewSessionRequest(Object):
    """Create a session that works in an absolute directory."""

    cwd: str
    mcp_servers: OrEmpty[list[McpServer]]
    additional_directories: Strict[OrEmpty[list[str]]] = UNSET
    system_prompt: Unstable[Strict[SystemPrompt | None]] = UNSET


class NewSessionResponse(Object):
    """The new session and what can be set in it."""

    session_id: SessionId
    modes: Opt[SessionModeState | None] = UNSET
    config_options: Opt[Items[SessionConfigOption] | None] = UNSET


class LoadSessionRequest(Object):
    """Take a stored session up again; the agent replays its history before it answers."""

    session_id: SessionId
    cwd: str
    mcp_servers: OrEmpty[list[McpServer]]
    additional_directories: Strict[OrEmpty[list[str]]] = UNSET
    system_prompt: Unstable[Strict[SystemPrompt | None]] = UNSET


class LoadSessionResponse(Object):
    """The session is loaded, its history replayed."""

    modes: Opt[SessionModeState | None] = UNSET
    config_options: Opt[Items[SessionConfigOption] | None] = UNSET


class ResumeSessionRequest(Object):
    """Take a stored session up again without a replay."""

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
    """Cancel what runs in the session and free it. Its history stays."""

    session_id: SessionId


class CloseSessionResponse(Object):
    """The session is closed."""


class DeleteSessionRequest(Object):
    """Remove the session from the list for good."""

    session_id: SessionId


class DeleteSessionResponse(Object):
    """The session is listed no more, or never was."""


SessionArchiveFilter: TypeAlias = Annotated[str, Known("exclude", "include", "only"), UNSTABLE]
"""Unstable. Absent means `exclude`; an agent refuses a filter it does not know."""


class ListSessionsRequest(Object):
    """One page of the sessions there are, possibly of one directory only. The cursor is the agent's own."""

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
    """A page of sessions; no cursor means that it was the last."""

    sessions: Lenient[Items[SessionInfo]]
    next_cursor: Opt[str | None] = UNSET


@unstable
class ForkSessionRequest(Object):
    """Unstable. Create a session that begins with another one's context."""

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


@unstable
class ArchiveSessionRequest(Object):
    """Unstable. Close the session and hide it from the ordinary list."""

    session_id: SessionId


@unstable
class ArchiveSessionResponse(Object):
    """Unstable. The session is archived."""


@unstable
class UnarchiveSessionRequest(Object):
    """Unstable. Show the session in the ordinary list again, without loading it."""

    session_id: SessionId


@unstable
class UnarchiveSessionResponse(Object):
    """Unstable. The session is listed again."""


SessionStatus: TypeAlias = Annotated[str, Known("open", "saved"), UNSTABLE]
"""Unstable. Any other value counts as `saved`."""


@unstable
class SessionStatusRequest(Object):
    """Unstable. Does the agent hold the session in memory? Changes nothing."""

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
