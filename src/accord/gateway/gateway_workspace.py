"""Files and terminals that the gateway serves to an agent, and the sandbox for folder-bound tokens.

A folder-bound token lets an agent run commands only in the sandbox, which confines them to the folders of the
session. Without a working sandbox they are refused. Files that decide what other programs run, such as git's
configuration, would lead out of the folders when the user next runs git there: they are not written, and new
ones that a command leaves are not trusted.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from accord.client.client_events import TerminalPrinted, TerminalViews
from accord.clock import OwnedTasks
from accord.errors import RpcError, UsageError
from accord.gateway.access.access_tokens import NOT_ALLOWED
from accord.workspace.roots import Roots, quote_value
from accord.workspace.terminal_command import PreparedCommand, TerminalCommand
from accord.workspace.terminals import RunningTerminal, Terminals
from accord.workspace.text_files import TextFiles
from accord.workspace.workspace import LocalWorkspace

if TYPE_CHECKING:
    from accord.policy.sandbox import Sandbox
    from accord.policy.sandbox.backend import Aspect
    from accord.policy.sandbox.steering_watch import SteeringState

OnControlFiles: TypeAlias = Callable[[list[str]], None]
"""Called with the control files that a command wrote, or with an error message, on the event loop."""

_REQUIRED: Final[tuple["Aspect", ...]] = ("writes", "steering", "sockets")
"""Without one of these, a command can act outside the folders, now or when the user next runs git there."""


class FolderSandbox:
    """Confines the commands of one session to its folders. Its methods are called in threads."""

    def __init__(self, folders: tuple[str, ...], backend: str | None = None) -> None:
        """`backend` requires one of the sandbox's backends; None takes the best one."""
        self._folders = folders
        self._backend = backend
        self._sandbox: Sandbox | None = None
        self._lock = threading.Lock()

    def confine(self, command: PreparedCommand, variables: Mapping[str, str]) -> PreparedCommand:
        """Return what to start so that the command runs in the sandbox.

        Of the gateway's environment the command gets only what is harmless. Raises RpcError if there is no
        sandbox on this machine.
        """
        with self._lock:
            try:
                if self._sandbox is None:
                    self._sandbox = self._create()
                else:
                    self._sandbox.scan()  # for secrets that are new in the folders
                confined = self._sandbox.wrap(command.argv, env=variables, cwd=command.cwd)
            except (UsageError, OSError) as error:
                raise _refusal(str(error)) from None
        return PreparedCommand(confined.argv, confined.env, Path(confined.cwd))

    def _create(self) -> "Sandbox":
        from accord.policy.sandbox import Sandbox

        sandbox = Sandbox(self._folders, backend=self._backend)
        report = sandbox.report
        if not all(report.fact(aspect).enforced for aspect in _REQUIRED):
            sandbox.close()
            raise _refusal("; ".join((report.summary(), *report.reasons)))
        return sandbox

    def close(self) -> None:
        """Remove the private folder of the sandbox. All commands must have ended."""
        with self._lock:
            sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()


def _refusal(reason: str) -> RpcError:
    return RpcError(
        "the command was not started: a token of this session is bound to folders, so commands need a "
        f"sandbox that confines them, and there is none for its folders ({reason})",
        code=NOT_ALLOWED,
    )


def is_control_file(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a file in the folders decides what git, an editor or an agent runs. The path is resolved."""
    from accord.policy.git_repository import repository_of, steering_in_git
    from accord.policy.secret_files import configures_programs

    inner_paths = (path.relative_to(folder) for folder in folders if path.is_relative_to(folder))
    if any(map(configures_programs, inner_paths)):
        return True
    repository = repository_of(path.parent)
    return repository is not None and any(
        path.is_relative_to(named) for named in steering_in_git(str(repository.git_dir))
    )


class _WatchedTerminals(Terminals):
    """Looks for control files that a confined command wrote, when it has ended."""

    def __init__(
        self,
        roots: Roots,
        *,
        confines: Callable[[], bool],
        on_control_files: OnControlFiles,
        on_output: Callable[[str, str], None],
        confine: Callable[[PreparedCommand, Mapping[str, str]], PreparedCommand],
    ) -> None:
        super().__init__(roots, on_output=on_output, confine=confine)
        self._confines = confines
        self._on_control_files = on_control_files
        self._checks: set[asyncio.Task[None]] = set()

    async def create(self, command: TerminalCommand) -> str:
        if not self._confines():
            return await super().create(command)
        from accord.policy.sandbox.steering_watch import SteeringWatch

        watch = SteeringWatch([str(folder) for folder in self.roots.folders])
        before = await asyncio.to_thread(watch.state)
        id = await super().create(command)
        check = asyncio.ensure_future(self._check_at_end(self._terminal(id), watch.changes, before))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)
        return id

    async def _check_at_end(
        self,
        terminal: RunningTerminal,
        changes: "Callable[[SteeringState], list[str]]",
        before: "SteeringState",
    ) -> None:
        await terminal.wait()
        try:
            changed = await asyncio.to_thread(changes, before)
        except OSError as error:
            changed = [f"not recorded: {error.strerror}"]
        if changed:
            self._on_control_files(changed)

    async def aclose(self) -> None:
        await super().aclose()
        if self._checks:
            await asyncio.wait(self._checks)


class GatewayWorkspace:
    """Files and terminals of one session. Closing it ends what was started in it."""

    def __init__(
        self,
        folders: tuple[str, ...],
        on_output: Callable[[TerminalPrinted], None],
        confines: Callable[[], bool],
        on_control_files: OnControlFiles,
    ) -> None:
        """`confines` tells whether the next command must run in the sandbox."""
        self.folders: tuple[str, ...] = folders
        self.terminals: TerminalViews = TerminalViews(on_output)
        self._confines = confines
        self._on_control_files = on_control_files
        self._sandbox = FolderSandbox(folders)
        self._roots = Roots(folders[0], folders[1:])
        self._workspace: LocalWorkspace | None = None
        self.tasks: OwnedTasks = OwnedTasks()
        """The requests that are being served; `aclose` cancels them."""

    @property
    def workspace(self) -> "GatewayWorkspace":
        """Itself, as `agent_requests` expects."""
        return self

    def use(self) -> LocalWorkspace:
        """Return the workspace, created on first use."""
        if self._workspace is None:
            terminals = _WatchedTerminals(
                self._roots,
                confines=self._confines,
                on_control_files=self._on_control_files,
                on_output=self.terminals.add_output,
                confine=self._confined_command,
            )
            files = TextFiles(self._roots, check_write=self._check_write)
            self._workspace = LocalWorkspace(self._roots, files=files, terminals=terminals)
        return self._workspace

    def _confined_command(self, command: PreparedCommand, variables: Mapping[str, str]) -> PreparedCommand:
        return self._sandbox.confine(command, variables) if self._confines() else command

    def _check_write(self, path: Path) -> None:
        """Refuse to write a control file if a folder-bound token can have caused that."""
        if self._confines() and is_control_file(path, self._roots.folders):
            raise RpcError(
                f"{quote_value(path)} was not written: a token of this session is bound to folders, and this "
                "file decides what other programs run; change it with a token without --folder",
                code=NOT_ALLOWED,
            )

    async def aclose(self) -> None:
        """Cancel the running requests and end the terminals."""
        await self.tasks.end()
        workspace, self._workspace = self._workspace, None
        if workspace is not None:
            await workspace.aclose()
        await asyncio.to_thread(self._sandbox.close)
