"""Types between a session and its MCP servers: hooks, limits, state, offered features; cleaning of server
text.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from accord.clock import Clock
from accord.coder.bounded_text import capped
from accord.errors import AccordError

# MERGED coder.mcp.hooks: The seam between a session and its MCP servers: what the session gives them, what bounds them, how they stand.

Status: TypeAlias = Literal["connecting", "ready", "failed", "closed"]


class McpServerFailure(AccordError):
    """A server could not do what was asked. One line: which server, what it was about, what to do."""


class ServerConnectionLost(McpServerFailure):
    """The connection ended before the answer came."""


class SessionExpired(McpServerFailure):
    """The server no longer knows us, and did nothing: worth another try over a new connection."""


class McpHooks(Protocol):
    """What a session does for its servers."""

    def changed(self) -> None:
        """Tools, prompts or states are others than before."""
        ...

    def failed(self, name: str, why: str) -> None:
        """A server failed, at its start or later. `why` is one line, without the name."""
        ...

    async def elicit_form(self, message: str, schema: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Let the user fill in a form: what they did (`accept`, `decline`, `cancel`), and what they filled in."""
        ...

    async def elicit_url(self, message: str, url: str) -> str:
        """Let the user open a page: what they did."""
        ...


class AcpRequest(Protocol):
    """Calls a server that the client itself offers; `AgentSession.mcp_request` is one."""

    async def __call__(
        self,
        server_id: str,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_notification: Callable[[str, Mapping[str, Any]], object] | None = None,
    ) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class McpLimits:
    """How much of a server is taken in, and how long it is waited for."""

    connect_seconds: float = 60
    """From its start to its list of tools: the first start by `npx` or `uvx` downloads it."""
    call_seconds: float = 300
    """Without a sign of life. Progress is one; while the user is asked something, time stands still."""
    most_call_seconds: float = 3600
    list_seconds: float = 30
    cancel_seconds: float = 0.5
    """For the word that a call is cancelled to leave."""
    leave_seconds: float = 1.5
    """From the end of the session to SIGTERM, and from there to SIGKILL."""
    refresh_seconds: float = 1
    """Between two looks at the lists of a server that says they changed."""
    restarts: int = 3
    """In a row, without a call that went well between them."""
    message_bytes: int = 32 * 1024 * 1024
    tools: int = 256
    """Of one server; further ones are left out."""
    prompts: int = 128
    resources: int = 1000
    description_chars: int = 8_000
    schema_bytes: int = 100_000
    """Of one tool; one with a larger schema is left out."""
    log_lines: int = 500
    """Of its stderr, and of what it sends for the log, that one connection may fill."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server stands."""

    name: str
    """As tools, titles and commands name it: cleaned, and unique in its session."""
    transport: str
    status: Status
    why: str = ""
    """One line, if it failed."""
    tools: int = 0
    prompts: int = 0
    resources: int = 0


# MERGED coder.mcp.offers: What one server offers, in our own words: cleaned and bounded, free of any version of MCP.


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool, as the server describes it."""

    name: str
    """As the server knows it; for nobody else."""
    title: str
    description: str
    schema: dict[str, Any]
    read_only: bool = False
    """What the server claims."""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """Something to fill into a prompt."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class OfferedPrompt:
    """A prompt, as the server describes it."""

    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedResource:
    """A resource, or a template of addresses of such."""

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""
    template: bool = False


@dataclass(frozen=True, slots=True)
class OfferedFeatures:
    """Everything that a server offers at a time."""

    tools: tuple[OfferedTool, ...] = ()
    prompts: tuple[OfferedPrompt, ...] = ()
    resources: tuple[OfferedResource, ...] = ()
    instructions: str = ""
    has_resources: bool = field(default=False)
    """Whether it has resources at all, also if there are none right now."""


# MERGED coder.mcp.cleaning: What servers say about themselves, made harmless: nobody has read it before the model and the user do.
#
# Names and descriptions lose what cannot be seen (controls, marks of direction, invisible tags) and are bounded. Results
# keep everything but terminal controls.

_UNSEEN: Final = frozenset(("Cc", "Cf", "Co", "Cs", "Cn"))
_JOINERS: Final = "\u200c\u200d"
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_SHORTEST_SECRET: Final = 6
_DEEPEST: Final = 40


def clean(text: str, most: int) -> str:
    """A description: what of it can be seen, line ends kept, so many characters at most."""
    if len(text) > 4 * most:
        text = text[: 2 * most] + text[-2 * most :]
    text = _ESCAPES.sub("", text)
    seen = "".join(c for c in text if c in "\n\t" + _JOINERS or unicodedata.category(c) not in _UNSEEN)
    return capped(seen.strip(), most).strip()


def clean_line(text: str, most: int) -> str:
    """A name or a title: the same on one line."""
    line = " ".join(clean(text, 4 * most).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def clean_result(text: str) -> str:
    """A result: without terminal controls and half characters."""
    return _ESCAPES.sub("", text).encode("utf-8", "replace").decode("utf-8")


def clean_schema(schema: dict[str, Any], most: int) -> dict[str, Any]:
    """A schema of arguments: an object's, its descriptions cleaned. Raises ValueError for one that nests too deep."""
    cleaned = cast(dict[str, Any], _cleaned(schema, most, 0))
    if cleaned.get("type") != "object":
        cleaned["type"] = "object"
    if not isinstance(cleaned.get("properties"), dict):
        cleaned["properties"] = {}
    return cleaned


def _cleaned(value: Any, most: int, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it nests too deep")
    if isinstance(value, dict):
        found = cast(dict[str, Any], value)
        return {
            name: clean(inner, most)
            if name in ("description", "title") and isinstance(inner, str)
            else _cleaned(inner, most, depth + 1)
            for name, inner in found.items()
        }
    if isinstance(value, list):
        return [_cleaned(inner, most, depth + 1) for inner in cast(list[Any], value)]
    return value


class Secrets:
    """What the client gave for a server and nobody else may read; masks it in text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        pieces = {
            piece for value in values for piece in (value, *value.split()) if len(piece) >= _SHORTEST_SECRET
        }
        self._pieces = sorted(pieces, key=len, reverse=True)

    def masked(self, text: str) -> str:
        """The text without them."""
        for piece in self._pieces:
            text = text.replace(piece, "***")
        return text


def secrets_of_url(url: str) -> list[str]:
    """What of an address may be a credential: user, password and the values of its query."""
    try:
        parts = urlsplit(url)
        found = [parts.username or "", parts.password or "", *(value for _, value in parse_qsl(parts.query))]
    except ValueError:
        return [url]
    return [*found, *map(unquote, found), parts.query]


# MERGED coder.mcp.terms: On what terms a server is connected: where it works, what bounds it, who is asked, and who is told what happens.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """The same for every connection to a server, but for the last two."""

    name: str
    cwd: str
    roots: tuple[str, ...]
    hooks: McpHooks
    limits: McpLimits
    clock: Clock
    environment: Mapping[str, str] | None
    secrets: Secrets
    acp: AcpRequest | None
    lost: Callable[[str], None]
    """The connection is over; why, in one line without the name."""
    stale: Callable[[], None]
    """What the server offers is no longer what it was."""
