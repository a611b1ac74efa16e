"""The backend contract, the report of what is enforced, and the private home folder.

Imported on first use.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal, Protocol

from accord.errors import UsageError
from accord.policy.sandbox.command_environment import is_within
from accord.policy.sandbox.filesystem_view import FilesystemView

# MERGED policy.sandbox.boundary: What a sandbox enforces and what it does not, as data and as lines for people. Nothing is claimed that is not there.

Aspect = Literal["writes", "secrets", "network", "sockets", "temp", "processes", "privileges"]

DECISIVE: Final[tuple[Aspect, ...]] = ("writes", "secrets", "network", "sockets")
"""Without one of these a command can do harm outside, so it is no boundary to run commands in unasked."""


@dataclass(frozen=True, slots=True)
class SandboxFact:
    """One aspect of a boundary, in one line."""

    aspect: Aspect
    enforced: bool
    text: str

    def __str__(self) -> str:
        return f"{self.aspect}: {'' if self.enforced else 'NOT enforced: '}{self.text}"


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """What is in force for the commands of one sandbox."""

    backend: str
    """`bubblewrap`, `landlock` or `none`."""
    facts: tuple[SandboxFact, ...]
    reasons: tuple[str, ...] = ()
    """Why no better backend is used, one line each."""
    network: bool = False
    """Whether the network was left open by choice."""

    @property
    def is_effective(self) -> bool:
        """Whether a command may run in it unasked: every decisive aspect is enforced, or open by choice."""
        return all(fact.enforced or (fact.aspect == "network" and self.network) for fact in self.decisive())

    def decisive(self) -> Iterator[SandboxFact]:
        """The facts that decide whether the boundary holds."""
        return map(self.fact, DECISIVE)

    def fact(self, aspect: Aspect) -> SandboxFact:
        """What is said about one aspect; not enforced if nothing is."""
        return next(
            (fact for fact in self.facts if fact.aspect == aspect),
            SandboxFact(aspect, False, "nothing is known"),
        )

    def lines(self) -> list[str]:
        """The whole report."""
        return [f"sandbox: {self.summary()}", *map(str, self.facts), *self.reasons]

    def summary(self) -> str:
        """The report in one line."""
        if self.backend == "none":
            return "none: commands run with all your rights"
        missing = [fact.aspect for fact in self.decisive() if not fact.enforced and fact.aspect != "network"]
        network = "off" if self.fact("network").enforced else "open"
        if not missing:
            return f"{self.backend}: writes only in the roots, secrets hidden, network {network}"
        return f"{self.backend}: network {network}; NOT enforced: {', '.join(missing)}"


UNCONFINED: Final = (
    SandboxFact("writes", False, "commands write wherever you may"),
    SandboxFact(
        "secrets",
        False,
        "commands read whatever you may; only variables with credentials are taken from them",
    ),
    SandboxFact("network", False, "commands reach the network"),
    SandboxFact("sockets", False, "commands reach your session's buses, key agents and container engines"),
    SandboxFact("temp", False, "commands use the common temporary folder"),
    SandboxFact("processes", False, "commands see, signal and outlive others as any program of yours"),
    SandboxFact("privileges", False, "commands may use sudo and the like where you may"),
)


# MERGED policy.sandbox.private: The private folder of one sandbox: its own home and temporary folder, and the few files its backend needs.
#
# It lasts as long as the sandbox, so that what one command left in /tmp or in a cache is there for the next; then it is
# removed. Only the user can enter it. Commands write to its home and temporary folder, so after the first of them
# nothing here may be written by following names in there.

HIDDEN_TEXT: Final = "# Hidden: commands in Accord's sandbox do not see what this file holds.\n"
"""What is read where a secret file was; a comment in most formats, so that programs that read settings carry on."""

_PREFIX: Final = "accord-sandbox-"
_LOCK_NAME: Final = "claim"


class PrivateFolder:
    """A folder of its own under the system's temporary folder, or the user's cache; never inside what commands write to."""

    def __init__(self, writable: Sequence[str]) -> None:
        parent = _parent_folder(writable)
        _remove_stale(parent)
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = _lock(os.path.join(self.path, "new"))
        os.rename(os.path.join(self.path, "new"), os.path.join(self.path, _LOCK_NAME))
        self.home = os.path.join(self.path, "home")
        self.temp = os.path.join(self.path, "tmp")
        self._files_folder = os.path.join(self.path, "own")
        for folder in (self.home, self.temp, self._files_folder):
            os.mkdir(folder, 0o700)
        self.hidden_file = self.write_file(HIDDEN_TEXT.encode())

    def write_file(self, content: bytes) -> str:
        """The path of a file with this content, which commands cannot change. The same content is kept once."""
        path = os.path.join(self._files_folder, blake2b(content, digest_size=16).hexdigest())
        if not os.path.exists(path):
            with open(path, "xb", opener=_owner_only) as file:
                file.write(content)
        return path

    def write_words(self, words: Iterable[str]) -> str:
        """The path of a file with these words in it, each ended by NUL."""
        return self.write_file(b"".join(_encoded(word) + b"\0" for word in words))

    def remove(self) -> None:
        """Delete the folder with everything in it. May be called twice."""
        if self._lock >= 0:
            _delete(self.path)
            os.close(self._lock)
            self._lock = -1


def _encoded(word: str) -> bytes:
    """A word as the system has it; one with NUL in it would be several, and the others options."""
    try:
        encoded = os.fsencode(word)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise UsageError(
            f"the sandbox cannot pass on {word[:40]!r}: it holds what no name or value of a process can"
        )
    return encoded


def _lock(path: str) -> int:
    """A file that stays locked as long as this process lives and the descriptor is open; -1 if another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return -1
    return descriptor


