"""The contracts of what the gateway knows about its users: tokens, browser logins, tickets, the audit log.

One machine keeps them in files and in memory; a cluster shares them between its nodes. Each contract has one
test that every implementation passes (tests/gateway/access/access_contract.py). Looking something up reads a
local copy and never waits.
"""

from collections.abc import Iterable
from typing import Protocol

from accord.gateway.access.access_tokens import Token, TokenRights
from accord.gateway.access.audit_log import AuditValue


class Tokens(Protocol):
    """The access tokens. Any process or node may create and revoke them; running gateways notice."""

    def new(
        self,
        name: str = "",
        *,
        agents: Iterable[str] | None = None,
        folders: Iterable[str] | None = None,
        read_only: bool = False,
        allow_mcp: bool | None = None,
        expires: float | None = None,
    ) -> tuple[Token, str]:
        """Create a token. Return it with its full text, which is not stored. Raises UsageError."""
        ...

    def revoke(self, id: str) -> Token:
        """Delete the token. Running gateways disconnect its clients. Raises UsageError."""
        ...

    def all(self) -> list[Token]:
        """List all tokens, oldest first, including expired ones."""
        ...

    def get(self, id: str) -> Token | None:
        """Return the token with this id, expired or not; None if it does not exist."""
        ...

    def find(self, text: str) -> Token | None:
        """Return the valid token with this text; None otherwise. Takes constant time."""
        ...

    def is_valid(self, id: str) -> bool:
        """Whether the token exists and has not expired."""
        ...

    def mark_used(self, token: Token) -> None:
        """Record the use, at most about once a minute. A token that is revoked meanwhile stays revoked."""
        ...

    def last_used(self, token: Token) -> float | None:
        """Return when it was last used; None if never."""
        ...


class Browsers(Protocol):
    """The browsers that are logged in. Only hashes of cookies are kept."""

    def log_in(self, token: str) -> str:
        """Return a new cookie for the token with this id. Raises OSError."""
        ...

    def token(self, cookie: str) -> str | None:
        """Return the id of the cookie's token; None if the cookie is unknown or too old."""
        ...

    def log_out(self, cookie: str) -> None:
        """Delete the cookie."""
        ...

    def forget(self, token: str) -> None:
        """Delete all cookies of the token with this id."""
        ...


class Tickets(Protocol):
    """One-time tickets that open a WebSocket. Only hashes are kept."""

    def issue(self, token: str, origin: str | None = None) -> str:
        """Return a new ticket for the token with this id, bound to the origin of the page."""
        ...

    def redeem(self, text: str, origin: str | None = None) -> str | None:
        """Use up the ticket and return the id of its token.

        None if the ticket is unknown, used, too old or from another origin.
        """
        ...


class AuditSink(Protocol):
    """Where the gateway records what was done."""

    def record(self, rights: TokenRights | None, event: str, **values: AuditValue) -> None:
        """Write one line. Never raises and never stops the gateway."""
        ...
