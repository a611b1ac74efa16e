"""What a tool works with: the session's files and commands, what bounds it, and whom it can ask.

The loop makes one for each session; a sub-agent gets a copy with a ledger of its own (`dataclasses.replace`).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from accord.agent.client_services import ClientTerminal
from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.files.exact_disk import BadPath, ResolvedFile, locate
from accord.coder.files.file_search import find_ripgrep
from accord.coder.files.session_files import ReadFiles, SessionFiles
from accord.coder.shell_jobs import BackgroundJobs
from accord.coder.tools.tool import Report, ToolFailure, ToolOutcome
from accord.coder.web_client import WebAccess
from accord.schema.updates import PlanEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """The bounds of what tools take in, give back and wait for."""

    file_bytes: int = 10 * 1024 * 1024
    """Of a file that is read whole or edited; larger ones are read by lines."""
    read_lines: int = 2000
    line_chars: int = 2000
    output_chars: int = 40_000
    """Of the text that one call gives the model."""
    entries: int = 500
    """Names that one listing or glob gives."""
    matches: int = 200
    """Lines, or files, that one search gives."""
    image_bytes: int = 4 * 1024 * 1024
    diff_chars: int = 400_000
    """Old and new text of a file together; a larger change is shown by its changed part."""
    command_seconds: float = 120
    """For a command that asks for no other time."""
    most_command_seconds: float = 1800
    report_seconds: float = 0.2
    """Between two looks at the output of a running command."""
    search_seconds: float = 30
    fetch_seconds: float = 30
    fetch_bytes: int = 5 * 1024 * 1024
    redirects: int = 5


class SandboxedCommand(Protocol):
    """What a sandbox makes of a command: `env` is the whole environment."""

    @property
    def argv(self) -> list[str]: ...
    @property
    def env(self) -> dict[str, str]: ...
    @property
    def cwd(self) -> str: ...


class CommandSandbox(Protocol):
    """Confines commands; `accord.policy.sandbox.Sandbox` is one."""

    def wrap(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> SandboxedCommand:
        """What to start for this command. `env` is laid over what commands inherit there."""
        ...


class OpenTerminal(Protocol):
    """Runs a command at the client; `Turn.terminal` is one."""

    def __call__(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> ClientTerminal: ...


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """What the user is asked; an answer need not be one of the options."""

    text: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delegation:
    """A task for a sub-agent."""

    title: str
    prompt: str


AskUser: TypeAlias = Callable[[UserQuestion], Awaitable[str | None]]
"""The user's answer; None if the user cannot be reached or does not answer."""
Delegate: TypeAlias = Callable[[Delegation, Report], Awaitable[ToolOutcome]]
SetPlan: TypeAlias = Callable[[Sequence[PlanEntry]], Awaitable[None]]
LeavePlanMode: TypeAlias = Callable[[str], Awaitable[str]]
"""Takes the plan that was agreed on; returns the name of the mode that is in force now."""


def _no_secret(path: str) -> bool:
    from accord.policy.secret_files import is_secret

    return not is_secret(Path(path))


def _without_credentials() -> Mapping[str, str]:
    from accord.policy.sandbox.command_environment import without_credentials

    return without_credentials(os.environ)


def _credentials() -> Sequence[str]:
    passing = _without_credentials()
    return [name for name in os.environ if name not in passing]


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """One session, as its tools see it. What is None cannot be done here."""

    cwd: str
    """As the client named it; relative paths start here."""
    files: SessionFiles = field(default_factory=SessionFiles)
    ledger: ReadFiles = field(default_factory=ReadFiles)
    jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    limits: ToolLimits = field(default_factory=ToolLimits)
    clock: Clock = SYSTEM_CLOCK
    sees_images: bool = False
    """Whether the model can look at pictures."""
    environment: Mapping[str, str] = field(default_factory=_without_credentials)
    """Of commands."""
    withheld: Sequence[str] = field(default_factory=_credentials)
    """Variables that commands must not see; blanked where a client's terminal would hand its own down."""
    sandbox: CommandSandbox | None = None
    terminal: OpenTerminal | None = None
    """Commands run in the client's terminals, if it has them."""
    may_show: Callable[[str], bool] = _no_secret
    """Whether a search through many files may show this one: no secret, nothing that the policy would ask about."""
    outside: Callable[[str], str] = str
    """Where an absolute path leads that a command in the sandbox may have used."""
    ripgrep: Callable[[], str | None] = find_ripgrep
    """Where ripgrep is; None where it is not."""
    web: WebAccess = field(default_factory=WebAccess)
    ask_user: AskUser | None = None
    delegate: Delegate | None = None
    set_plan: SetPlan | None = None
    leave_plan_mode: LeavePlanMode | None = None

    async def place(self, named: str, *, follow: bool = True) -> ResolvedFile:
        """The file or folder that the model named. Without `follow` a link at its end is meant itself."""
        try:
            meant = self.outside(named) if os.path.isabs(named) else named
            return await asyncio.to_thread(locate, meant, self.cwd, follow=follow)
        except BadPath as error:
            raise ToolFailure(str(error)) from None

    def shown(self, path: str) -> str:
        """A path as people and the model read it: relative where it is below the session's folder."""
        relative = os.path.relpath(path, self.cwd)
        outside = relative == os.pardir or relative.startswith(os.pardir + os.sep)
        return path if outside else relative