def _remove_stale(parent: str) -> None:
    """Delete the folders of ours whose process ended without doing so."""
    if sys.platform == "win32":
        return
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        try:
            ours = name.startswith(_PREFIX) and os.lstat(folder).st_uid == os.getuid()
            if (
                ours
                and os.path.isfile(lock_path := os.path.join(folder, _LOCK_NAME))
                and (lock := _lock(lock_path)) >= 0
            ):
                _delete(folder)
                os.close(lock)
        except OSError:
            continue  # another of us was faster


def _delete(folder: str) -> None:
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)  # a tool may have left it read-only
    shutil.rmtree(folder, ignore_errors=True)


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _parent_folder(writable: Sequence[str]) -> str:
    from platformdirs import user_cache_dir

    for folder in (tempfile.gettempdir(), user_cache_dir("accord", appauthor=False)):
        real = os.path.realpath(folder)
        if not any(is_within(real, root) for root in writable):
            os.makedirs(real, mode=0o700, exist_ok=True)
            return real
    raise UsageError(
        f"no place for the sandbox's private folder: {', '.join(writable)} hold both {tempfile.gettempdir()} and the user's "
        "cache; set TMPDIR to a folder outside"
    )


# MERGED policy.sandbox.backend: The seam between a sandbox and what enforces it, and the backend that enforces nothing.


@dataclass(frozen=True, slots=True)
class SandboxCommand:
    """A command to be confined: what runs, where, with which environment, and what it may see."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    view: FilesystemView
    private: PrivateFolder
    network: bool = False


@dataclass(frozen=True, slots=True)
class ConfinedCommand:
    """What is really started, where, and in which environment: that of the program which confines the command.

    The command's own is not among it, because what a command is given must not act before it is confined.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str

    @property
    def env_changes(self) -> dict[str, str | None]:
        """The environment as changes to this process's own: what is not in `env` is taken out."""
        return {**dict.fromkeys(os.environ), **self.env}


class Backend(Protocol):
    """A way to confine commands. Instances are made only where it was tried and works."""

    @property
    def name(self) -> str:
        """As reports show it."""
        ...

    def prepare(self, view: FilesystemView, private: PrivateFolder) -> None:
        """Set up the private folders, once, before any command has run."""
        ...

    def confine(self, command: SandboxCommand) -> ConfinedCommand:
        """The command line that runs the command confined."""
        ...

    def facts(self, view: FilesystemView, network: bool) -> tuple[SandboxFact, ...]:
        """What is enforced for such a command, aspect by aspect."""
        ...

    def home_and_temp(self, view: FilesystemView, private: PrivateFolder) -> tuple[str, str]:
        """The home and the temporary folder, as the command knows them."""
        ...


class NoBackend:
    """Runs commands as they are."""

    name = "none"

    def prepare(self, view: FilesystemView, private: PrivateFolder) -> None:
        pass

    def confine(self, command: SandboxCommand) -> ConfinedCommand:
        return ConfinedCommand(list(command.argv), dict(command.env), command.cwd)

    def facts(self, view: FilesystemView, network: bool) -> tuple[SandboxFact, ...]:
        return UNCONFINED

    def home_and_temp(self, view: FilesystemView, private: PrivateFolder) -> tuple[str, str]:
        return view.home, os.environ.get("TMPDIR", "/tmp")
