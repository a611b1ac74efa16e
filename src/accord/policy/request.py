"""The request and the decision, the session's directories, and grants."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from accord.errors import UsageError
from accord.paths import config_dir, data_dir
from accord.policy.mode_names import Mode
from accord.schema.content import ToolKind

_MAX_PATH_LENGTH: Final = 4096


class ResolvedPath(NamedTuple):
    """A path as written (absolute, without `..`) and its real path (links followed)."""

    path: Path
    real: Path


@dataclass(frozen=True, slots=True)
class SessionDirectories:
    """The folders of a session, with links resolved. Create it with `SessionDirectories.of`."""

    cwd: Path
    roots: tuple[Path, ...]
    """The folders that it may use without asking, including the working directory."""
    home: Path
    accord_folders: tuple[Path, ...] = ()
    """Accord's own folders (settings, logins, trust, logs). Tools have no access to them in any mode."""
    readable: tuple[Path, ...] = ()
    """Folders outside of the roots that may be read without asking: those of loaded skills."""

    @staticmethod
    def of(
        cwd: str | os.PathLike[str],
        additional: Iterable[str | os.PathLike[str]] = (),
        *,
        home: str | os.PathLike[str] | None = None,
    ) -> "SessionDirectories":
        """Return the directories of a session with this `cwd` and additional folders.

        All must be absolute.
        """
        folders = [cwd, *additional]
        for folder in folders:
            if not os.path.isabs(folder):
                raise UsageError(f"the folder of a session must be an absolute path, not {str(folder)!r}")
        real = [Path(os.path.realpath(folder)) for folder in folders]
        home_folder = Path(os.path.realpath(Path.home() if home is None else home))
        accord_folders = tuple(Path(os.path.realpath(folder)) for folder in (config_dir(), data_dir()))
        return SessionDirectories(real[0], tuple(dict.fromkeys(real)), home_folder, accord_folders)

    def resolve(self, path: str | os.PathLike[str], base: Path | None = None) -> ResolvedPath | None:
        """Resolve a path relative to `base` or the working directory. Returns None for an invalid path.

        Follows links on disk.
        """
        text = os.fspath(path)
        if text == "~" or text.startswith("~/"):
            text = f"{self.home}{text[1:]}"
        if not text or "\0" in text or len(text) > _MAX_PATH_LENGTH:
            return None
        joined = os.path.join(base or self.cwd, text)
        try:
            # `..` after a link starts at the link's target, so only the real path is reliable.
            return ResolvedPath(Path(os.path.normpath(joined)), Path(os.path.realpath(joined)))
        except (OSError, ValueError):
            return None

    def is_inside(self, path: Path) -> bool:
        """Whether a real path lies in one of the roots."""
        return any(path.is_relative_to(root) for root in self.roots)

    def is_readable(self, path: Path) -> bool:
        """Whether a real path lies in one of the folders that may be read without asking."""
        return any(path.is_relative_to(folder) for folder in self.readable)

    def relative_paths(self, path: Path) -> list[str]:
        """Return the path relative to each root that contains it."""
        return [path.relative_to(root).as_posix() for root in self.roots if path.is_relative_to(root)]


GrantKind = Literal["tool", "command", "path", "host"]


class Grant(NamedTuple):
    """One thing to allow: a tool, a program with its subcommand, a path for one of them, or a host."""

    kind: GrantKind
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"`{' '.join(self.key)}`" if self.kind == "command" else self.key[-1]


@dataclass(frozen=True, slots=True)
class GrantScope:
    """Everything that one "always" answer covers.

    All of it must be granted before the same request passes.
    """

    grants: tuple[Grant, ...]

    def beside(self, paths: Sequence[str | os.PathLike[str]], cwd: Path) -> str:
        """The scope, for a question that names these paths: the only one is not repeated."""
        where = f" on {os.path.join(cwd, paths[0])}" if len(paths) == 1 else ""
        text = str(self)
        return f"{text.removesuffix(where)} on this path" if where and text.endswith(where) else text

    def __str__(self) -> str:
        names = [str(grant) for grant in self.grants if grant.kind != "path"]
        path_grants = [grant for grant in self.grants if grant.kind == "path"]
        names = names or [grant.key[-2] for grant in path_grants]
        where = " and ".join(dict.fromkeys(str(grant) for grant in path_grants))
        return ", ".join(dict.fromkeys(names)) + (f" on {where}" if where else "")


