"""One process or network connection of the agent, from `initialize` to its end; refuses calls and content
that the agent did not advertise.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Raw

from accord.client.client_options import ClientOptions, Deadlines, bounded
from accord.errors import (
    AuthRequired,
    BadAnswer,
    ConnectionClosed,
    Crashed,
    HandshakeFailed,
    Killed,
    NeverStarted,
    NotOffered,
    RequestTimeout,
    RpcError,
    UsageError,
)
from accord.schema import (
    AgentCapabilities,
    AudioContent,
    AuthMethod,
    ClientCapabilities,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    InitializeRequest,
    InitializeResponse,
    McpServer,
    McpServerAcp,
    McpServerHttp,
    McpServerSse,
    SystemPrompt,
    TextContent,
)
from accord.schema.codec import to_builtins
from accord.schema.message_reader import MessageReader
from accord.schema.methods import request
from accord.schema.validation import violations
from accord.wire.calls import ConnectionReport, Route
from accord.wire.connection import Connection
from accord.wire.transport import Transport, TransportEnd

# MERGED client.link: One life of the agent's program: a transport, the connection on it, and what was agreed in `initialize`.
#
# A restart replaces the link; the agent's handle and its sessions stay. Whatever ends a link, every open call on it gets
# an error that says how the agent ended.

T = TypeVar("T")

PROTOCOL_VERSION: Final = 1

_NOISE_KEPT: Final = 5
_NOISE_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class ConnectionSetup:
    """What a link needs from the handle it belongs to."""

    name: str
    """What errors call the agent."""
    options: ClientOptions
    reader: MessageReader
    """Reads what this agent sends; kept over restarts, so that a dialect is reported once."""
    requests: Mapping[str, Route]
    notifications: Mapping[str, Route]
    asking: Callable[[], bool]
    """Whether the agent waits for the user."""
    ended: "Callable[[InitializedConnection, TransportEnd], None]"


class InitializedConnection:
    """Made by `open_link`; usable until it has ended."""

    def __init__(self, transport: Transport, wiring: ConnectionSetup) -> None:
        self.options = wiring.options
        self.closing = False
        self._transport = transport
        self._wiring = wiring
        self._noise: deque[str] = deque(maxlen=_NOISE_KEPT)
        self._agreed: InitializeResponse | None = None
        self._results: dict[str, Callable[[Raw], Any]] = {}
        self._limit = self.options.limits.request
        self._deadlines = Deadlines(self.options.clock, self._limit, wiring.asking)
        self.reader = wiring.reader
        self.connection = Connection(
            transport,
            requests=wiring.requests,
            notifications=wiring.notifications,
            answer_invalid=False,
            strict=self.options.strict,
            limits=self.options.buffers,
            observer=self._observe,
            on_end=self._ended,
            closed_error=self.closed_error,
            clock=self.options.clock,
        )

    @property
    def agreed(self) -> InitializeResponse:
        """The agent's answer to `initialize`."""
        assert self._agreed is not None, "a link is handed out once it has been agreed on"
        return self._agreed

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the agent can do; what it left out it cannot."""
        return self.agreed.agent_capabilities or AgentCapabilities()

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The ways to sign in."""
        return tuple(self.agreed.auth_methods or ())

    # -- the handshake ------------------------------------------------------------------------------------------

    async def handshake(self, capabilities: ClientCapabilities) -> None:
        """Say `initialize`; raises HandshakeFailed when that does not lead to a version both speak."""
        self.connection.start()
        opening = InitializeRequest(PROTOCOL_VERSION, capabilities, self.options.info)
        read = self.reader.result_reader(_method("initialize"))
        try:
            agreed: InitializeResponse = await self.connection.request("initialize", opening, read=read)
        except (RpcError, BadAnswer) as error:
            raise self._handshake_failed(f"initialize failed: {error}") from error
        if agreed.protocol_version != PROTOCOL_VERSION:
            raise self._handshake_failed(
                f"it speaks version {agreed.protocol_version} of the protocol, this client speaks {PROTOCOL_VERSION}"
            )
        self._agreed = agreed

    def startup_expired(self) -> Exception:
        """The error when the start-up limit has run out."""
        limit = self.options.limits.startup or 0.0
        why = f"initialize was not answered within {limit:g} s"
        if self._noise:
            return self._handshake_failed(why)
        words = getattr(self._transport, "stderr", "").rstrip()
        said = f"; its last words on stderr:\n{words}" if words else "; is this an ACP agent?"
        return RequestTimeout(f"{self._wiring.name}: {why}{said}")

    def _handshake_failed(self, why: str, end: TransportEnd | None = None) -> HandshakeFailed:
        said = "".join(f"\n  {line}" for line in self._noise)
        said = f"; it printed instead of speaking the protocol:{said}" if said else ""
        if not why.startswith(f"{self._wiring.name}: "):
            why = f"{self._wiring.name}: {why}"
        if end is None:
            stderr: str = getattr(self._transport, "stderr", "")
            return HandshakeFailed(f"{why}{said}", stderr=stderr)
        return HandshakeFailed(f"{why}{said}", exit_code=end.exit_code, signal=end.signal, stderr=end.stderr)

    # -- calling ------------------------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        params: Any,
        *,
        read: Callable[[Raw], T] | None = None,
        key: Hashable | None = None,
    ) -> Any:
        """An ordinary call, answered within the limit for requests."""
        work = self.connection.request(method, params, read=read or self.result_of(method), key=key)
        try:
            return await self._deadlines.keep(work, method)
        except AuthRequired as error:
            error.methods = self.auth_methods
            raise

    async def patient_call(self, method: str, params: Any) -> Any:
        """A call that may take as long as a person does."""
        return await self.checked(self.connection.request(method, params, read=self.result_of(method)))

    async def streaming_call(
        self, method: str, params: Any, *, read: Callable[[Raw], T], key: str, still: Callable[[], bool]
    ) -> T:
        """A call whose updates are the point: only silence ends it."""
        seconds = self._limit
        return await self.checked(
            bounded(
                self.connection.request(method, params, read=read, key=key, streaming=True),
                lambda: RequestTimeout(
                    f"{method}: the agent was silent for {seconds:g} s before it answered"
                ),
                self.options.clock,
                seconds,
                heard=lambda: self.connection.reads,
                still=lambda: self.connection.paused or still(),
            )
        )

    async def checked(self, work: Any) -> Any:
        """Await a call; where the agent wants the user to sign in, the error carries the ways it offers."""
        try:
            return await work
        except AuthRequired as error:
            error.methods = self.auth_methods
            raise

    def result_of(self, method: str) -> Callable[[Raw], Any]:
        """How the result of a method is read."""
        read = self._results.get(method)
        if read is None:
            read = self._results[method] = self.reader.result_reader(_method(method))
        return read

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.connection.notify(method, params)

    async def aclose(self) -> None:
        """End the program; bounded, harmless twice."""
        # An agent that has died by itself before stays a dead one: its errors go on telling how.
        self.closing = self.closing or self.connection.end is None
        self._deadlines.stop()
        await self.connection.aclose()

    # -- the end ------------------------------------------------------------------------------------------------

    def closed_error(self, method: str, end: TransportEnd) -> ConnectionClosed:
        """What the end of the agent means for a call that was open, or comes too late."""
        details: dict[str, Any] = {"exit_code": end.exit_code, "signal": end.signal, "stderr": end.stderr}
        if self.closing:
            return ConnectionClosed(f"{method} was not answered: {end.reason}", **details)
        if self._agreed is None:
            if not end.connected:
                return NeverStarted(end.reason)
            comma = "," if end.exit_code is None and end.signal is None else ""
            return self._handshake_failed(f"{end.reason}{comma} before initialize was answered", end)
        return type(self.death(end))(f"{method} was not answered: {end.reason}", **details)

    def death(self, end: TransportEnd) -> ConnectionClosed:
        """The end of the agent by itself."""
        kind = (
            Killed if end.signal is not None else Crashed if end.exit_code is not None else ConnectionClosed
        )
        return kind(end.reason, exit_code=end.exit_code, signal=end.signal, stderr=end.stderr)

    def _ended(self, end: TransportEnd) -> None:
        self._wiring.ended(self, end)

    def _observe(self, report: ConnectionReport) -> None:
        if self._agreed is None and report.kind in ("noise", "invalid"):
            self._noise.append(report.frame[:_NOISE_SHOWN].decode(errors="replace"))
        self.options.observe(report)


