"""Signing in and out, and who is signed in (unstable)."""

from typing import Annotated, TypeAlias

from .base import UNSET, Object
from .ids import AuthMethodId
from .marks import TAG_OR_REST, UNSTABLE, Choice, Items, Known, Opt, OrEmpty, Strict, unstable


class AuthMethodAgent(Object):
    """The agent signs the user in itself, when `authenticate` names this method."""

    id: AuthMethodId
    name: str
    description: Opt[str | None] = UNSET


class AuthMethodTerminal(Object, tag_field="type", tag="terminal"):
    """The client runs the agent's program in a terminal, with these arguments and variables added."""

    id: AuthMethodId
    name: str
    description: Opt[str | None] = UNSET
    args: Strict[OrEmpty[list[str]]] = UNSET
    env: Strict[OrEmpty[dict[str, str]]] = UNSET


AuthMethod: TypeAlias = Choice[AuthMethodTerminal | AuthMethodAgent, TAG_OR_REST]
"""Any type but `terminal` reads as a method of the agent; a broken terminal method never does."""


class AuthenticateRequest(Object):
    """Sign in by one of the agent's own methods. May take as long as the user does."""

    method_id: AuthMethodId


class AuthenticateResponse(Object):
    """The user is signed in."""


class LogoutRequest(Object):
    """Sign out."""


class LogoutResponse(Object):
    """The user is signed out."""


AuthState: TypeAlias = Annotated[
    str, Known("authenticated", "unauthenticated", "not_required", "unknown"), UNSTABLE
]
"""Unstable. Any other value counts as `unknown`."""


@unstable
class AuthAccount(Object):
    """Unstable. An account, for display only: neither an identifier nor for logs."""

    label: str
    active: Opt[bool | None] = UNSET
    name: Opt[str | None] = UNSET
    email: Opt[str | None] = UNSET
    organization: Opt[str | None] = UNSET


@unstable
class AuthStatusRequest(Object):
    """Unstable. Is somebody signed in? Changes nothing."""


@unstable
class AuthStatusResponse(Object):
    """Unstable. Act on the state alone."""

    state: AuthState
    accounts: Opt[Items[AuthAccount]] = UNSET


@unstable
class AuthStatusUpdateNotification(Object):
    """Unstable. The answer of `auth/status` changed. Any time after `initialize`."""

    state: AuthState
    accounts: Opt[Items[AuthAccount]] = UNSET
