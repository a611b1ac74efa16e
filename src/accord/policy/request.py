"""The question: may this be done? And the answer."""

import os
import re
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from accord.schema.tools import ToolKind

from .bounds import Bounds
from .grants import Grants, Scope

Category = Literal["read-only", "write", "execute", "external"]
Mode = Literal["read-only", "ask", "workspace-write", "full-access", "plan"]
Effect = Literal["allow", "ask", "deny"]

MODES: Final[tuple[Mode, ...]] = ("read-only", "ask", "workspace-write", "full-access", "plan")
DESCRIPTIONS: Final[dict[Mode, str]] = {
    "read-only": "Reads in the session's folders. Nothing is changed, nothing is run that could change something.",
    "ask": "Reads freely, asks before it writes, runs commands or uses external tools.",
    "workspace-write": "Writes in the session's folders without asking; runs commands unasked only inside the sandbox.",
    "full-access": "Asks for nothing but secrets and what your rules say. Only the hard floor stays.",
    "plan": "Reads and plans. Nothing is changed until you agree to leave this mode.",
}
STRICTNESS: Final[dict[Effect, int]] = {"allow": 0, "ask": 1, "deny": 2}

_HOST: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a tool call is about to do."""

    bounds: Bounds
    tool: str = ""
    """The tool's own name, where it is known."""
    category: Category = "external"
    kind: ToolKind | None = None
    """The official kind. At a client: only as the agent itself sent it, never a repaired or assumed one."""
    paths: tuple[str | os.PathLike[str], ...] = ()
    """The files and folders it touches; relative ones are seen from the working folder."""
    command: str | tuple[str, ...] | None = None
    """What it runs: a line for the shell, or a program with its arguments."""
    cwd: str | os.PathLike[str] | None = None
    """Where it runs, if not in the working folder of the session."""
    url: str | None = None
    """What it fetches."""
    read_only: bool = False
    """Whether an external tool declares that it only reads."""
    sandboxed: bool = False
    """Whether the command will run in a sandbox whose boundary holds."""
    mode: Mode | None = None
    """The session's mode; None at a client, which has rules and a default instead."""
    grants: Grants = field(default_factory=Grants)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about a request."""

    effect: Effect
    reason: str
    """One line, for people and for the model."""
    rule: str
    """What decided: `floor`, a rule by its place, `mode ask`, `secret`, `outside`, `shell`, `always`..."""
    scope: Scope | None = None
    """What an "always" would cover, where one is offered."""

    @property
    def allowed(self) -> bool:
        """Whether it may be done without a question."""
        return self.effect == "allow"


def category_of(kind: ToolKind | None) -> Category:
    """The category of a tool call of which only its kind is known."""
    match kind:
        case "read" | "search":
            return "read-only"
        case "edit" | "delete" | "move":
            return "write"
        case "execute":
            return "execute"
        case _:
            return "external"


def host_of(url: str) -> str | None:
    """The host that a URL leads to, in its plain form; None where two programs might read it differently."""
    if any(char <= " " or char in "\\" or char == "\x7f" for char in url):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
        if parts.scheme not in ("http", "https") or "%" in parts.netloc:
            return None
        plain = host if host.isascii() else host.encode("idna").decode()
    except (ValueError, UnicodeError):
        return None
    plain = plain.lower().rstrip(".")
    return plain if _HOST.fullmatch(plain) or ":" in plain else None
