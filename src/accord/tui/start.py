"""What a session on the screen begins with. Light: it is read before anything of the client is imported."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from accord.client.servers import Server
    from accord.client.servers.trusting import Trusting
    from accord.policy.rules import Word
    from accord.wire.remote.dial import Dial

Choose: TypeAlias = "Callable[[str, str, Trusting], Server]"
"""Finds an agent by its name, for work in a folder. For a thread; may raise UsageError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Which agent, where, and what is set."""

    find: "Callable[[Trusting], Server]"
    """Finds the agent; runs in a thread, may ask whether a project's file counts, and may raise UsageError."""
    cwd: str
    remote: "Dial | None" = None
    """Where the agent is, if it is not started here."""
    name: str = ""
    """What to call the agent until it has said so itself."""
    add_dir: tuple[str, ...] = ()
    permissions: "Word | None" = None
    model: str | None = None
    mode: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    session: str | None = None
    """The session to take up."""
    newest: bool = False
    """Take up the newest of the folder."""
