"""The contract between the agent loop and a tool.

The loop calls `Tool.prepare` with the arguments of the model. The `PreparedCall` says what the client and the
policy need to know, with resolved paths. If the call is allowed, the loop runs it. The loop also sends the
permission request and the updates of the tool call.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from accord.coder.model_history import Part, TextPart
from accord.errors import AccordError
from accord.policy.mode_names import Mode
from accord.schema.content import Content, TextContent, ToolCallContent, ToolCallLocation, ToolKind

if TYPE_CHECKING:
    from accord.coder.tools.tool_context import ToolContext

Category: TypeAlias = Literal["read-only", "write", "execute", "external"]
"""How much a call can change: nothing, files, anything; or unknown, for tools of MCP servers."""


class ToolFailure(AccordError):
    """A tool call failed. The text is for the model: what was tried, and what to do instead.

    `shown` is the text for the user, without the advice to the model.
    """

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason}; {advice}" if advice else reason)
        self.shown: str = reason


class BadArguments(ToolFailure):
    """The arguments are invalid and could not be repaired. Nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubject:
    """Everything a call touches, for the policy. Paths are absolute, with links and `..` resolved."""

    paths: tuple[str, ...] = ()
    """The paths that a read-only call reads, or that another call creates, changes, removes or moves.

    A folder stands for everything in it.
    """
    command: str | None = None
    """The shell line."""
    cwd: str | None = None
    """The folder in which the shell line runs."""
    url: str | None = None
    outside_sandbox: bool = False
    """Whether the command runs without the sandbox although there is one."""
    read_only: bool = False
    """Whether the MCP server declares that the tool changes nothing."""
    sandboxed: bool = False
    """Whether the command runs in the sandbox."""
    asks_itself: bool = False
    """Whether each act of the call is a call of its own, with its own permission."""
    mode_limit: Mode | None = None
    """The widest mode for the call, if it is made by a custom agent that has one."""
    ask_reason: str = ""
    """Why the user must be asked even if the policy allows the call: a hook said so."""


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """An update of a running call. None keeps the shown value; a list replaces it."""

    content: Sequence[ToolCallContent] | None = None
    locations: Sequence[ToolCallLocation] | None = None
    title: str | None = None
    output: Callable[[], str] | None = None
    """Returns the output so far. The model gets it if the user ends the call."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a call."""

    parts: Sequence[Part]
    """For the model."""
    content: Sequence[ToolCallContent] | None = None
    """For the client, in place of the content of the running call; None keeps that."""
    raw_output: Any = None
    """The result as JSON, for programs."""
    failed: bool = False
    locations: Sequence[ToolCallLocation] | None = None
    """None keeps the locations of the call."""

    @property
    def text(self) -> str:
        """The text for the model."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))


Report: TypeAlias = Callable[[ToolProgress], Awaitable[None]]
"""Shows the progress of a running call. Waits while the client is slower than the tool."""


async def _no_preview() -> Sequence[ToolCallContent]:
    return ()


async def _no_check() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A tool call that is ready for the permission decision, for display, and to run."""

    title: str
    """One line, for the user."""
    subject: CallSubject
    run: Callable[[Report], Awaitable[ToolOutcome]]
    """Run the call, once. Cancelling it ends everything it started. Raises only CancelledError."""
    check: Callable[[], Awaitable[None]] = _no_check
    """Raise an AccordError for the model if the call would fail now. Changes nothing.

    Called before the user is asked, so that no question is about a call that cannot succeed.
    """
    preview: Callable[[], Awaitable[Sequence[ToolCallContent]]] = _no_preview
    """Return the effect of the call for a permission request, such as a diff. The model never gets it."""
    locations: Sequence[ToolCallLocation] = ()
    category: Category = "external"
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The arguments after repairs."""


class Tool(Protocol):
    """A tool that the model can call. Built-in tools and those of MCP servers implement it."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> ToolKind: ...
    @property
    def category(self) -> Category:
        """The usual category of its calls. The category of the prepared call is the one that counts."""
        ...

    @property
    def description(self) -> str:
        """The description for the model."""
        ...

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        ...

    async def prepare(self, arguments: Any, context: "ToolContext") -> PreparedCall:
        """Check the arguments and prepare the call. Changes nothing. Raises ToolFailure, for the model."""
        ...


def text_outcome(
    text: str, *, failed: bool = False, raw: Any = None, shown: str | None = None
) -> ToolOutcome:
    """Return an outcome with a text for the model; `shown` is the text for the client, if it differs."""
    content = Content(TextContent(text if shown is None else shown))
    return ToolOutcome((TextPart(text),), (content,), raw, failed)
