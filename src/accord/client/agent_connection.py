"""One process or network connection of the agent, from `initialize` to its end.

A restart replaces the connection; the agent's handle and its sessions stay. When a connection ends, every
open call gets an error that says how the agent ended. Calls and content that the agent did not advertise are
refused before anything is sent.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from msgspec import Raw

from accord.client.agent_lifecycle import PROTOCOL_VERSION, Handshake
from accord.client.client_options import ClientOptions, Deadlines, ProtocolChoice, bounded, observe
from accord.errors import (
    AuthRequired,
    ConnectionClosed,
    Crashed,
    Killed,
    NotOffered,
    RequestTimeout,
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
from accord.schema.methods import Method, request
from accord.schema.validation import violations
from accord.session.protocol_v1 import accord_meta
from accord.wire.calls import ConnectionReport, Route
from accord.wire.connection import Connection
from accord.wire.envelope import connection_closed
from accord.wire.transport import Transport, TransportEnd

if TYPE_CHECKING:
    from accord.wire.translation import TranslatingTransport

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConnectionSetup:
    """What a connection needs from the agent's handle."""

    options: ClientOptions
    reader: MessageReader
    """Reads the agent's messages. It outlives restarts, so that a dialect is reported once."""
    requests: Mapping[str, Route]
    notifications: Mapping[str, Route]
    waiting_for_user: Callable[[], bool]
    """Whether the agent waits for the user."""
    on_end: "Callable[[InitializedConnection, TransportEnd], None]"