def _method(name: str) -> Any:
    found = request("agent", name)
    assert found is not None, f"{name} is in the method table"
    return found


# MERGED client.gates: What the agent did not advertise is not asked of it: calls are refused here, before anything is sent.


def require(method: str, capabilities: AgentCapabilities) -> None:
    """Refuse a method whose capability is missing, null or not literally true."""
    entry = request("agent", method)
    assert entry is not None, f"{method} is in the method table"
    if not entry.offered(capabilities, None):
        raise NotOffered(f"{method} is not offered by this agent ({' or '.join(entry.gates)} is not set)")


def require_servers(servers: Iterable[McpServer], capabilities: AgentCapabilities) -> None:
    """Refuse MCP servers that the agent has not said it can reach."""
    reach = capabilities.mcp_capabilities or None
    ids: set[str] = set()
    for server in servers:
        if isinstance(server, McpServerHttp) and not (reach and reach.http):
            raise NotOffered(f"the MCP server {server.name!r} needs mcpCapabilities.http, which is not set")
        if isinstance(server, McpServerSse) and not (reach and reach.sse):
            raise NotOffered(f"the MCP server {server.name!r} needs mcpCapabilities.sse, which is not set")
        if isinstance(server, McpServerAcp):
            if not (reach and reach.acp):
                raise NotOffered(
                    f"the MCP server {server.name!r} needs mcpCapabilities.acp, which is not set"
                )
            if server.server_id in ids:
                raise UsageError(
                    f"two MCP servers have the server id {server.server_id!r}; it must be unique"
                )
            ids.add(server.server_id)


