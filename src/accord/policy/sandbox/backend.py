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
from accord.private_files import private_opener, try_lock

Aspect = Literal["writes", "steering", "secrets", "network", "sockets", "temp", "processes", "privileges"]

DECISIVE: Final[tuple[Aspect, ...]] = ("writes", "steering", "secrets", "network", "sockets")
"""Without one of these, a command can do harm outside, so commands must not run without a question."""


@dataclass(frozen=True, slots=True)
class SandboxFact:
    """Whether one aspect is enforced, in one line."""

    aspect: Aspect
    enforced: bool
    text: str

    def __str__(self) -> str:
        return f"{self.aspect}: {'' if self.enforced else 'NOT enforced: '}{self.text}"


@dataclass(frozen=True, slots=True)
class SandboxReport:
    """What is enforced for the commands of one sandbox."""

    backend: str
    """`bubblewrap`, `landlock` or `none`."""
    facts: tuple[SandboxFact, ...]
    reasons: tuple[str, ...] = ()
    """Why no better backend is used, one line each."""
    network: bool = False
    """Whether the network was left open by choice."""

    @property
    def is_effective(self) -> bool:
        """Whether commands may run without a question: decisive aspects are enforced or open by choice."""
        return all(fact.enforced or (fact.aspect == "network" and self.network) for fact in self.decisive())

    def decisive(self) -> Iterator[SandboxFact]:
        """Yield the facts that decide whether the sandbox is effective."""
        return map(self.fact, DECISIVE)

    def fact(self, aspect: Aspect) -> SandboxFact:
        """Return the fact about one aspect; not enforced if none is known."""
        return next(
            (fact for fact in self.facts if fact.aspect == aspect),
            SandboxFact(aspect, False, "nothing is known"),
        )

    def lines(self) -> list[str]:
        """Return the whole report."""
        return [f"sandbox: {self.summary()}", *map(str, self.facts), *self.reasons]

    def summary(self) -> str:
        """Return the report in one line."""
        if self.backend == "none":
            return "none: commands run with all your rights"
        missing = [fact.aspect for fact in self.decisive() if not fact.enforced and fact.aspect != "network"]
        network = "off" if self.fact("network").enforced else "open"
        if not missing:
            return f"{self.backend}: writes only in session folders, secrets hidden, network {network}"
        return f"{self.backend}: network {network}; NOT enforced: {', '.join(missing)}"


UNCONFINED: Final = (
    SandboxFact("writes", False, "commands write wherever you can"),
    SandboxFact("steering", False, "commands change git hooks, editor settings and instructions for agents"),
    SandboxFact(
        "secrets", False, "commands read whatever you can; only variables with credentials are removed"
    ),
    SandboxFact("network", False, "commands reach the network"),
    SandboxFact("sockets", False, "commands reach your session's buses, key agents and container engines"),
    SandboxFact("temp", False, "commands use the common temporary folder"),
    SandboxFact(
        "processes",
        False,
        "commands see and signal other processes, and may outlive this one, like any program of yours",
    ),
    SandboxFact("privileges", False, "commands may use sudo and similar programs, as you may"),
)


HIDDEN_TEXT: Final = "# Hidden: commands in Accord's sandbox do not see what this file holds.\n"
"""What commands read instead of a secret file. A comment in most formats, so that parsing works."""

_PREFIX: Final = "accord-"
_LOCK_NAME: Final = "claim"


class PrivateFolder:
    """The private folder of one sandbox, with a home and a temporary folder for its commands.

    It lies in the system's temporary folder or the user's cache, never inside what commands may write. It
    lasts as long as the sandbox, so that commands find what an earlier one left in /tmp or a cache. Only the
    user can enter it. Commands write to its home and temporary folder, so after the first command nothing may
    be written through paths in them.
    """

    def __init__(self, writable: Sequence[str]) -> None:
        parent = _parent_folder(writable)
        _remove_stale(parent)
        self.path: str = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = try_lock(os.path.join(self.path, "new"), create=True)
        os.rename(os.path.join(self.path, "new"), os.path.join(self.path, _LOCK_NAME))
        self.home: str = os.path.join(self.path, "home")
        self.temp: str = os.path.join(self.path, "tmp")
        self._files_folder = os.path.join(self.path, "own")
        for folder in (self.home, self.temp, self._files_folder):
            os.mkdir(folder, 0o700)
        self.hidden_file: str = self.write_file(HIDDEN_TEXT.encode())

    def write_file(self, content: bytes) -> str:
        """Write a file that commands cannot change and return its path. Equal contents share one file."""
        path = os.path.join(self._files_folder, blake2b(content, digest_size=16).hexdigest())
        if not os.path.exists(path):
            with open(path, "xb", opener=private_opener) as file:
                file.write(content)
        return path

    def write_words(self, words: Iterable[str]) -> str:
        """Write a file with these words, each followed by NUL, and return its path."""
        return self.write_file(b"".join(_encode_word(word) + b"\0" for word in words))

    def remove(self) -> None:
        """Delete the folder. May be called twice."""
        if self._lock is not None:
            _delete_folder(self.path)
            os.close(self._lock)
            self._lock = None


