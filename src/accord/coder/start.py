"""How the coding agent is started: what the command line, or a program that embeds it, has decided."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from accord.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from pathlib import Path

    from accord.coder.models import Resolver
    from accord.store import Store


class Start(Struct, frozen=True, kw_only=True):
    """What was asked for; what is None is found in the environment and the config."""

    model: str | None = None
    """As `provider:name`."""
    mode: str | None = None
    """The mode that new sessions begin in."""
    resume: str | Literal[True] | None = None
    """What the first `session/new` continues: a session by its id, or the newest of its folder."""
    store: "Path | Store | None" = None
    """Where sessions are kept: a file, or a store of the embedding program's own."""
    log: "Path | None" = None
    """Where everything that goes over the wire is recorded."""
    strict: bool = False
    """Messages are judged as sent: no dialect is repaired."""
    resolver: "Resolver | None" = None
    """Gives models to programs that embed the agent."""
    environment: Mapping[str, str] | None = None
    """What to read instead of this process's environment."""
    clock: Clock = SYSTEM_CLOCK
