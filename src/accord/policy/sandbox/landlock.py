"""Confinement by Landlock: the kernel checks every file a command opens against a list of what it may.

Nothing is mounted, so paths stay what they are: the private home and temporary folder are named by variables, and what
lies inside a folder that a command may write to cannot be hidden from it. What Landlock does not know about, sockets
above all, is left to a filter of system calls.
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
# The versions of Landlock that brought these.
_TRUNCATION: Final = 3
_TCP: Final = 4
_SCOPES: Final = 6


class Landlock:
    """`abi` is the version the kernel speaks. Made by `probe.landlock`."""

    name = "landlock"

    def __init__(self, abi: int) -> None:
        self._abi = abi
        self._filters = seccomp.machine() is not None
        self._python = os.path.realpath(sys.executable)
        with open(os.path.join(os.path.dirname(__file__), "landlock_launcher.py"), "rb") as file:
            self._launcher = file.read()

    def prepare(self, view: FilesystemView, private: PrivateFolder) -> None:
        """Let the user's tools be found under their names in the private home."""
        for name in view.aliases:
            path = os.path.join(private.home, os.path.relpath(name, view.home))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not os.path.lexists(path):
                os.symlink(os.path.realpath(name), path)

    def confine(self, job: SandboxCommand) -> ConfinedCommand:
        launcher = job.private.keep(self._launcher)  # the one in the package may lie in a root
        options = job.private.keep_words(self._options(job))
        env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        return ConfinedCommand([self._python, "-I", "-S", launcher, options, *job.argv], env, job.cwd)

    def facts(self, view: FilesystemView, network: bool) -> tuple[SandboxFact, ...]:
        return (
            self._about_writes(view),
            _about_secrets(view),
            self._about_network(network),
            self._about_sockets(),
            SandboxFact("temp", True, _about_temp(view)),
            self._about_processes(),
            SandboxFact("privileges", True, "none can be gained"),
        )

    def inside(self, view: FilesystemView, private: PrivateFolder) -> tuple[str, str]:
        return view.home if view.home_is_shown else private.home, private.temp

    def _about_writes(self, view: FilesystemView) -> SandboxFact:
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

    def _about_network(self, network: bool) -> SandboxFact:
        if network:
            return SandboxFact("network", False, "open, by choice")
        if self._filters:
            return SandboxFact("network", True, "none, not even a loopback")
        if self._abi >= _TCP:
            return SandboxFact("network", False, "TCP is closed, everything else is open")
        return SandboxFact("network", False, f"Landlock {self._abi} of this kernel knows nothing of networks")

    def _about_sockets(self) -> SandboxFact:
        if self._filters:
            return SandboxFact("sockets", True, "commands make no local sockets but connected pairs")
        return SandboxFact("sockets", False, "buses, key agents and container engines can be reached")

    def _about_processes(self) -> SandboxFact:
        others = "cannot" if self._abi >= _SCOPES else "can"
        left = "what leaves its process group may outlive the command"
        return SandboxFact("processes", False, f"others are seen, but {others} be signalled; {left}")

    def _options(self, job: SandboxCommand) -> Iterator[str]:
        view = job.view
        holes = view.hidden if view.home_is_shown else (*view.hidden, view.home)
        for path in (*view.readable, "/proc"):
            if path not in view.hidden:
                yield from _around(path, holes)
        for path in (*view.writable, job.private.home, job.private.temp):
            yield from ("--write", path)
        for path in _DEVICES:
            yield from ("--device", path)
        yield from ("--filter", job.private.keep(self._filter(job.network)))
        yield from ("--offline", "no" if job.network else "yes")
        yield from ("--keep-override", "yes" if os.geteuid() == 0 else "no")
        for name, value in job.env.items():
            yield from ("--env", f"{name}={value if name == 'PATH' else _moved(value, view, job.private)}")

    def _filter(self, network: bool) -> bytes:
        if not self._filters:
            return b""
        return seccomp.filter_program(families=None if network else (seccomp.AF_NETLINK,), unix=False)


def _about_secrets(view: FilesystemView) -> SandboxFact:
    first, *others = (*view.hidden_in_writable(), "")
    if first:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        return SandboxFact("secrets", False, f"what lies in a root cannot be hidden: {first}{more}")
    if not view.searched:
        text = "what lies in a root cannot be hidden, and the roots are too large to be searched to the end"
        return SandboxFact("secrets", False, text)
    return SandboxFact("secrets", True, "keys, logins and the home folder but its tools cannot be read")


def _around(path: str, holes: tuple[str, ...]) -> Iterator[str]:
    """Rules that open a folder except for the holes in it: rules reach all the way down, so its parts are opened each."""
    inside = tuple(hole for hole in holes if is_within(hole, path) and hole != path)
    if not inside:
        yield from ("--read", path)
        return
    yield from ("--list", path)
    try:
        with os.scandir(path) as found:
            parts = [entry.path for entry in found if not entry.is_symlink()]
    except OSError:
        return
    for part in parts:
        if part not in inside:
            yield from _around(part, inside)


def _moved(value: str, view: FilesystemView, private: PrivateFolder) -> str:
    """What was to be kept in the user's home is kept in the private one, unless a command reaches it there."""
    reached = (*view.readable, *view.writable, *view.aliases, private.path)
    if (
        view.home_is_shown
        or not is_within(value, view.home)
        or any(is_within(value, place) for place in reached)
    ):
        return value
    return private.home + value[len(view.home) :]


def _about_temp(view: FilesystemView) -> str:
    own = "TMPDIR leads" if view.home_is_shown else "TMPDIR and HOME lead"
    common = "is a root, so it is shared" if view.writes("/tmp") else "itself is closed"
    return f"{own} to this sandbox's own; /tmp {common}"
