"""`ClientHandlers`: what the client offers; sign-in in a terminal; MCP calls."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from accord.client.client_options import ClientFeatures
from accord.client.elicitation_forms import FormHandler, UrlHandler
from accord.client.permissions import PermissionHandler, reject_all
from accord.errors import NeverStarted, UsageError
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
    McpFailure,
    McpResult,
    MessageMcpNotification,
    MessageMcpRequest,
    NoticeCapabilities,
    PlanCapabilities,
    SessionConfigOptionsCapabilities,
    SubagentCapabilities,
)
from accord.wire.process import ProcessTransport, spawn
from accord.workspace.terminals import Terminals
from accord.workspace.workspace import LocalWorkspace, Workspace

if TYPE_CHECKING:
    from accord.client.client_session import ClientSession


# MERGED client.login: Signing in by the agent's own program: started a second time, in a terminal the user sits at.


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """How the agent's program is started."""

    command: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str | None] | None = None
    """Laid over this process's environment; None takes a name out."""

    def __str__(self) -> str:
        return " ".join(self.command)

    def for_login(self, method: AuthMethodTerminal) -> "AgentCommand":
        """The same program with the method's arguments appended and its variables on top."""
        env = {**(self.env or {}), **(method.env or {})}
        return AgentCommand((*self.command, *(method.args or ())), self.cwd, env)

    async def start(self, on_stderr: Callable[[str], None] | None, limit: int) -> ProcessTransport:
        """Start it as an agent: speak with it over its pipes, in messages up to the limit. Raises `NeverStarted`."""
        return await spawn(self.command, cwd=self.cwd, env=self.env, on_stderr=on_stderr, limit=limit)


LoginRunner: TypeAlias = Callable[[AgentCommand], Awaitable[int]]
"""Runs a program in an interactive terminal and gives its exit code; only 0 is success."""


async def run_in_terminal(launch: AgentCommand) -> int:
    """Run it in the terminal this process was started from: it takes over stdin, stdout and stderr until it exits."""
    env: dict[str, str] = {
        name: value for name, value in {**os.environ, **(launch.env or {})}.items() if value is not None
    }
    try:
        process = await asyncio.create_subprocess_exec(*launch.command, cwd=launch.cwd, env=env)
    except OSError as error:
        raise NeverStarted(f"cannot start {launch} to sign in: {error.strerror or error}") from None
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


# MERGED client.mcp: Unstable. MCP servers that the client itself offers: the agent calls their methods by `mcp/message`.


class McpMethodFailed(Exception):
    """Raise it in an `McpService`: the method itself failed, which the agent's MCP client is told as such."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = McpError(code, message) if data is None else McpError(code, message, data)


@dataclass(slots=True)
class McpCall:
    """One MCP request while it is served."""

    method: str
    params: dict[str, Any] | None
    sent: MessageMcpRequest
    send: Callable[[MessageMcpNotification], None]
    active: bool = True

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tell the caller something about this request, such as its progress; nothing is sent once it is answered."""
        if self.active:
            self.send(MessageMcpNotification(self.sent.server_id, self.sent.request_id, method, params))


McpService: TypeAlias = Callable[[McpCall], Awaitable[Any]]
"""Serves the methods of one MCP server: gives the result as plain JSON values, or raises `McpMethodFailed`."""


async def serve_mcp_call(service: McpService, call: McpCall) -> McpResult | McpFailure:
    """One request, answered with exactly one of a result and an error."""
    try:
        return McpResult(await service(call))
    except McpMethodFailed as failure:
        return McpFailure(failure.error)
    finally:
        call.active = False


# MERGED client.handlers: What a client offers to the agent. The capabilities it advertises follow from what is given here.

Offer: TypeAlias = Literal["read", "write", "terminal"]
WorkspaceMaker: TypeAlias = Callable[["ClientSession"], Workspace]
ExtensionHandler: TypeAlias = Callable[[Any], Any | Awaitable[Any]]
"""Gets the parameters as plain JSON values and gives the result, if one is due, as such."""


def local_workspace(session: "ClientSession") -> LocalWorkspace:
    """Files and terminals of this machine, within the roots of the session; what terminals print is shown live."""
    return LocalWorkspace(
        session.roots, terminals=Terminals(session.roots, on_output=session.terminals.printed)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHandlers:
    """Everything is optional; by default the agent is offered nothing and every permission is refused."""

    permissions: PermissionHandler = reject_all
    workspace: WorkspaceMaker | None = None
    """Makes the files and terminals for one session."""
    offer: tuple[Offer, ...] = ("read", "write", "terminal")
    """What of the workspace the agent may use."""
    forms: FormHandler | None = None
    urls: UrlHandler | None = None
    login: LoginRunner | None = None
    """Runs the agent's program in a terminal that the user sits at, to sign in; gives its exit code."""
    extensions: Mapping[str, ExtensionHandler] = field(default_factory=dict[str, ExtensionHandler])
    """Methods of your own, requests and notifications alike; their names begin with an underscore."""
    mcp: Mapping[str, McpService] = field(default_factory=dict[str, McpService])
    """Unstable. MCP servers that this client offers, by the `server_id` under which a session declares them."""

    def __post_init__(self) -> None:
        for name in self.extensions:
            if not name.startswith("_"):
                raise UsageError(
                    f"the extension {name!r} cannot be served: its name must begin with an underscore"
                )

    def offers(self, what: Offer) -> bool:
        """Whether this part of a workspace is offered."""
        return self.workspace is not None and what in self.offer

    def capabilities(self, features: ClientFeatures, *, can_rerun: bool) -> ClientCapabilities:
        """What to tell the agent. `can_rerun`: its program can be started a second time, in a terminal."""
        capabilities = ClientCapabilities(
            fs=FileSystemCapabilities(
                read_text_file=self.offers("read"), write_text_file=self.offers("write")
            ),
            terminal=self.offers("terminal"),
            session=ClientSessionCapabilities(
                compaction=CompactionCapabilities() if features.compaction else UNSET,
                notices=NoticeCapabilities() if features.notices else UNSET,
                config_options=SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities())
                if features.boolean_options
                else UNSET,
            ),
            meta=dict(features.meta) or UNSET,
        )
        if self.forms is not None or self.urls is not None:
            capabilities.elicitation = ElicitationCapabilities(
                form=UNSET if self.forms is None else ElicitationFormCapabilities(),
                url=UNSET if self.urls is None else ElicitationUrlCapabilities(),
            )
        if self.login is not None and can_rerun:
            capabilities.auth = AuthCapabilities(terminal=True)
        if features.plans:
            capabilities.plan = PlanCapabilities()
        if features.subagents:
            capabilities.subagents = SubagentCapabilities()
        return capabilities