class InitializedConnection:
    """A connection for calls to the agent. `initialize` must succeed before any other call."""

    def __init__(self, transport: Transport, setup: ConnectionSetup, handshake: Handshake) -> None:
        self.options: ClientOptions = setup.options
        self.closing: bool = False
        """Whether the client closed the connection itself."""
        self._setup = setup
        self._handshake = handshake
        self._result_readers: dict[str, Callable[[Raw], Any]] = {}
        self._limit = self.options.limits.request
        self._deadlines = Deadlines(self.options.clock, self._limit, setup.waiting_for_user)
        self._translation = _translation(transport, self.options.protocol)
        self.rpc: Connection = Connection(
            self._translation or transport,
            requests=setup.requests,
            notifications=setup.notifications,
            answer_invalid=False,
            strict=self.options.strict,
            limits=self.options.buffers,
            observer=self._observe,
            on_end=self._ended,
            closed_error=self.closed_error,
            clock=self.options.clock,
        )
        """The JSON-RPC connection."""

    @property
    def initialize_response(self) -> InitializeResponse:
        """The agent's response to `initialize`."""
        assert self._handshake.response is not None, "initialize was answered"
        return self._handshake.response

    @property
    def takes_events(self) -> bool:
        """Whether the translation of another version sends events of `accord.session` in place of updates."""
        return self._translation is not None and self._translation.takes_events

    @cached_property
    def is_told_events(self) -> bool:
        """Whether this client has asked a gateway for events of `accord.session` beside the updates."""
        asked = accord_meta(dict(self.options.features.meta)).get("events") is True
        return asked and "events" in accord_meta(self.capabilities.meta)

    @property
    def capabilities(self) -> AgentCapabilities:
        """The capabilities that the agent advertised."""
        return self.initialize_response.agent_capabilities or AgentCapabilities()

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        """The sign-in methods of the agent."""
        return tuple(self.initialize_response.auth_methods or ())

    @property
    def can_steer(self) -> bool:
        """Whether the agent announced `_session/steering`, which it does beside its capabilities."""
        return self._announced("steering")

    @property
    def can_rewind(self) -> bool:
        """Whether the agent announced `_session/rewind`."""
        return self._announced("rewind")

    @property
    def has_session_index(self) -> bool:
        """Whether the agent announced `_session/rename`, `_session/list/subscribe` and their like."""
        return self._announced("sessionIndex")

    def _announced(self, extension: str) -> bool:
        announced = (self.initialize_response.meta or {}).get(extension)
        return isinstance(announced, dict) and cast(dict[str, Any], announced).get("supported") is True

    def initialize(self, capabilities: ClientCapabilities) -> Awaitable[InitializeResponse]:
        """Start the connection and call `initialize`."""
        self.rpc.start()
        params = InitializeRequest(PROTOCOL_VERSION, capabilities, self.options.info)
        return self.rpc.request("initialize", params, read=self.reader.result_reader(_method("initialize")))

    @property
    def reader(self) -> MessageReader:
        """Reads the agent's messages."""
        return self._setup.reader

    @property
    def end(self) -> TransportEnd | None:
        """How the connection ended; None while it is up."""
        return self.rpc.end

    # -- calls -----------------------------------------------------------------------------------------------

    async def call(
        self, method: str, params: Any, *, read: Callable[[Raw], T] | None = None, key: Hashable | None = None
    ) -> Any:
        """Make an ordinary call, with the time limit for requests."""
        work = self.rpc.request(method, params, read=read or self.result_reader(method), key=key)
        try:
            return await self._deadlines.bound(work, method)
        except AuthRequired as error:
            error.methods = self.auth_methods
            raise

    async def unlimited_call(self, method: str, params: Any) -> Any:
        """Make a call without a time limit, because a user acts during it."""
        work = self.rpc.request(method, params, read=self.result_reader(method))
        return await self.with_auth_methods(work)

    async def streaming_call(
        self, method: str, params: Any, *, read: Callable[[Raw], T], key: str, suspended: Callable[[], bool]
    ) -> T:
        """Make a call during which the agent streams updates; only silence ends it early."""
        seconds = self._limit
        return await self.with_auth_methods(
            bounded(
                self.rpc.request(method, params, read=read, key=key, streaming=True),
                lambda: RequestTimeout(
                    f"{method}: the agent was silent for {seconds:g} s before it answered"
                ),
                self.options.clock,
                seconds,
                activity=lambda: self.rpc.reads,
                suspended=lambda: self.rpc.pressure.paused or suspended(),
            )
        )

    async def with_auth_methods(self, work: Awaitable[T]) -> T:
        """Await a call and add the agent's sign-in methods to an AuthRequired error."""
        try:
            return await work
        except AuthRequired as error:
            error.methods = self.auth_methods
            raise

    def result_reader(self, method: str) -> Callable[[Raw], Any]:
        """The function that reads the result of a method."""
        read = self._result_readers.get(method)
        if read is None:
            read = self._result_readers[method] = self.reader.result_reader(_method(method))
        return read

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.rpc.notify(method, params)

    # -- the end ---------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """End the program. Bounded; can be called twice."""
        # If the agent died before, its errors keep saying how.
        self.closing = self.closing or self.rpc.end is None
        self._deadlines.stop()
        await self.rpc.aclose()

    def closed_error(self, method: str, end: TransportEnd) -> ConnectionClosed:
        """The error for a call that was open when the connection ended, or was made later."""
        if self.closing:
            return connection_closed(method, end)
        return end.error(f"{method} was not answered: {end.reason}", _kind_of(end))

    def end_error(self, end: TransportEnd) -> ConnectionClosed:
        """The error for an agent that ended by itself: Killed, Crashed or ConnectionClosed."""
        return end.error(end.reason, _kind_of(end))

    def _ended(self, end: TransportEnd) -> None:
        self._setup.on_end(self, end)

    def _observe(self, report: ConnectionReport) -> None:
        if report.kind in ("noise", "invalid"):
            self._handshake.add_noise(report.frame)
        observe(self.options, report)


def _translation(transport: Transport, protocol: ProtocolChoice) -> "TranslatingTransport | None":
    """What translates the messages of an agent that may speak version 2."""
    if protocol == 1:
        return None
    if protocol not in (2, "auto"):
        raise UsageError(f'protocol is 1, 2 or "auto", not {protocol!r}')
    from accord.client.version_request import requesting

    return requesting(transport, only=protocol == 2)


def _kind_of(end: TransportEnd) -> type[ConnectionClosed]:
    if end.signal is not None:
        return Killed
    return ConnectionClosed if end.exit_code is None else Crashed


def _method(name: str) -> Method:
    method = request("agent", name)
    assert method is not None, f"{name} is in the method table"
    return method


# -- capabilities --------------------------------------------------------------------------------------------


def require_method(method: str, capabilities: AgentCapabilities) -> None:
    """Raise NotOffered if the capability for a method is missing, null or not true."""
    entry = _method(method)
    if not entry.offered(capabilities, None):
        raise NotOffered(f"{method} is not offered by this agent ({' or '.join(entry.gates)} is not set)")


