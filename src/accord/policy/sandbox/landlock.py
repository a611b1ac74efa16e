"""The Landlock backend: the kernel checks every file that a command opens against a list.

Nothing is mounted, so paths do not change. Variables name the private home and temporary folder, and a secret
inside a writable folder cannot be hidden. A system call filter covers what Landlock does not know, above all
sockets.
"""

import os
import sys
from collections.abc import Iterator
from typing import Final

from accord.policy.sandbox import seccomp
from accord.policy.sandbox.backend import ConfinedCommand, PrivateFolder, SandboxCommand, SandboxFact
from accord.policy.sandbox.command_environment import is_within, words
from accord.policy.sandbox.filesystem_view import FilesystemView

_DEVICES: Final = tuple(f"/dev/{name}" for name in words("null zero full random urandom tty"))
# The Landlock versions that introduced these.
_TRUNCATION: Final = 3
_TCP: Final = 4
_SCOPES: Final = 6
_BETTER: Final = "install bubblewrap to protect them"


class Landlock:
    """Runs commands under Landlock.

    `sandbox.landlock` creates it after a test. `abi` is the kernel's version.
    """

    name: str = "landlock"

    def __init__(self, landlock_abi: int) -> None:
        self._abi = landlock_abi
        self._has_filter = seccomp.machine() is not None
        self._python = os.path.realpath(sys.executable)
        with open(os.path.join(os.path.dirname(__file__), "landlock_launcher.py"), "rb") as file:
            self._launcher = file.read()

    def prepare(self, view: FilesystemView, private: PrivateFolder) -> None:
        """Link the user's tools into the private home."""
        for name in view.aliases:
            path = os.path.join(private.home, os.path.relpath(name, view.home))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not os.path.lexists(path):
                os.symlink(os.path.realpath(name), path)

    def confine(self, command: SandboxCommand) -> ConfinedCommand:
        launcher = command.private.write_file(self._launcher)  # the one in the package may be writable
        options = command.private.write_words(self._options(command))
        env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        return ConfinedCommand([self._python, "-I", "-S", launcher, options, *command.argv], env, command.cwd)

    def facts(self, view: FilesystemView, network: bool) -> tuple[SandboxFact, ...]:
        return (
            self._writes_fact(view),
            _steering_fact(view),
            _secrets_fact(view),
            self._network_fact(network),
            self._sockets_fact(),
            SandboxFact("temp", True, _temp_text(view)),
            self._processes_fact(),
            SandboxFact("privileges", True, "none can be gained"),
        )

    def home_and_temp(self, view: FilesystemView, private: PrivateFolder) -> tuple[str, str]:
        return view.home if view.home_is_shown else private.home, private.temp

    def _writes_fact(self, view: FilesystemView) -> SandboxFact:
        if self._abi < _TRUNCATION:
            return SandboxFact(
                "writes", False, f"Landlock {self._abi} of this kernel lets commands empty files anywhere"
            )
        if view.writes(self._python):
            return SandboxFact(
                "writes",
                False,
                f"{self._python} starts commands and lies in a root, where they can change it",
            )
        return SandboxFact(
            "writes",
            True,
            "only in the roots and in private folders; modes and times of files also elsewhere",
        )

    def _network_fact(self, network: bool) -> SandboxFact:
        if network:
            return SandboxFact("network", False, "open, by choice")
        if self._has_filter:
            return SandboxFact("network", True, "none, not even a loopback")
        if self._abi >= _TCP:
            return SandboxFact("network", False, "TCP is closed, everything else is open")
        return SandboxFact(
            "network", False, f"Landlock {self._abi} of this kernel does not restrict networks"
        )

    def _sockets_fact(self) -> SandboxFact:
        if self._has_filter:
            return SandboxFact("sockets", True, "commands create no local sockets except connected pairs")
        return SandboxFact("sockets", False, "buses, key agents and container engines can be reached")

    def _processes_fact(self) -> SandboxFact:
        others = "cannot" if self._abi >= _SCOPES else "can"
        remaining = "what leaves its process group may outlive the command"
        return SandboxFact("processes", False, f"others are seen, but {others} be signalled; {remaining}")

    def _options(self, command: SandboxCommand) -> Iterator[str]:
        view = command.view
        holes = view.hidden if view.home_is_shown else (*view.hidden, view.home)
        for path in (*view.readable, "/proc"):
            if path not in view.hidden:
                yield from _read_rules(path, holes)
        for path in (*view.writable, command.private.home, command.private.temp):
            yield from ("--write", path)
        for path in _DEVICES:
            yield from ("--device", path)
        yield from ("--filter", command.private.write_file(self._filter(command.network)))
        yield from ("--offline", "no" if command.network else "yes")
        yield from ("--keep-override", "yes" if os.geteuid() == 0 else "no")
        for name, value in command.env.items():
            yield from (
                "--env",
                f"{name}={value if name == 'PATH' else _in_private_home(value, view, command.private)}",
            )

    def _filter(self, network: bool) -> bytes:
        if not self._has_filter:
            return b""
        return seccomp.filter_program(families=None if network else (seccomp.AF_NETLINK,), unix=False)


def _steering_fact(view: FilesystemView) -> SandboxFact:
    """Rights to a folder apply to all in it, so that nothing inside a root can be made read-only."""
    first, *others = (*view.protected, "")
    if not first and not view.protection_complete:
        text = "the roots are too large for a complete search for git hooks, editor settings and the like"
        return SandboxFact("steering", False, text)
    if not first:
        return SandboxFact("steering", True, "there are no git hooks, editor settings or AGENTS.md files")
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    text = f"commands can change what git, editors and agents do: {first}{more}; {_BETTER}"
    return SandboxFact("steering", False, text)


def _secrets_fact(view: FilesystemView) -> SandboxFact:
    first, *others = (*view.hidden_in_writable(), "")
    if first:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        return SandboxFact("secrets", False, f"files in a root cannot be hidden: {first}{more}")
    if not view.search_complete:
        text = "files in a root cannot be hidden, and the roots are too large for a complete search"
        return SandboxFact("secrets", False, text)
    return SandboxFact(
        "secrets", True, "keys, logins and the home folder cannot be read, except the tools in it"
    )


def _read_rules(path: str, holes: tuple[str, ...]) -> Iterator[str]:
    """Yield rules for a folder without the holes in it. Rules are recursive, so its parts are listed."""
    inner_holes = tuple(hole for hole in holes if is_within(hole, path) and hole != path)
    if not inner_holes:
        yield from ("--read", path)
        return
    yield from ("--list", path)
    try:
        with os.scandir(path) as scan:
            entries = [entry.path for entry in scan if not entry.is_symlink()]
    except OSError:
        return
    for entry_path in entries:
        if entry_path not in inner_holes:
            yield from _read_rules(entry_path, inner_holes)


def _in_private_home(value: str, view: FilesystemView, private: PrivateFolder) -> str:
    """Move a path in the user's home to the private home, unless the command can reach it where it is."""
    reachable = (*view.readable, *view.writable, *view.aliases, private.path)
    if (
        view.home_is_shown
        or not is_within(value, view.home)
        or any(is_within(value, folder) for folder in reachable)
    ):
        return value
    return private.home + value[len(view.home) :]


def _temp_text(view: FilesystemView) -> str:
    variables = "TMPDIR leads" if view.home_is_shown else "TMPDIR and HOME lead"
    shared_temp = "is a root, so it is shared" if view.writes("/tmp") else "itself is closed"
    return f"{variables} to private folders of this sandbox; /tmp {shared_temp}"
