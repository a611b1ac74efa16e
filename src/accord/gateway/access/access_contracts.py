"""The contracts of what the gateway knows about its users: tokens, browser logins, tickets, devices with
notifications, the audit log.

One machine keeps them in files and in memory; a cluster shares them between its nodes. Each contract has one
test that every implementation passes (tests/gateway/access/access_contract.py). Looking something up reads a
local copy and never waits.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from accord.gateway.access.access_tokens import Token, TokenRights
from accord.gateway.access.audit_log import AuditValue
from accord.gateway.access.push_devices import PushDevice


class Tokens(Protocol):
    """The access tokens. Any process or node may create and revoke them; running gateways notice."""

    async def add(self, token: Token) -> None:
        """Store a token of `new_token`. Raises UsageError."""
        ...

    async def remove(self, id: str) -> Token:
        """Delete the token. Running gateways disconnect its clients. Raises UsageError."""
        ...

    def require_current(self) -> None:
        """Raise RequestRefused if it is not known here which tokens are valid."""
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

    async def log_in(self, token: str, credential: str = "") -> str:
        """Return a new cookie for the token with this id.

        Only the cookie opens the credential that is kept with it. Raises OSError, StoreError.
        """
        ...

    def token(self, cookie: str) -> str | None:
        """Return the id of the cookie's token; None if the cookie is unknown or too old. Never waits."""
        ...

    async def find(self, cookie: str) -> str | None:
        """Like `token`; also finds a cookie that was created elsewhere a moment ago. Raises StoreError."""
        ...

    async def log_out(self, cookie: str) -> None:
        """Delete the cookie. Raises StoreError."""
        ...

    def forget(self, token: str) -> None:
        """Delete all cookies of the token with this id; in a cluster, soon."""
        ...


class RedeemedTicket(NamedTuple):
    """What a ticket stands for."""

    token: str
    """The id of the token."""
    credential: str = ""
    """The token's text, which its owner sent to get the ticket; empty on one machine, which needs no copy."""

    def __repr__(self) -> str:
        return f"RedeemedTicket({self.token!r})"


class Tickets(Protocol):
    """One-time tickets that open a WebSocket. Only hashes are kept."""

    async def issue(self, token: str, origin: str | None = None, credential: str = "") -> str:
        """Return a new ticket for the token with this id, bound to the origin of the page.

        Only the ticket opens the credential that is kept with it. Raises StoreError.
        """
        ...

    async def redeem(self, text: str, origin: str | None = None) -> RedeemedTicket | None:
        """Use up the ticket and return what it stands for. Of several callers at once, one gets it.

        None if the ticket is unknown, used, too old or from another origin.
        """
        ...


class PushDevices(Protocol):
    """The browsers that get notifications by Web Push."""

    async def server_secret(self, new: Callable[[], bytes]) -> bytes:
        """Return the secret that all gateways sign with; store that of `new` if there is none yet.

        Raises OSError, StoreError, BadSettings.
        """
        ...

    async def add(self, device: PushDevice) -> None:
        """Store a device, or its new choice of events. The oldest of its token may be dropped for it.

        Raises RequestRefused if it belongs to another user, OSError, StoreError.
        """
        ...

    def find(self, id: str) -> PushDevice | None:
        """Return the device with this id; None if there is none. Never waits."""
        ...

    def all(self) -> list[PushDevice]:
        """List the devices, the oldest first. Never waits."""
        ...

    async def remove(self, id: str) -> None:
        """Delete a device, if it exists. Raises StoreError."""
        ...

    def forget(self, token: str) -> None:
        """Delete the devices of the token with this id; in a cluster, soon."""
        ...


class AccessState(Protocol):
    """What several gateways know together about their users."""

    @property
    def tokens(self) -> Tokens: ...

    @property
    def browsers(self) -> Browsers: ...

    @property
    def tickets(self) -> Tickets: ...

    @property
    def devices(self) -> PushDevices: ...

    def on_token_change(self, callback: Callable[[], None]) -> None:
        """Call back when another gateway creates or revokes a token."""
        ...


class AuditSink(Protocol):
    """Where the gateway records what was done."""

    def record(self, rights: TokenRights | None, event: str, **values: AuditValue) -> None:
        """Write one line. Never raises and never stops the gateway."""
        ...