def require_servers(servers: Iterable[McpServer], capabilities: AgentCapabilities) -> None:
    """Raise NotOffered for MCP servers with a transport that the agent does not support."""
    supported = capabilities.mcp_capabilities or None
    ids: set[str] = set()
    for server in servers:
        if isinstance(server, McpServerHttp) and not (supported and supported.http):
            raise NotOffered(f"the MCP server {server.name!r} needs mcpCapabilities.http, which is not set")
        if isinstance(server, McpServerSse) and not (supported and supported.sse):
            raise NotOffered(f"the MCP server {server.name!r} needs mcpCapabilities.sse, which is not set")
        if isinstance(server, McpServerAcp):
            if not (supported and supported.acp):
                raise NotOffered(
                    f"the MCP server {server.name!r} needs mcpCapabilities.acp, which is not set"
                )
            if server.server_id in ids:
                raise UsageError(
                    f"two MCP servers have the server id {server.server_id!r}; it must be unique"
                )
            ids.add(server.server_id)


def require_roots(roots: tuple[str, ...], capabilities: AgentCapabilities) -> None:
    """Raise NotOffered for additional directories if the agent does not support them."""
    supported = capabilities.session_capabilities or None
    if roots and not (supported and supported.additional_directories):
        raise NotOffered(
            "additional directories need sessionCapabilities.additionalDirectories, which is not set; "
            "open the session without them"
        )


def require_system_prompt(prompt: SystemPrompt | None, capabilities: AgentCapabilities) -> None:
    """Raise an error for a system prompt that the agent does not support, or that is not text."""
    if prompt is None:
        return
    sessions = capabilities.session_capabilities or None
    supported = (sessions.system_prompt or None) if sessions else None
    if supported is None:
        raise NotOffered("a system prompt needs sessionCapabilities.systemPrompt, which is not set")
    if prompt.mode == "override" and not (supported.mode and supported.mode.override):
        raise NotOffered("overriding the system prompt needs sessionCapabilities.systemPrompt.mode.override")
    if prompt.mode not in ("append", "override"):
        raise UsageError(f"the mode of a system prompt cannot be {prompt.mode!r}; use 'append' or 'override'")
    if not prompt.content or not all(isinstance(block, TextContent) for block in prompt.content):
        raise UsageError("a system prompt needs at least one content block, and all must be text")


def require_blocks(blocks: list[ContentBlock], capabilities: AgentCapabilities) -> None:
    """Raise NotOffered for content blocks that the agent does not support in prompts."""
    supported = capabilities.prompt_capabilities or None
    for block in blocks:
        if isinstance(block, ImageContent) and not (supported and supported.image):
            raise NotOffered(
                "the agent does not support images in prompts (promptCapabilities.image); send a link or text"
            )
        if isinstance(block, AudioContent) and not (supported and supported.audio):
            raise NotOffered(
                "the agent does not support audio in prompts (promptCapabilities.audio); send text"
            )
        if isinstance(block, EmbeddedResource) and not (supported and supported.embedded_context):
            raise NotOffered(
                "the agent does not support embedded resources (promptCapabilities.embeddedContext); "
                "send a resource link"
            )


def require_valid(method: str, params: Any) -> None:
    """Raise UsageError for parameters that are not valid on the wire; callers can pass invalid parts."""
    problems = violations(_method(method).params, to_builtins(params))
    if problems:
        raise UsageError(
            f"{method} cannot be sent like this: {'; '.join(str(item) for item in problems[:3])}"
        )


# -- prompts -------------------------------------------------------------------------------------------------

PromptPart: TypeAlias = str | ContentBlock
Prompt: TypeAlias = PromptPart | Sequence[PromptPart]
"""Text, a content block, or a list of them."""


def prompt_blocks(prompt: Prompt) -> list[ContentBlock]:
    """The content blocks of a prompt. Raises UsageError for an empty prompt or a wrong type."""
    if isinstance(prompt, str | ContentBlock):
        parts: Iterable[object] = (prompt,)
    elif isinstance(prompt, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
        parts = prompt
    else:
        raise UsageError(
            f"a prompt is a text, a content block, or a list of them, not {type(prompt).__name__}"
        )
    blocks = [_block(part) for part in parts]
    if not blocks:
        raise UsageError("the prompt is empty; pass a text, a content block, or a list of them")
    return blocks


def _block(part: object) -> ContentBlock:
    if isinstance(part, str):
        return TextContent(text=part)
    if isinstance(part, ContentBlock):
        return part
    raise UsageError(f"a prompt is made of texts and content blocks, not of {type(part).__name__}")
