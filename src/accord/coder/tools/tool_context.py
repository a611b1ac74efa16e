"""`ToolContext`: the files, jobs, limits and callbacks of a session that its tools use.

Each session has one `ToolContext`. A sub-agent gets a copy with its own `read_files` (`dataclasses.replace`).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from accord.agent.client_services import ClientTerminal
from accord.clock import SYSTEM_CLOCK, Clock
from accord.coder.files.exact_disk import BadPath, ResolvedFile, resolve_path
from accord.coder.files.file_search import find_ripgrep
from accord.coder.files.picture import MAX_PICTURE_BYTES
from accord.coder.files.session_files import ReadFiles, SessionFiles
from accord.coder.tools.client_terminals import ClientTerminals
from accord.coder.tools.shell_jobs import BackgroundJobs
from accord.coder.tools.tool import Report, ToolFailure, ToolOutcome
from accord.frontend.web_client import WebAccess
from accord.schema.updates import PlanEntry

if TYPE_CHECKING:
    from accord.agent.shown_work import AgentTerminal
    from accord.coder.tools.search_services import SearchService
    from accord.coder.turn.background_agents import BackgroundAgents
    from accord.policy.sandbox.steering_watch import SteeringWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """The limits of input, output and time for tools."""

    file_bytes: int = 10 * 1024 * 1024
    """The largest file that is read whole or edited. Larger ones are read by lines."""
    read_lines: int = 2000
    line_chars: int = 2000
    output_chars: int = 40_000
    """The longest text that one call returns to the model."""
    entries: int = 500
    """The maximum number of names in one result of list_files or glob."""
    matches: int = 200
    """The maximum number of lines, or files, in one search."""
    image_bytes: int = MAX_PICTURE_BYTES
    """The largest picture for the model. Larger ones are scaled down."""
    diff_chars: int = 400_000
    """The maximum for the old and new text of a file together. A larger diff shows only the changed part."""
    command_seconds: float = 120
    """The default timeout of a command."""
    max_command_seconds: float = 1800
    report_seconds: float = 0.2
    """The interval between two updates of a running command."""
    search_seconds: float = 30
    fetch_seconds: float = 30
    fetch_bytes: int = 5 * 1024 * 1024
    redirects: int = 5
    web_search_seconds: float = 60


class SandboxedCommand(Protocol):
    """A command wrapped by a sandbox. `env` is the whole environment."""

    @property
    def argv(self) -> list[str]: ...
    @property
    def env(self) -> dict[str, str]: ...
    @property
    def cwd(self) -> str: ...


class CommandSandbox(Protocol):
    """Wraps commands in a sandbox. `accord.policy.sandbox.Sandbox` implements it."""

    def wrap(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> SandboxedCommand:
        """Return the command to start. `env` overrides the inherited variables."""
        ...


class OpenTerminal(Protocol):
    """Runs a command in a terminal of the client. `Turn.terminal` implements it."""

    def __call__(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> ClientTerminal: ...


class CommandDisplay(Protocol):
    """Shows commands of the agent. `AgentSession` implements it."""

    def show_terminal(
        self, command: str, *, cwd: str | None = None, cancel: Callable[[], object] | None = None
    ) -> "AgentTerminal":
        """Return an async context manager that shows a command. `cancel` is called when the user stops it."""
        ...

    async def show_background(self, work: "Iterable[AgentTerminal]") -> None:
        """Show which commands run in the background."""
        ...


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question for the user. The answer need not be one of the options."""

    text: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delegation:
    """A task for a sub-agent."""

    title: str
    prompt: str
    agent: str | None = None
    """The name of a custom agent, or of another agent of `acp.json`."""
    background: bool = False
    """Whether the model goes on meanwhile."""
    id: str = ""
    """The name of the task while it runs in the background."""


