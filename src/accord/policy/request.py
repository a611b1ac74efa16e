"""The request and the decision, the session's directories, and grants."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from accord.errors import UsageError
from accord.paths import config_dir, data_dir
from accord.schema.content import ToolKind

# MERGED policy.bounds: Where a session stands: its folders, the home folder, and where a path really leads from there.
#
# Resolving looks at the disk for links, nothing else here does. What cannot be resolved has no place, and what has no place is
# never inside.

_MAX_PATH_LENGTH: Final = 4096


class ResolvedPath(NamedTuple):
    """A path as it was named (absolute, `..` folded) and as it really is (links followed)."""

    path: Path
    real: Path


@dataclass(frozen=True, slots=True)
class SessionDirectories:
    """The folders of a session, links resolved. Make one with `SessionDirectories.of`."""

    cwd: Path
    roots: tuple[Path, ...]
    """Every folder it may use unasked; the working folder is one of them."""
    home: Path
    accord_folders: tuple[Path, ...] = ()
    """Where Accord itself keeps settings, logins, trust and logs: nobody else's business in any mode."""

    @staticmethod
    def of(
        cwd: str | os.PathLike[str],
        additional: Iterable[str | os.PathLike[str]] = (),
        *,
        home: str | os.PathLike[str] | None = None,
    ) -> "SessionDirectories":
        """The bounds of a session with this `cwd` and additional folders, all absolute."""
        folders = [cwd, *additional]
        for folder in folders:
            if not os.path.isabs(folder):
                raise UsageError(f"the folder of a session must be an absolute path, not {str(folder)!r}")
        real = [Path(os.path.realpath(folder)) for folder in folders]
        home_folder = Path(os.path.realpath(Path.home() if home is None else home))
        accord_folders = tuple(Path(os.path.realpath(folder)) for folder in (config_dir(), data_dir()))
        return SessionDirectories(real[0], tuple(dict.fromkeys(real)), home_folder, accord_folders)

    def resolve(self, path: str | os.PathLike[str], base: Path | None = None) -> ResolvedPath | None:
        """Where a path leads, seen from `base` (or the working folder); None for what is no path."""
        text = os.fspath(path)
        if text == "~" or text.startswith("~/"):
            text = f"{self.home}{text[1:]}"
        if not text or "\0" in text or len(text) > _MAX_PATH_LENGTH:
            return None
        whole = os.path.join(base or self.cwd, text)
        try:
            # A `..` behind a link climbs from where the link leads: only the real path knows.
            return ResolvedPath(Path(os.path.normpath(whole)), Path(os.path.realpath(whole)))
        except (OSError, ValueError):
            return None

    def is_inside(self, path: Path) -> bool:
        """Whether a real path lies in one of the roots."""
        return any(path.is_relative_to(root) for root in self.roots)

    def relative_paths(self, path: Path) -> list[str]:
        """The path as seen from each of the roots it lies in."""
        return [path.relative_to(root).as_posix() for root in self.roots if path.is_relative_to(root)]


# MERGED policy.grants: What the user agreed to, or refused, for the rest of a session ("always"), no wider than it was offered.

GrantKind = Literal["tool", "command", "path", "host"]


class Grant(NamedTuple):
    """One thing that can be agreed to: a tool, a program with its subcommand, a path for one of them, a host."""

    kind: GrantKind
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"`{' '.join(self.key)}`" if self.kind == "command" else self.key[-1]


@dataclass(frozen=True, slots=True)
class GrantScope:
    """Everything that one "always" would cover. All of it has to be agreed to for the same request to pass again."""

    grants: tuple[Grant, ...]

    def __str__(self) -> str:
        names = [str(grant) for grant in self.grants if grant.kind != "path"]
        path_grants = [grant for grant in self.grants if grant.kind == "path"]
        names = names or [grant.key[-2] for grant in path_grants]
        where = " and ".join(dict.fromkeys(str(grant) for grant in path_grants))
        return ", ".join(dict.fromkeys(names)) + (f" on {where}" if where else "")


@dataclass(slots=True)
class Grants:
    """What one session has been told. It lives as long as the session and is nobody else's."""

    _allowed: set[Grant] = field(default_factory=set[Grant])
    _refused: list[frozenset[Grant]] = field(default_factory=list[frozenset[Grant]])

    def allow(self, scope: GrantScope) -> None:
        """Agree to everything in the scope."""
        self._allowed.update(scope.grants)
        self._refused = [refused for refused in self._refused if not refused <= set(scope.grants)]

    def refuse(self, scope: GrantScope) -> None:
        """Refuse whatever includes all that is in the scope."""
        if scope.grants:
            self._refused.append(frozenset(scope.grants))
            self._allowed.difference_update(scope.grants)

    def allow_host(self, host: str) -> None:
        """A host was fetched from with the user's consent: it is not asked for again."""
        self._allowed.add(Grant("host", (host,)))

    def covers(self, grant: Grant | None) -> bool:
        """Whether this was agreed to."""
        return grant is not None and grant in self._allowed

    def refuses(self, grants: Iterable[Grant]) -> bool:
        """Whether something was refused that these include."""
        asked = set(grants)
        return any(refused <= asked for refused in self._refused)


# MERGED policy.request: The question: may this be done? And the answer.

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
class ActionRequest:
    """What a tool call is about to do."""

    directories: SessionDirectories
    tool: str = ""
    """The tool's home_folder name, where it is known."""
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
    scope: GrantScope | None = None
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
