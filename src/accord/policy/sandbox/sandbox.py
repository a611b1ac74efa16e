"""`Sandbox`: wraps a command for the best backend that works on this machine.

Imported on first use.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Self

from accord.errors import UsageError
from accord.policy.sandbox.backend import (
    Backend,
    ConfinedCommand,
    NoBackend,
    PrivateFolder,
    SandboxCommand,
    SandboxReport,
)
from accord.policy.sandbox.command_environment import (
    SYSTEM_FOLDERS,
    clean_env,
    is_within,
    without_credentials,
)
from accord.policy.sandbox.filesystem_view import (
    NAMES_IN_ROOTS,
    FilesystemView,
    initial_view,
    is_system_path,
    known_secrets,
    scan_roots,
)

AnyPath = str | os.PathLike[str]


class Sandbox:
    """Confines commands to some folders, for the length of a session.

    Creating it reads the disk and, the first time, tests which backends work. Commands share its private home
    and temporary folder, which `close` removes.
    """

    network: bool
    """Whether commands reach the network. May be changed between commands."""
    view: FilesystemView
    """What the next command sees."""
    secrets: tuple[str, ...]
    """What must not be read, even if the view does not show it."""
    private: PrivateFolder
    """The private home and temporary folder."""

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
        """All paths are absolute.

        `readable`, `writable` and `hidden` add folders or files to the defaults. A path that is named exactly
        in `readable` can be read even if it counts as a secret. Files with `secret_names` are hidden in the
        roots. `env` is what commands inherit from, by default the environment of this process; variables in
        `keep_env` always pass. `backend` requires one of `NAMES`, or is a backend itself.
        """
        if not roots:
            raise UsageError("a sandbox needs at least one root: give the folders that commands may write to")
        self.network = network
        self._env = dict(os.environ if env is None else env)
        self._keep_env = frozenset(keep_env)
        self._secret_names = secret_names
        self._hidden = _absolute(hidden)
        home = _home(self._env.get("HOME") or os.path.expanduser("~"))
        self._backend, self._reasons = (
            choose_backend(backend) if backend is None or isinstance(backend, str) else (backend, ())
        )
        path = self._env.get("PATH", os.defpath)
        self._initial_view = initial_view(_absolute((*roots, *writable)), _absolute(readable), home, path)
        self.scan()
        self.private = PrivateFolder(self._initial_view.writable)
        self._backend.prepare(self._initial_view, self.private)

    @property
    def report(self) -> SandboxReport:
        """What is enforced for the next command."""
        facts = self._backend.facts(self.view, self.network)
        return SandboxReport(self._backend.name, facts, self._reasons, self.network)

    @property
    def home(self) -> str:
        """The home folder as commands see it."""
        return self._backend.home_and_temp(self._initial_view, self.private)[0]

    @property
    def temp(self) -> str:
        """The temporary folder as commands see it."""
        return self._backend.home_and_temp(self._initial_view, self.private)[1]

    def scan(self) -> None:
        """Search again for secrets, in the known places and in the roots. Takes a while for large roots."""
        result = scan_roots(self._initial_view.writable, self._secret_names)
        known = known_secrets(self._initial_view.home)
        self.secrets = tuple(dict.fromkeys((*known, *self._hidden, *result.secrets)))
        self.view = self._initial_view.without_secrets(self.secrets, search_complete=result.complete)

    def wrap(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: AnyPath | None = None
    ) -> ConfinedCommand:
        """Return what to start for this command.

        `env` overrides inherited variables; `cwd` defaults to the first root.

        Start it on a thread that lasts, such as the event loop's: the command ends with that thread.
        """
        if not argv or not argv[0]:
            raise UsageError("no command to run in the sandbox: give the program and its arguments")
        folder = os.path.realpath(self._initial_view.writable[0] if cwd is None else cwd)
        if not self._initial_view.writes(folder) or not os.path.isdir(folder):
            raise UsageError(
                f"{argv[0]} cannot run in {folder}: it is not a folder that this sandbox opens for writing"
            )
        confines = self._backend.name != "none"
        inherit = clean_env if confines else without_credentials
        inherited = inherit(self._env, keep=self._keep_env)
        if confines:
            inherited |= {"HOME": self.home, "TMPDIR": self.temp}
        environment = {**inherited, "PWD": folder, **(env or {})}
        if "" in environment or any("=" in name for name in environment):
            raise UsageError(f"{argv[0]} cannot be given a variable without a name, or with = in it")
        return self._backend.confine(
            SandboxCommand(argv, environment, folder, self.view, self.private, self.network)
        )

    def outside_path(self, path: AnyPath) -> str:
        """Return the real path of a path that a command used: its /tmp/x may be in the private folder."""
        normalized = os.path.normpath(path)
        private = {self.temp: self.private.temp}
        if not self._initial_view.home_is_shown:
            private[self.home] = self.private.home
        if self._backend.name == "none" or self._initial_view.writes(normalized):
            return normalized
        for folder in sorted(private, reverse=True):  # the inner folder first, if one lies in the other
            if is_within(normalized, folder):
                return os.path.normpath(os.path.join(private[folder], os.path.relpath(normalized, folder)))
        return normalized

    def close(self) -> None:
        """Remove the private folder. All commands must have ended."""
        self.private.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _home(path: str) -> str:
    """Return the home folder, or a path that does not exist if it is a system folder."""
    real = os.path.realpath(path)
    return real if os.path.isdir(real) and not is_system_path(real) else "/home/accord"


def _absolute(paths: Sequence[AnyPath]) -> tuple[str, ...]:
    for path in paths:
        if not os.path.isabs(path):
            raise UsageError(f"a sandbox needs absolute paths, not {os.fspath(path)!r}")
    return tuple(os.path.normpath(path) for path in paths)


NAMES: Final = ("bubblewrap", "landlock", "none")
# The user's PATH may contain project folders, where a command could have placed its own bwrap.
_TRUSTED_PATH: Final = (
    "/usr/bin:/bin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin:/home/linuxbrew/.linuxbrew/bin"
)
_TIMEOUT_SECONDS: Final = 10.0
_LINUX_ONLY: Final = "there is no sandbox for this system yet, only for Linux"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A backend, or why it does not work."""

    backend: Backend | None
    reason: str = ""