@dataclass(slots=True)
class Grants:
    """The grants and refusals of one session ("always" answers). They end with the session, except `kept`."""

    _allowed: set[Grant] = field(default_factory=set[Grant])
    _refused: list[frozenset[Grant]] = field(default_factory=list[frozenset[Grant]])
    kept: frozenset[Grant] = frozenset()
    """What the user always allows, in this project or everywhere. It outlasts the session."""

    def allow(self, scope: GrantScope) -> None:
        """Allow everything in the scope."""
        self._allowed.update(scope.grants)
        self._refused = [refused for refused in self._refused if not refused <= set(scope.grants)]

    def refuse(self, scope: GrantScope) -> None:
        """Refuse every request that needs all grants of the scope."""
        if scope.grants:
            self._refused.append(frozenset(scope.grants))
            self._allowed.difference_update(scope.grants)

    def allow_host(self, host: str) -> None:
        """Allow a host that the user has allowed once, so that it is not asked for again."""
        self._allowed.add(Grant("host", (host,)))

    def covers(self, grant: Grant | None) -> bool:
        """Whether this is granted."""
        return grant is not None and (grant in self._allowed or grant in self.kept)

    def refuses(self, grants: Iterable[Grant]) -> bool:
        """Whether these grants include everything that was refused by one answer."""
        requested = set(grants)
        return any(refused <= requested for refused in self._refused)


Category = Literal["read-only", "write", "execute", "external"]
"""What a tool call does: reads, writes, runs commands, or uses something outside."""
Effect = Literal["allow", "ask", "deny"]
"""What a policy decides."""

MODE_DESCRIPTIONS: Final[dict[Mode, str]] = {
    "read-only": (
        "Reads in the session's folders. Nothing is changed, nothing is run that could change something."
    ),
    "ask": "Reads freely, asks before it writes, runs commands or uses external tools.",
    "workspace-write": (
        "Writes in the session's folders without asking; runs commands unasked only inside the sandbox."
    ),
    "full-access": (
        "Asks only about secrets and where your rules say so. Never-allowed commands stay refused."
    ),
    "plan": "Reads and plans. Nothing is changed until you agree to leave this mode.",
}
"""What each mode allows, for the user."""
STRICTNESS: Final[dict[Effect, int]] = {"allow": 0, "ask": 1, "deny": 2}

_HOST_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """What a tool call is about to do."""

    directories: SessionDirectories
    tool: str = ""
    """The name of the tool, if known."""
    category: Category = "external"
    kind: ToolKind | None = None
    """The kind in the protocol.

    A client sets it only if the agent sent it, never to a repaired or guessed one.
    """
    paths: tuple[str | os.PathLike[str], ...] = ()
    """The files and folders it touches. Relative paths start at the working directory."""
    command: str | tuple[str, ...] | None = None
    """What it runs: a shell line, or a program with its arguments."""
    cwd: str | os.PathLike[str] | None = None
    """Where it runs, if not in the session's working directory."""
    url: str | None = None
    """What it fetches."""
    read_only: bool = False
    """Whether an external tool declares that it only reads."""
    sandboxed: bool = False
    """Whether the command will run in a sandbox that is effective."""
    mode: Mode | None = None
    """The session's mode. None in a client, which has rules and a default instead."""
    grants: Grants = field(default_factory=Grants)


@dataclass(frozen=True, slots=True)
class Decision:
    """The policy's decision on a request."""

    effect: Effect
    reason: str
    """One line for the user and the model."""
    rule: str
    """What decided: `floor`, the name of a rule, `mode ask`, `secret`, `outside`, `shell`, `always`..."""
    scope: GrantScope | None = None
    """What an "always" answer covers; None if none is offered."""

    def reason_beside(self, paths: Sequence[str | os.PathLike[str]], cwd: Path) -> str:
        """The reason, for a question that names these paths: the only one is not repeated."""
        path = os.fspath(os.path.join(cwd, paths[0])) if len(paths) == 1 else ""
        return f"it{self.reason[len(path) :]}" if path and self.reason.startswith(f"{path} ") else self.reason

    @property
    def allowed(self) -> bool:
        """Whether it may run without a question."""
        return self.effect == "allow"


def category_of(kind: ToolKind | None) -> Category:
    """Return the category of a tool call of which only the kind is known."""
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
    """Return the host of a URL in its plain form. None if programs may parse the URL differently."""
    if any(char <= " " or char in "\\" or char == "\x7f" for char in url):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
        if parts.scheme not in ("http", "https") or "%" in parts.netloc:
            return None
        normalized = host if host.isascii() else host.encode("idna").decode()
    except (ValueError, UnicodeError):
        return None
    normalized = normalized.lower().rstrip(".")
    return normalized if _HOST_NAME.fullmatch(normalized) or ":" in normalized else None
