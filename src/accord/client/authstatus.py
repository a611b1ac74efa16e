"""Unstable. Who is signed in, as far as an agent tells. Act on the state alone; accounts are for showing."""

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from accord.schema import AuthAccount, AuthStatusResponse, AuthStatusUpdateNotification

SignedIn: TypeAlias = Literal["authenticated", "unauthenticated", "not_required", "unknown"]

_STATES: Final[dict[str, SignedIn]] = {
    "authenticated": "authenticated",
    "unauthenticated": "unauthenticated",
    "not_required": "not_required",
}


@dataclass(frozen=True, slots=True)
class AuthStatus:
    """One report of the agent. A state that nobody knows counts as unknown."""

    state: SignedIn
    accounts: tuple[AuthAccount, ...] = field(default=(), repr=False)
    """Neither identifiers nor for logs, so they are left out of the representation."""

    @staticmethod
    def of(told: AuthStatusResponse | AuthStatusUpdateNotification) -> "AuthStatus":
        """From what the agent sent."""
        return AuthStatus(_STATES.get(told.state, "unknown"), tuple(told.accounts or ()))
