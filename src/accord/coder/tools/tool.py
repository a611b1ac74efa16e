"""The seam between the loop and a tool.

The loop asks a `Tool` to `prepare` what the model asked for. The `PreparedCall` that comes back says all that the client and
the policy need to know, paths resolved once and for all; only then, and only if it may, it is `run`. The permission
question and the updates of the tool call are the loop's.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from accord.coder.model_history import Part, TextPart
from accord.errors import AccordError
from accord.schema.content import Content, TextContent, ToolCallContent, ToolCallLocation, ToolKind

if TYPE_CHECKING:
    from accord.coder.tools.tool_context import ToolContext

Category: TypeAlias = Literal["read-only", "write", "execute", "external"]
"""How much harm a call can do: none, to files, anything; or unknown, because somebody else's tool does it."""


class ToolFailure(AccordError):
    """A tool cannot do what was asked. The message is for the model: what was tried, and what to do instead."""


class BadArguments(ToolFailure):
    """The arguments do not fit and could not be repaired; nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubject:
    """Everything a call touches, for the policy to judge. Paths are absolute, with links and `..` resolved."""

    paths: tuple[str, ...] = ()
    """What is read, if the call only reads, else what is made, changed, removed or moved; of a folder, all in it."""
    command: str | None = None
    """The shell line."""
    cwd: str | None = None
    """Where the shell line starts, and relative paths in it with it."""
    url: str | None = None
    outside_sandbox: bool = False
    """The command is not to be confined although there is a sandbox."""
    read_only: bool = False
    """The tool of somebody else that does it says that it changes nothing."""
    sandboxed: bool = False
    """The command will be started in the sandbox; how well that holds is not for the tool to say."""


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """What is to be shown of a running call; None leaves what is shown, a list replaces it whole."""

    content: Sequence[ToolCallContent] | None = None
    locations: Sequence[ToolCallLocation] | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of a call."""

    parts: Sequence[Part]
    """For the model."""
    content: Sequence[ToolCallContent] | None = None
    """For the client, in place of what was shown while it ran; None leaves that."""
    raw_output: Any = None
    """The same for machines, as JSON."""
    failed: bool = False
    locations: Sequence[ToolCallLocation] | None = None
    """None leaves those of the call."""

    @property
    def text(self) -> str:
        """What the model reads."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))


Report: TypeAlias = Callable[[ToolProgress], Awaitable[None]]
"""Shows how far a running call is. Waits while the client reads more slowly than the tool writes."""


async def _nothing_to_show() -> Sequence[ToolCallContent]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """One use of a tool, ready to be judged, shown and run."""

    title: str
    """For people, one line."""
    subject: CallSubject
    run: Callable[[Report], Awaitable[ToolOutcome]]
    """Do it, once. Cancelling it ends everything it started; it raises nothing else."""
    preview: Callable[[], Awaitable[Sequence[ToolCallContent]]] = _nothing_to_show
    """What it would do, for a permission question: the diff of an edit. For the user's eyes only, never the model's."""
    locations: Sequence[ToolCallLocation] = ()
    category: Category = "external"
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What it was understood to be called with, after repairs."""


class Tool(Protocol):
    """Something the model can use. The tools of this package and those of MCP servers look alike to the loop."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> ToolKind: ...
    @property
    def category(self) -> Category:
        """Of its calls, as a rule; what counts is that of the call."""
        ...

    @property
    def description(self) -> str:
        """For the model."""
        ...

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        ...

    async def prepare(self, arguments: Any, context: "ToolContext") -> PreparedCall:
        """Understand what the model asked for; nothing is done yet. Raises ToolFailure, for the model."""
        ...


def said(text: str, *, failed: bool = False, raw: Any = None) -> ToolOutcome:
    """An outcome that tells model and client the same."""
    return ToolOutcome((TextPart(text),), (Content(TextContent(text)),), raw, failed)


def listing(text: str, *, language: str = "") -> Content:
    """Text that a client shows as it is: clients read the text of tool calls as Markdown."""
    fence = "```"
    while fence in text:
        fence += "`"
    return Content(
        TextContent(f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}")
    )