def _encode_word(word: str) -> bytes:
    """Encode a word. A NUL would split it, and the rest could be an option."""
    try:
        encoded = os.fsencode(word)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise UsageError(
            f"the sandbox cannot pass on {word[:40]!r}: it has NUL or a character that cannot be encoded"
        )
    return encoded


def _remove_stale(parent: str) -> None:
    """Delete the folders of sandboxes whose process has ended."""
    if sys.platform == "win32":
        return
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        try:
            is_own = name.startswith(_PREFIX) and os.lstat(folder).st_uid == os.getuid()
            if (
                is_own
                and os.path.isfile(lock_path := os.path.join(folder, _LOCK_NAME))
                and (lock := try_lock(lock_path)) is not None
            ):
                _delete_folder(folder)
                os.close(lock)
        except OSError:
            continue  # another process was faster


def _delete_folder(folder: str) -> None:
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)  # a tool may have left it read-only
    shutil.rmtree(folder, ignore_errors=True)


def _parent_folder(writable: Sequence[str]) -> str:
    from platformdirs import user_cache_dir

    usable: list[str] = []
    for folder in (tempfile.gettempdir(), user_cache_dir("accord", appauthor=False)):
        real = os.path.realpath(folder)
        if not any(is_within(real, root) for root in writable):
            os.makedirs(real, mode=0o700, exist_ok=True)
            if _runs_programs(real):
                return real
            usable.append(real)
    if usable:
        return usable[0]
    raise UsageError(
        f"no place for the sandbox's private folder: {', '.join(writable)} hold both "
        f"{tempfile.gettempdir()} and the user's "
        "cache; set TMPDIR to a folder outside"
    )


def _runs_programs(folder: str) -> bool:
    """Whether programs in the folder can be started: /tmp is often mounted without that right."""
    return sys.platform != "linux" or not os.statvfs(folder).f_flag & os.ST_NOEXEC


@dataclass(frozen=True, slots=True)
class SandboxCommand:
    """A command to confine: its arguments, environment, directory, and what it may see."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    view: FilesystemView
    private: PrivateFolder
    network: bool = False


@dataclass(frozen=True, slots=True)
class ConfinedCommand:
    """What is really started: arguments, environment and directory of the program that confines the command.

    The environment does not contain the command's variables, which must have no effect before it is confined.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str

    @property
    def env_changes(self) -> dict[str, str | None]:
        """The environment as changes to that of this process. Variables that are not in `env` are removed."""
        return {**dict.fromkeys(os.environ), **self.env}


class Backend(Protocol):
    """A way to confine commands. An instance exists only if a test has shown that it works."""

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    def prepare(self, view: FilesystemView, private: PrivateFolder) -> None:
        """Set up the private folders once, before the first command."""
        ...

    def confine(self, command: SandboxCommand) -> ConfinedCommand:
        """Return what to start so that the command runs confined."""
        ...

    def facts(self, view: FilesystemView, network: bool) -> tuple[SandboxFact, ...]:
        """Return what is enforced for such a command."""
        ...

    def home_and_temp(self, view: FilesystemView, private: PrivateFolder) -> tuple[str, str]:
        """Return the home and the temporary folder as the command sees them."""
        ...


class NoBackend:
    """Runs commands without confinement."""

    name: str = "none"

    def prepare(self, view: FilesystemView, private: PrivateFolder) -> None:
        pass

    def confine(self, command: SandboxCommand) -> ConfinedCommand:
        return ConfinedCommand(list(command.argv), dict(command.env), command.cwd)

    def facts(self, view: FilesystemView, network: bool) -> tuple[SandboxFact, ...]:
        return UNCONFINED

    def home_and_temp(self, view: FilesystemView, private: PrivateFolder) -> tuple[str, str]:
        return view.home, os.environ.get("TMPDIR", "/tmp")