AskUser: TypeAlias = Callable[[UserQuestion], Awaitable[str | None]]
"""Returns the user's answer; None if the user is unavailable."""
Warn: TypeAlias = Callable[[str, str], Awaitable[None]]
Delegate: TypeAlias = Callable[[Delegation, Report], Awaitable[ToolOutcome]]
UseSkill: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Takes the name of a skill and its arguments, and returns its text. Raises ToolFailure."""
SetPlan: TypeAlias = Callable[[Sequence[PlanEntry]], Awaitable[None]]
LeavePlanMode: TypeAlias = Callable[[str], Awaitable[str]]
"""Takes the approved plan and returns the name of the new mode."""


def _is_not_secret(path: str) -> bool:
    from accord.policy.secret_files import is_secret

    return not is_secret(Path(path))


def _without_credentials() -> Mapping[str, str]:
    from accord.policy.sandbox.command_environment import without_credentials

    return without_credentials(os.environ)


def _credential_names() -> Sequence[str]:
    allowed = _without_credentials()
    return [name for name in os.environ if name not in allowed]


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """One session, for its tools. A callback that is None means that the session cannot do it."""

    cwd: str
    """The working folder, as the client sent it. Relative paths start here."""
    files: SessionFiles = field(default_factory=SessionFiles)
    read_files: ReadFiles = field(default_factory=ReadFiles)
    jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    limits: ToolLimits = field(default_factory=ToolLimits)
    clock: Clock = SYSTEM_CLOCK
    sees_images: bool = False
    """Whether the model accepts images."""
    environment: Mapping[str, str] = field(default_factory=_without_credentials)
    """The environment of commands."""
    hidden_variables: Sequence[str] = field(default_factory=_credential_names)
    """Variables that commands must not see. They are removed in the client's terminals."""
    sandbox: CommandSandbox | None = None
    steering: "SteeringWatch | None" = None
    """Notices files that a sandboxed command writes to steer other programs."""
    terminal: OpenTerminal | None = None
    """Opens a terminal of the client, if it has terminals."""
    terminals: ClientTerminals = field(default_factory=ClientTerminals)
    """Runs commands in those terminals."""
    display: CommandDisplay | None = None
    """Shows the commands of this machine, if the client shows terminals of the agent."""
    may_show: Callable[[str], bool] = _is_not_secret
    """Returns whether a search may show a file: it holds no secrets, and the policy allows reading it."""
    host_path: Callable[[str], str] = str
    """Converts an absolute path inside the sandbox to the path on this machine."""
    roots: Sequence[str] = ()
    """The session's folders. No program of them runs outside the sandbox."""
    ripgrep: Callable[[Sequence[str]], str | None] = find_ripgrep
    """Returns the path of ripgrep outside of the roots, or None."""
    web: WebAccess = field(default_factory=WebAccess)
    search: "SearchService | None" = None
    """What `web_search` asks."""
    ask_user: AskUser | None = None
    warn: Warn | None = None
    """Shows a title and a text to the user, also between turns."""
    delegate: Delegate | None = None
    external_agents: Mapping[str, str] = field(default_factory=dict[str, str])
    """The other ACP agents for tasks: their names in `acp.json`, by what the model calls them."""
    background: "BackgroundAgents | None" = None
    """The sub-agents that work in the background."""
    use_skill: UseSkill | None = None
    set_plan: SetPlan | None = None
    leave_plan_mode: LeavePlanMode | None = None

    async def resolve(self, path: str, *, follow: bool = True) -> ResolvedFile:
        """Resolve a path from the model.

        Without `follow`, a link at its end stays unresolved. Raises ToolFailure.
        """
        try:
            on_host = self.host_path(path) if os.path.isabs(path) else path
            return await asyncio.to_thread(resolve_path, on_host, self.cwd, follow=follow)
        except BadPath as error:
            raise ToolFailure(str(error)) from None

    def display_path(self, path: str) -> str:
        """Return a path for display: relative if it is below the working folder."""
        relative = os.path.relpath(path, self.cwd)
        outside = relative == os.pardir or relative.startswith(os.pardir + os.sep)
        return path if outside else relative
