"""The seam between a sandbox and what enforces it, and the backend that enforces nothing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from accord.policy.sandbox.boundary import UNCONFINED, Fact
from accord.policy.sandbox.private import Private
from accord.policy.sandbox.view import View


@dataclass(frozen=True, slots=True)
class Job:
    """A command to be confined: what runs, where, with which environment, and what it may see."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    view: View
    private: Private
    network: bool = False


@dataclass(frozen=True, slots=True)
class Confined:
    """What is really started, where, and in which environment: that of the program which confines the command.

    The command's own is not among it, because what a command is given must not act before it is confined.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str

    @property
    def over_ours(self) -> dict[str, str | None]:
        """The environment as changes to this process's own: what is not in `env` is taken out."""
        return {**dict.fromkeys(os.environ), **self.env}


class Backend(Protocol):
    """A way to confine commands. Instances are made only where it was tried and works."""

    @property
    def name(self) -> str:
        """As reports show it."""
        ...

    def prepare(self, view: View, private: Private) -> None:
        """Set up the private folders, once, before any command has run."""
        ...

    def confine(self, job: Job) -> Confined:
        """The command line that runs the command confined."""
        ...

    def facts(self, view: View, network: bool) -> tuple[Fact, ...]:
        """What is enforced for such a command, aspect by aspect."""
        ...

    def inside(self, view: View, private: Private) -> tuple[str, str]:
        """The home and the temporary folder, as the command knows them."""
        ...


class NoBackend:
    """Runs commands as they are."""

    name = "none"

    def prepare(self, view: View, private: Private) -> None:
        pass

    def confine(self, job: Job) -> Confined:
        return Confined(list(job.argv), dict(job.env), job.cwd)

    def facts(self, view: View, network: bool) -> tuple[Fact, ...]:
        return UNCONFINED

    def inside(self, view: View, private: Private) -> tuple[str, str]:
        return view.home, os.environ.get("TMPDIR", "/tmp")
