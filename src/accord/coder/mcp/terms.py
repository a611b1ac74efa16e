"""On what terms a server is connected: where it works, what bounds it, who is asked, and who is told what happens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accord.clock import Clock
from accord.coder.mcp.cleaning import Secrets
from accord.coder.mcp.hooks import AcpRequest, McpHooks, McpLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The same for every connection to a server, but for the last two."""

    name: str
    cwd: str
    roots: tuple[str, ...]
    hooks: McpHooks
    limits: McpLimits
    clock: Clock
    environment: Mapping[str, str] | None
    secrets: Secrets
    acp: AcpRequest | None
    lost: Callable[[str], None]
    """The connection is over; why, in one line without the name."""
    stale: Callable[[], None]
    """What the server offers is no longer what it was."""
