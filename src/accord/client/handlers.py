"""`ClientHandlers`: what the client offers to the agent; sign-in in a terminal; MCP calls."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from accord.client.client_options import ClientFeatures
from accord.client.elicitation_forms import FormHandler, UrlHandler
from accord.client.permissions import PermissionHandler, reject_all
from accord.errors import NeverStarted
from accord.schema import (
    UNSET,
    AuthCapabilities,
    AuthMethodTerminal,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    CompactionCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    FileSystemCapabilities,
    McpError,
    MessageMcpNotification,
    MessageMcpRequest,
    NoticeCapabilities,
    PlanCapabilities,
    SessionConfigOptionsCapabilities,
    SubagentCapabilities,
)
from accord.schema.methods import check_extension_name
from accord.wire.process import ProcessTransport, spawn
from accord.workspace.terminals import Terminals
from accord.workspace.workspace import LocalWorkspace, Workspace

if TYPE_CHECKING:
    from accord.client.client_session import ClientSession

Offer: TypeAlias = Literal["read", "write", "terminal"]
WorkspaceMaker: TypeAlias = Callable[["ClientSession"], Workspace]
ExtensionHandler: TypeAlias = Callable[[Any], Any | Awaitable[Any]]
"""Takes the parameters as plain JSON values. Returns the result of a request as plain JSON values."""


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """The command that starts the agent's program."""

    command: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str | None] | None = None
    """Changes to the environment of this process; None removes a variable."""

    def __str__(self) -> str:
        # Imported here because few programs show the command.
        from accord.trace.redaction import redact_command

        return " ".join(redact_command(self.command))

    @property
    def program_name(self) -> str:
        """A short name without folders, such as `python agent.py`."""
        from accord.trace.redaction import redact_command

        words = redact_command(self.command)[:2]
        return " ".join(os.path.basename(word) for word in words if not word.startswith("-"))

    def for_login(self, method: AuthMethodTerminal) -> "AgentCommand":
        """The command for a terminal sign-in: with the additional arguments and variables of the method."""
        env = {**(self.env or {}), **(method.env or {})}
        return AgentCommand((*self.command, *(method.args or ())), self.cwd, env)

    async def start(self, on_stderr: Callable[[str], None] | None, limit: int) -> ProcessTransport:
        """Start the agent with pipes. `limit` is the size of the largest message. Raises NeverStarted."""
        return await spawn(self.command, cwd=self.cwd, env=self.env, on_stderr=on_stderr, limit=limit)


LoginRunner: TypeAlias = Callable[[AgentCommand], Awaitable[int]]
"""Runs a program in an interactive terminal and returns its exit code; only 0 is success."""


async def run_in_terminal(command: AgentCommand) -> int:
    """Run a program in the terminal of this process; it uses stdin, stdout and stderr until it exits."""
    env: dict[str, str] = {
        name: value for name, value in {**os.environ, **(command.env or {})}.items() if value is not None
    }
    try:
        process = await asyncio.create_subprocess_exec(*command.command, cwd=command.cwd, env=env)
    except OSError as error:
        raise NeverStarted(f"cannot start {command} to sign in: {error.strerror or error}") from None
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


class McpMethodFailed(Exception):
    """Raise it in an `McpService` to answer a call with an MCP error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: McpError = McpError(code, message) if data is None else McpError(code, message, data)


@dataclass(slots=True)
class McpCall:
    """One MCP request of the agent, while the client serves it."""

    method: str
    params: dict[str, Any] | None
    message: MessageMcpRequest
    """The agent's request, with the ids of the server and of the request."""
    send: Callable[[MessageMcpNotification], None]
    active: bool = True

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification about this request, such as its progress; does nothing after the response."""
        if self.active:
            self.send(MessageMcpNotification(self.message.server_id, self.message.request_id, method, params))


McpService: TypeAlias = Callable[[McpCall], Awaitable[Any]]
"""Serves the methods of one MCP server: returns plain JSON values, or raises `McpMethodFailed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHandlers:
    """What the client offers to the agent. The advertised capabilities follow from it.

    By default, nothing is offered and every permission request is refused.
    """

    permissions: PermissionHandler = reject_all
    workspace: WorkspaceMaker | None = None
    """Creates the files and terminals of a session."""
    offer: tuple[Offer, ...] = ("read", "write", "terminal")
    """The parts of the workspace that the agent may use."""
    forms: FormHandler | None = None
    urls: UrlHandler | None = None
    login: LoginRunner | None = None
    """Runs the agent's program in the user's terminal to sign in, and returns its exit code."""
    extensions: Mapping[str, ExtensionHandler] = field(default_factory=dict[str, ExtensionHandler])
    """Your own methods, both requests and notifications; their names begin with an underscore."""
    mcp: Mapping[str, McpService] = field(default_factory=dict[str, McpService])
    """Unstable. The client's own MCP servers, by the `server_id` under which a session declares them."""

    def __post_init__(self) -> None:
        for name in self.extensions:
            check_extension_name(name)


def local_workspace(session: "ClientSession") -> LocalWorkspace:
    """The files and terminals of this machine, limited to the roots of the session."""
    return LocalWorkspace(
        session.roots, terminals=Terminals(session.roots, on_output=session.terminals.add_output)
    )


def offers(handlers: ClientHandlers, part: Offer) -> bool:
    """Whether a part of the workspace is offered."""
    return handlers.workspace is not None and part in handlers.offer


def client_capabilities(
    handlers: ClientHandlers, features: ClientFeatures, *, can_rerun: bool
) -> ClientCapabilities:
    """The capabilities to advertise. `can_rerun`: the agent's program can also be started in a terminal."""
    capabilities = ClientCapabilities(
        fs=FileSystemCapabilities(
            read_text_file=offers(handlers, "read"), write_text_file=offers(handlers, "write")
        ),
        terminal=offers(handlers, "terminal"),
        session=ClientSessionCapabilities(
            compaction=CompactionCapabilities() if features.compaction else UNSET,
            notices=NoticeCapabilities() if features.notices else UNSET,
            config_options=SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities())
            if features.boolean_options
            else UNSET,
        ),
        meta=dict(features.meta) or UNSET,
    )
    if handlers.forms is not None or handlers.urls is not None:
        capabilities.elicitation = ElicitationCapabilities(
            form=UNSET if handlers.forms is None else ElicitationFormCapabilities(),
            url=UNSET if handlers.urls is None else ElicitationUrlCapabilities(),
        )
    if handlers.login is not None and can_rerun:
        capabilities.auth = AuthCapabilities(terminal=True)
    if features.plans:
        capabilities.plan = PlanCapabilities()
    if features.subagents:
        capabilities.subagents = SubagentCapabilities()
    return capabilities
