"""Which backends work on this machine: found out by running a command in each, once, and remembered."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from typing import Final

from accord.errors import UsageError
from accord.policy.sandbox.backend import Backend, Job, NoBackend
from accord.policy.sandbox.places import SYSTEM
from accord.policy.sandbox.private import Private
from accord.policy.sandbox.view import View

NAMES: Final = ("bubblewrap", "landlock", "none")
# PATH may lead through the project first, where a command could have left a bwrap of its own.
_TRUSTED: Final = (
    "/usr/bin:/bin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin:/home/linuxbrew/.linuxbrew/bin"
)
_PATIENCE: Final = 10.0
_LINUX_ONLY: Final = "there is no sandbox for this system yet, only for Linux"


@dataclass(frozen=True, slots=True)
class Found:
    """A backend, or why there is none."""

    backend: Backend | None
    why_not: str = ""


def choose(name: str | None = None) -> tuple[Backend, tuple[str, ...]]:
    """The best backend that works, or the named one, and why the better ones do not. May take a moment the first time.

    Raises UsageError for a named backend that does not work here: nobody is given less than was asked for.
    """
    if name is not None:
        if name not in NAMES:
            raise UsageError(f"no sandbox is called {name!r}; there are: {', '.join(NAMES)}")
        found = probe(name)
        if found.backend is None:
            raise UsageError(f"the sandbox {name} does not work here: {found.why_not}")
        return found.backend, ()
    why: list[str] = []
    for candidate in NAMES:
        found = probe(candidate)
        if found.backend is not None:
            return found.backend, tuple(why)
        why.append(f"{candidate} is not used: {found.why_not}")
    raise AssertionError("none always works")


def probe(name: str) -> Found:
    """Whether one backend works here."""
    return {"bubblewrap": bubblewrap, "landlock": landlock, "none": _none}[name]()


def _none() -> Found:
    return Found(NoBackend())


@cache
def bubblewrap() -> Found:
    """Whether bwrap is there and is allowed to do what it does."""
    if sys.platform != "linux":
        return Found(None, _LINUX_ONLY)
    program = shutil.which("bwrap", path=_TRUSTED)
    if program is None:
        return Found(None, "bwrap is not installed; install the package bubblewrap")
    from accord.policy.sandbox.bubblewrap import Bubblewrap

    seals = "--disable-userns" in _output([program, "--help"])
    env = shutil.which("env", path=os.defpath)
    resetter = env if env is not None and _works([env, "--default-signal=TERM", "--", "true"]) else None
    as_root = [False, True] if os.geteuid() == 0 else [True]
    why = ""
    for user_namespace in as_root:
        backend = Bubblewrap(program, user_namespace=user_namespace, seals=seals, resetter=resetter)
        why = _try(backend)
        if not why:
            return Found(backend)
    return Found(None, f"bwrap is there but may not work here ({why}); user namespaces may be forbidden")


@cache
def landlock() -> Found:
    """Whether the kernel has Landlock and lets us use it."""
    if sys.platform != "linux":
        return Found(None, _LINUX_ONLY)
    from accord.policy.sandbox.landlock import Landlock
    from accord.policy.sandbox.launch import abi

    version = abi()
    if version < 1:
        return Found(
            None, "this kernel has no Landlock, or it is switched off (security/landlock, since Linux 5.13)"
        )
    backend = Landlock(version)
    why = _try(backend)
    return Found(None, f"Landlock is there but may not work here ({why})") if why else Found(backend)


def _try(backend: Backend) -> str:
    """Run nothing in it; what went wrong, or an empty string."""
    private = Private(())
    try:
        places = tuple(os.path.realpath(place) for place in SYSTEM if os.path.exists(place))
        nothing = View("/nonexistent", readable=places)
        backend.prepare(nothing, private)
        confined = backend.confine(Job(["true"], {"PATH": os.defpath}, "/usr", nothing, private))
        try:
            done = subprocess.run(
                confined.argv,
                env=confined.env,
                cwd="/",
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode == 0:
            return ""
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
    finally:
        private.remove()


def _works(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
