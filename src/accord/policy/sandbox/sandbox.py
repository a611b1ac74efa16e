"""A sandbox: commands go in as they are meant and come out as they have to be started.

One sandbox lasts as long as a session. What is in force is in `boundary`; the private home and temporary folder are
kept from command to command and removed by `close`.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Self

from accord.errors import UsageError
from accord.policy.sandbox.backend import Backend, Confined, Job
from accord.policy.sandbox.boundary import Boundary
from accord.policy.sandbox.environment import clean_env, without_credentials
from accord.policy.sandbox.places import is_within
from accord.policy.sandbox.private import Private
from accord.policy.sandbox.probe import choose
from accord.policy.sandbox.secrets import NAMES_IN_ROOTS, known_secrets, look_through
from accord.policy.sandbox.view import View, first_view, is_system

AnyPath = str | os.PathLike[str]


class Sandbox:
    """Confines commands to some folders. Making one looks at the disk and, the first time, tries out what works here."""

    network: bool
    """Whether commands reach the network; may be changed between commands."""
    view: View
    """What the next command sees."""
    secrets: tuple[str, ...]
    """What must not be read, whether the view would show it or not."""
    private: Private
    """Where its own home and temporary folder are kept."""

    def __init__(
        self,
        roots: Sequence[AnyPath],
        *,
        network: bool = False,
        readable: Sequence[AnyPath] = (),
        writable: Sequence[AnyPath] = (),
        hidden: Sequence[AnyPath] = (),
        secret_names: re.Pattern[str] = NAMES_IN_ROOTS,
        env: Mapping[str, str] | None = None,
        keep_env: Collection[str] = (),
        backend: str | Backend | None = None,
    ) -> None:
        """All paths are absolute. `readable`, `writable` and `hidden` are folders or files on top of what is so anyway; one
        named exactly in `readable` can be read even if it counts as a secret. Files called as in `secret_names` are hidden
        in the roots. `env` is what commands inherit from, by default this process's environment; `keep_env` names
        variables of it that pass in any case. `backend` insists on one, of `probe.NAMES` or made elsewhere.
        """
        if not roots:
            raise UsageError("a sandbox needs at least one root: give the folders that commands may write to")
        self.network = network
        self._env = dict(os.environ if env is None else env)
        self._keep_env = frozenset(keep_env)
        self._secret_names = secret_names
        self._hidden = _absolute(hidden)
        home = _home(self._env.get("HOME") or os.path.expanduser("~"))
        self._backend, self._why = (
            choose(backend) if backend is None or isinstance(backend, str) else (backend, ())
        )
        path = self._env.get("PATH", os.defpath)
        self._first = first_view(_absolute((*roots, *writable)), _absolute(readable), home, path)
        self.scan()
        self.private = Private(self._first.writable)
        self._backend.prepare(self._first, self.private)

    @property
    def boundary(self) -> Boundary:
        """What is in force for the next command."""
        facts = self._backend.facts(self.view, self.network)
        return Boundary(self._backend.name, facts, self._why, self.network)

    @property
    def home(self) -> str:
        """The home folder, as commands know it."""
        return self._backend.inside(self._first, self.private)[0]

    @property
    def temp(self) -> str:
        """The temporary folder, as commands know it."""
        return self._backend.inside(self._first, self.private)[1]

    def scan(self) -> None:
        """Look for secrets again, in the known places and in the roots, as at the start of a turn; may take a while."""
        found = look_through(self._first.writable, self._secret_names)
        known = known_secrets(self._first.home)
        self.secrets = tuple(dict.fromkeys((*known, *self._hidden, *found.secrets)))
        self.view = self._first.hiding(self.secrets, searched=found.complete)

    def wrap(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: AnyPath | None = None
    ) -> Confined:
        """What to start for this command. `env` is laid over what commands inherit; `cwd` is by default the first root.

        Start it on a thread that lasts, such as the event loop's: when that thread ends, so does the command.
        """
        if not argv or not argv[0]:
            raise UsageError("no command to run in the sandbox: give the program and its arguments")
        where = os.path.realpath(self._first.writable[0] if cwd is None else cwd)
        if not self._first.writes(where) or not os.path.isdir(where):
            raise UsageError(
                f"{argv[0]} cannot run in {where}: it is not a folder that this sandbox opens for writing"
            )
        confines = self._backend.name != "none"
        inherit = clean_env if confines else without_credentials
        inherited = inherit(self._env, keep=self._keep_env)
        if confines:
            inherited |= {"HOME": self.home, "TMPDIR": self.temp}
        whole = {**inherited, "PWD": where, **(env or {})}
        if "" in whole or any("=" in name for name in whole):
            raise UsageError(f"{argv[0]} cannot be given a variable without a name, or with = in it")
        return self._backend.confine(Job(argv, whole, where, self.view, self.private, self.network))

    def outside(self, path: AnyPath) -> str:
        """Where a path that a command used is for everybody else: what it calls /tmp/x may be in the private folder."""
        known = os.path.normpath(path)
        private = {self.temp: self.private.temp}
        if not self._first.home_is_shown:
            private[self.home] = self.private.home
        if self._backend.name == "none" or self._first.writes(known):
            return known
        for place in sorted(private, reverse=True):  # one may lie in another: the inner counts
            if is_within(known, place):
                return os.path.normpath(os.path.join(private[place], os.path.relpath(known, place)))
        return known

    def close(self) -> None:
        """Remove the private folder. The commands should have ended."""
        self.private.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _home(path: str) -> str:
    """The home folder, or the name of one that does not exist where a system user has none worth the name."""
    real = os.path.realpath(path)
    return real if os.path.isdir(real) and not is_system(real) else "/home/accord"


def _absolute(paths: Sequence[AnyPath]) -> tuple[str, ...]:
    for path in paths:
        if not os.path.isabs(path):
            raise UsageError(f"a sandbox needs absolute paths, not {os.fspath(path)!r}")
    return tuple(os.path.normpath(path) for path in paths)