def choose_backend(name: str | None = None) -> tuple[Backend, tuple[str, ...]]:
    """Return the best backend that works, or the named one, and why better ones do not work.

    The first call runs a command in each backend. Raises UsageError if the named backend does not work here.
    """
    if name is not None:
        if name not in NAMES:
            raise UsageError(f"no sandbox is called {name!r}; there are: {', '.join(NAMES)}")
        result = probe(name)
        if result.backend is None:
            raise UsageError(f"the sandbox {name} does not work here: {result.reason}")
        return result.backend, ()
    reasons: list[str] = []
    for candidate in NAMES:
        result = probe(candidate)
        if result.backend is not None:
            return result.backend, tuple(reasons)
        reasons.append(f"{candidate} is not used: {result.reason}")
    raise AssertionError("none always works")


def probe(name: str) -> ProbeResult:
    """Test whether one backend works here."""
    return {"bubblewrap": bubblewrap, "landlock": landlock, "none": _none}[name]()


def _none() -> ProbeResult:
    return ProbeResult(NoBackend())


@cache
def bubblewrap() -> ProbeResult:
    """Test whether bwrap is installed and permitted. The result is cached."""
    if sys.platform != "linux":
        return ProbeResult(None, _LINUX_ONLY)
    program = shutil.which("bwrap", path=_TRUSTED_PATH)
    if program is None:
        return ProbeResult(None, "bwrap is not installed; install the package bubblewrap")
    from accord.policy.sandbox.bubblewrap import Bubblewrap

    can_disable_userns = "--disable-userns" in _output([program, "--help"])
    env = shutil.which("env", path=os.defpath)
    signal_resetter = (
        env if env is not None and _works([env, "--default-signal=TERM", "--", "true"]) else None
    )
    user_namespace_choices = [False, True] if os.geteuid() == 0 else [True]
    failure = ""
    for user_namespace in user_namespace_choices:
        backend = Bubblewrap(
            program,
            user_namespace=user_namespace,
            can_disable_userns=can_disable_userns,
            signal_resetter=signal_resetter,
        )
        failure = _failure(backend)
        if not failure:
            return ProbeResult(backend)
    return ProbeResult(
        None, f"bwrap is installed but does not work here ({failure}); user namespaces may be forbidden"
    )


@cache
def landlock() -> ProbeResult:
    """Test whether the kernel has Landlock and permits it. The result is cached."""
    if sys.platform != "linux":
        return ProbeResult(None, _LINUX_ONLY)
    from accord.policy.sandbox.landlock import Landlock
    from accord.policy.sandbox.landlock_launcher import landlock_abi

    version = landlock_abi()
    if version < 1:
        return ProbeResult(
            None, "this kernel has no Landlock, or it is switched off (security/landlock, since Linux 5.13)"
        )
    backend = Landlock(version)
    failure = _failure(backend)
    if failure:
        return ProbeResult(None, f"Landlock is available but does not work here ({failure})")
    return ProbeResult(backend)


def _failure(backend: Backend) -> str:
    """Run `true` in the backend. Return what went wrong, or an empty string."""
    private = PrivateFolder(())
    try:
        readable = tuple(os.path.realpath(folder) for folder in SYSTEM_FOLDERS if os.path.exists(folder))
        view = FilesystemView("/nonexistent", readable=readable)
        backend.prepare(view, private)
        confined = backend.confine(SandboxCommand(["true"], {"PATH": os.defpath}, "/usr", view, private))
        try:
            result = subprocess.run(
                confined.argv,
                env=confined.env,
                cwd="/",
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if result.returncode == 0:
            return ""
        return (
            result.stderr.strip().splitlines()[-1]
            if result.stderr.strip()
            else f"exit code {result.returncode}"
        )
    finally:
        private.remove()


def _works(command: list[str]) -> bool:
    try:
        return (
            subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def _output(command: list[str]) -> str:
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout + result.stderr
