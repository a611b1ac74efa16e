"""What a client offers to the agent. The capabilities it advertises follow from what is given here."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from accord.client.elicitation import FormHandler, UrlHandler
from accord.client.login import LoginRunner
from accord.client.mcp import McpService
from accord.client.options import Features
from accord.client.permissions import PermissionHandler, reject_all
from accord.errors import UsageError
from accord.schema import (
    UNSET,
    AuthCapabilities,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    CompactionCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    FileSystemCapabilities,
    NoticeCapabilities,
    PlanCapabilities,
    SessionConfigOptionsCapabilities,
    SubagentCapabilities,
)
from accord.workspace.terminals import Terminals
from accord.workspace.workspace import LocalWorkspace, Workspace

if TYPE_CHECKING:
    from accord.client.session import ClientSession

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

    def capabilities(self, features: Features, *, can_rerun: bool) -> ClientCapabilities:
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