def require_roots(roots: tuple[str, ...], capabilities: AgentCapabilities) -> None:
    """Refuse additional directories unless the agent takes them."""
    offered = capabilities.session_capabilities or None
    if roots and not (offered and offered.additional_directories):
        raise NotOffered(
            "additional directories need sessionCapabilities.additionalDirectories, which is not set; "
            "open the session without them"
        )


def require_system_prompt(prompt: SystemPrompt | None, capabilities: AgentCapabilities) -> None:
    """Refuse a system prompt the agent has not said it can apply, and one that is no text."""
    if prompt is None:
        return
    sessions = capabilities.session_capabilities or None
    offered = (sessions.system_prompt or None) if sessions else None
    if offered is None:
        raise NotOffered("a system prompt needs sessionCapabilities.systemPrompt, which is not set")
    if prompt.mode == "override" and not (offered.mode and offered.mode.override):
        raise NotOffered("overriding the system prompt needs sessionCapabilities.systemPrompt.mode.override")
    if prompt.mode not in ("append", "override"):
        raise UsageError(f"a system prompt is appended or overrides; there is no mode {prompt.mode!r}")
    if not prompt.content or not all(isinstance(block, TextContent) for block in prompt.content):
        raise UsageError("a system prompt is made of text blocks, one at least")


def insist_on_validity(method: str, params: Any) -> None:
    """Refuse what would not be valid on the wire: parts of it may be of the caller's making."""
    entry = request("agent", method)
    assert entry is not None, f"{method} is in the method table"
    found = violations(entry.params, to_builtins(params))
    if found:
        raise UsageError(f"{method} cannot be sent like this: {'; '.join(str(item) for item in found[:3])}")


# MERGED client.blocks: Prompts: what a caller may pass as one, as content blocks, and which of them the agent takes.

PromptPart: TypeAlias = str | ContentBlock
Prompt: TypeAlias = PromptPart | Sequence[PromptPart]
"""Text, a block, or several of either."""


def blocks_of(prompt: Prompt) -> list[ContentBlock]:
    """The content blocks of a prompt. Refuses an empty one."""
    if isinstance(prompt, str | ContentBlock):
        parts: Iterable[object] = (prompt,)
    elif isinstance(prompt, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - not every caller is type-checked
        parts = prompt
    else:
        raise UsageError(
            f"a prompt is a text, a content block, or a list of them, not {type(prompt).__name__}"
        )
    blocks = [_block(part) for part in parts]
    if not blocks:
        raise UsageError("the prompt is empty: pass a text, a content block, or a list of them")
    return blocks


def _block(part: object) -> ContentBlock:
    if isinstance(part, str):
        return TextContent(text=part)
    if isinstance(part, ContentBlock):
        return part
    raise UsageError(f"a prompt is made of texts and content blocks, not of {type(part).__name__}")


def check_offered(blocks: list[ContentBlock], capabilities: AgentCapabilities) -> None:
    """Refuse blocks that the agent has not said it takes."""
    takes = capabilities.prompt_capabilities or None
    for block in blocks:
        if isinstance(block, ImageContent) and not (takes and takes.image):
            raise NotOffered(
                "the agent takes no images in prompts (promptCapabilities.image); send a link or text"
            )
        if isinstance(block, AudioContent) and not (takes and takes.audio):
            raise NotOffered("the agent takes no audio in prompts (promptCapabilities.audio); send text")
        if isinstance(block, EmbeddedResource) and not (takes and takes.embedded_context):
            raise NotOffered(
                "the agent takes no embedded resources in prompts (promptCapabilities.embeddedContext); "
                "send a resource link"
            )
