"""The seam between a session and its MCP servers: what the session gives them, what bounds them, how they stand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from accord.errors import AccordError

Status: TypeAlias = Literal["connecting", "ready", "failed", "closed"]


class McpFailure(AccordError):
    """A server could not do what was asked. One line: which server, what it was about, what to do."""


class LinkLost(McpFailure):
    """The connection ended before the answer came."""


class SessionExpired(McpFailure):
    """The server no longer knows us, and did nothing: worth another try over a new connection."""


class McpHooks(Protocol):
    """What a session does for its servers."""

    def changed(self) -> None:
        """Tools, prompts or states are others than before."""
        ...

    def failed(self, name: str, why: str) -> None:
        """A server failed, at its start or later. `why` is one line, without the name."""
        ...

    async def elicit_form(self, message: str, schema: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Let the user fill in a form: what they did (`accept`, `decline`, `cancel`), and what they filled in."""
        ...

    async def elicit_url(self, message: str, url: str) -> str:
        """Let the user open a page: what they did."""
        ...


class AcpRequest(Protocol):
    """Calls a server that the client itself offers; `AgentSession.mcp_request` is one."""

    async def __call__(
        self,
        server_id: str,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_notification: Callable[[str, Mapping[str, Any]], object] | None = None,
    ) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLimits:
    """How much of a server is taken in, and how long it is waited for."""

    connect_seconds: float = 60
    """From its start to its list of tools: the first start by `npx` or `uvx` downloads it."""
    call_seconds: float = 300
    """Without a sign of life. Progress is one; while the user is asked something, time stands still."""
    most_call_seconds: float = 3600
    list_seconds: float = 30
    cancel_seconds: float = 0.5
    """For the word that a call is cancelled to leave."""
    leave_seconds: float = 1.5
    """From the end of the session to SIGTERM, and from there to SIGKILL."""
    refresh_seconds: float = 1
    """Between two looks at the lists of a server that says they changed."""
    restarts: int = 3
    """In a row, without a call that went well between them."""
    message_bytes: int = 32 * 1024 * 1024
    tools: int = 256
    """Of one server; further ones are left out."""
    prompts: int = 128
    resources: int = 1000
    description_chars: int = 8_000
    schema_bytes: int = 100_000
    """Of one tool; one with a larger schema is left out."""
    log_lines: int = 500
    """Of its stderr, and of what it sends for the log, that one connection may fill."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server stands."""

    name: str
    """As tools, titles and commands name it: cleaned, and unique in its session."""
    transport: str
    status: Status
    why: str = ""
    """One line, if it failed."""
    tools: int = 0
    prompts: int = 0
    resources: int = 0
