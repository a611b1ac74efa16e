"""Files and terminals for the agent: `fs/*` and `terminal/*`, each request served by the workspace of its session."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from accord.client.terminals import TerminalViews
from accord.schema import (
    UNSET,
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    KillTerminalResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    TerminalExitStatus,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)
from accord.workspace.terminal import ExitStatus
from accord.workspace.workspace import Workspace

if TYPE_CHECKING:
    from accord.client.session import ClientSession


class Lent(Protocol):
    """A workspace that is made when it is needed."""

    def use(self) -> Workspace:
        """The workspace as it has to be now."""
        ...


class Served(Protocol):
    """Whose files and terminals the agent asks for."""

    @property
    def workspace(self) -> Lent:
        """What serves it."""
        ...

    @property
    def terminals(self) -> TerminalViews:
        """What its terminals printed."""
        ...


class SessionWorkspace:
    """The workspace of one session: made when it is first needed, ended with the session or its agent."""

    def __init__(self, session: "ClientSession") -> None:
        self._session = session
        self._made: Workspace | None = None
        self._folders: tuple[Path, ...] = ()

    def use(self) -> Workspace:
        """The workspace, bound to the folders that the session has now."""
        session = self._session
        folders = session.roots.folders
        if self._made is None or folders != self._folders:
            # A child may be given other folders while it runs; what it started in the old ones ends.
            if self._made is not None:
                session.life.own(self._made.aclose())
            maker = session.life.handlers.workspace
            assert maker is not None, "only served when a workspace is offered"
            self._made, self._folders = maker(session), folders
        return self._made

    async def aclose(self) -> None:
        """End what runs in it; a new one is made when it is needed again."""
        made, self._made = self._made, None
        if made is not None:
            await made.aclose()


async def read_text_file(session: Served, asked: ReadTextFileRequest) -> ReadTextFileResponse:
    """`fs/read_text_file`."""
    text = await session.workspace.use().read_text_file(asked.path, _given(asked.line), _given(asked.limit))
    return ReadTextFileResponse(text)


async def write_text_file(session: Served, asked: WriteTextFileRequest) -> WriteTextFileResponse:
    """`fs/write_text_file`."""
    await session.workspace.use().write_text_file(asked.path, asked.content)
    return WriteTextFileResponse()


async def create_terminal(session: Served, asked: CreateTerminalRequest) -> CreateTerminalResponse:
    """`terminal/create`."""
    terminal_id = await session.workspace.use().create_terminal(
        asked.command,
        _given(asked.args),
        env={variable.name: variable.value for variable in asked.env or ()},
        cwd=_given(asked.cwd),
        output_byte_limit=_given(asked.output_byte_limit),
    )
    session.terminals.view(terminal_id).command = " ".join([asked.command, *(asked.args or ())])
    return CreateTerminalResponse(terminal_id)


async def terminal_output(session: Served, asked: TerminalOutputRequest) -> TerminalOutputResponse:
    """`terminal/output`."""
    now = await session.workspace.use().terminal_output(asked.terminal_id)
    answer = TerminalOutputResponse(now.output, now.truncated)
    if now.exit_status is not None:
        session.terminals.view(asked.terminal_id).exit_status = now.exit_status
        answer.exit_status = TerminalExitStatus(*_code_and_signal(now.exit_status))
    return answer


async def wait_for_exit(session: Served, asked: WaitForTerminalExitRequest) -> WaitForTerminalExitResponse:
    """`terminal/wait_for_exit`."""
    status = await session.workspace.use().wait_for_exit(asked.terminal_id)
    session.terminals.view(asked.terminal_id).exit_status = status
    return WaitForTerminalExitResponse(*_code_and_signal(status))


async def kill_terminal(session: Served, asked: KillTerminalRequest) -> KillTerminalResponse:
    """`terminal/kill`."""
    await session.workspace.use().kill_terminal(asked.terminal_id)
    return KillTerminalResponse()


async def release_terminal(session: Served, asked: ReleaseTerminalRequest) -> ReleaseTerminalResponse:
    """`terminal/release`."""
    await session.workspace.use().release_terminal(asked.terminal_id)
    session.terminals.view(asked.terminal_id).released = True
    return ReleaseTerminalResponse()


def _given(value: Any) -> Any:
    """The value, or None where it is absent or null."""
    return None if value is UNSET else value


def _code_and_signal(status: ExitStatus) -> tuple[int | None, str | None]:
    return status.exit_code, status.signal
