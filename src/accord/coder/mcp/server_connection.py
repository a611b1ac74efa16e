"""One connection to one server by the `mcp` package: calls, requests from the server, errors in one line.

Imported on first use: it loads mcp.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
from mcp.client import Client, ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ListRootsResult,
    Root,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import FileUrl, ValidationError

from accord import __version__
from accord.agent.elicitation import looks_secret
from accord.coder.mcp.server_content import ContentLimits, FeatureListing, contents, outcome, prompt_parts
from accord.coder.mcp.server_interface import (
    McpServerFailure,
    OfferedFeatures,
    ServerConnectionLost,
    ServerContext,
    SessionExpired,
    clean,
    clean_line,
    clean_schema,
)
from accord.coder.mcp.server_transports import (
    HttpClients,
    ResponseTooLarge,
    WatchedStream,
    acp_streams,
    http_streams,
    sse_streams,
    stdio_streams,
)
from accord.coder.model_history import Part
from accord.coder.tools.tool import ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.errors import NeverStarted
from accord.schema.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse, McpServerStdio

# MERGED coder.mcp.live.asking: What servers ask us: the user's word by a form or a page, and the folders of the session. In doubt, the answer is no.

_LOG: Final = logging.getLogger("accord.coder.mcp")
_LONGEST_QUESTION: Final = 2000
_LONGEST_URL: Final = 2000
_MOST_FIELDS: Final = 50
_FIELDS: Final = frozenset(("string", "number", "integer", "boolean", "array"))
_NO: Final = ElicitResult(action="decline")


class ServerRequests:
    """Takes the questions of one server to the session."""

    def __init__(self, terms: ServerContext) -> None:
        self._terms = terms
        self.open = 0
        """Questions that the user has before them."""

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """The user's answer to a question of the server."""
        return await self.answer(params)

    async def answer(self, params: ElicitRequestParams) -> ElicitResult:
        """The same, whatever it came with."""
        message = f"{self._terms.name} asks: {clean(params.message, _LONGEST_QUESTION)}"
        self.open += 1
        try:
            if isinstance(params, ElicitRequestFormParams):
                return await self._form(message, params)
            return await self._page(message, params)
        except Exception as error:  # noqa: BLE001  (whatever the session's side does wrong, the server gets a no)
            _LOG.error("a question of %s could not be asked (%s)", self._terms.name, type(error).__name__)
            return _NO
        finally:
            self.open -= 1

    async def _form(self, message: str, params: ElicitRequestFormParams) -> ElicitResult:
        schema = clean_schema(params.requested_schema, _LONGEST_QUESTION)
        refused = why_not(schema, params.message)
        if refused is not None:
            _LOG.warning("a form of %s was declined unseen: %s", self._terms.name, refused)
            return _NO
        action, content = await self._terms.hooks.elicit_form(message, schema)
        if action == "accept" and isinstance(content, dict):
            return ElicitResult(action="accept", content=content)
        return ElicitResult(action="cancel") if action == "cancel" else _NO

    async def _page(self, message: str, params: ElicitRequestURLParams) -> ElicitResult:
        if not is_openable(params.url):
            _LOG.warning("%s wanted an address opened that is none; declined", self._terms.name)
            return _NO
        action = await self._terms.hooks.elicit_url(message, params.url)
        return ElicitResult(action=action) if action in ("accept", "cancel") else _NO

    async def roots(self, context: ClientRequestContext) -> ListRootsResult:
        """The folders of the session."""
        return ListRootsResult(
            roots=[
                Root(uri=FileUrl(Path(root).as_uri()), name=clean_line(Path(root).name, 100) or None)
                for root in self._terms.roots
            ]
        )


def why_not(schema: dict[str, Any], message: str) -> str | None:
    """Why a form is not shown, if it is not: it is no flat form, or it asks for a secret."""
    fields = cast(dict[str, Any], schema["properties"])
    if len(fields) > _MOST_FIELDS:
        return "it has too many fields"
    for name, described in fields.items():
        field = cast(dict[str, Any], described) if isinstance(described, dict) else {}
        if field.get("type") not in _FIELDS:
            return "it is no flat form"
        if field["type"] != "string" or "enum" in field or "oneOf" in field:
            continue
        hints = (name, field.get("title"), field.get("description"), message)
        if field.get("format") == "password" or looks_secret(*hints):
            return "it asks for a secret"
    return None


def is_openable(url: str) -> bool:
    """Whether a user may be sent there: https, or this machine, without a password in it."""
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    local = host in ("localhost", "127.0.0.1", "::1")
    return (
        bool(host) and not parts.password and (parts.scheme == "https" or (parts.scheme == "http" and local))
    )


# MERGED coder.mcp.live.explaining: What went wrong between us and a server, as one line that carries no secrets.

_LONGEST: Final = 300
_REFUSED: Final = "Server returned an error response"  # the package's own word for most statuses


def explained(error: BaseException, terms: ServerContext, clients: HttpClients | None) -> McpServerFailure:
    """The same error as ours, told in one line without the name of the server."""
    leaf = _leaf(error)
    if isinstance(leaf, McpServerFailure):
        return leaf
    why = clean_line(terms.secrets.masked(_said(leaf, clients)), _LONGEST)
    if isinstance(leaf, MCPError) and leaf.code == types.CONNECTION_CLOSED:
        return ServerConnectionLost(why)
    if isinstance(leaf, MCPError) and clients is not None and clients.forgotten:
        return SessionExpired(why)
    return McpServerFailure(why)


def _leaf(error: BaseException) -> BaseException:
    """The first plain error of a group."""
    while isinstance(error, BaseExceptionGroup):
        inside = cast(BaseExceptionGroup[BaseException], error).exceptions
        error = next((one for one in inside if isinstance(one, Exception)), inside[0])
    return error


def _said(error: BaseException, clients: HttpClients | None) -> str:
    match error:
        case MCPError():
            if error.message == _REFUSED and clients is not None and clients.refused is not None:
                return _status(clients.refused)
            return error.message or f"it answered with error {error.code}"
        case NeverStarted():
            return str(error)
        case httpx2.HTTPStatusError():
            return _status(error.response.status_code)
        case ResponseTooLarge():
            return "its answer is too large"
        case httpx2.ConnectError():
            return "nothing answers at its address; check that it runs, and the address"
        case httpx2.TimeoutException():
            return "its address does not answer in time"
        case httpx2.HTTPError() | httpx2.InvalidURL():
            return f"the connection failed ({type(error).__name__})"
        case ValidationError():
            return (
                f"its answer is not what MCP says ({error.error_count()} faults, the first: {_first(error)})"
            )
        case UnicodeError():
            return "an address or header of it has characters that cannot be sent"
        case _:
            return f"{type(error).__name__}: {error}"


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'][-3:]))}: {fault['msg']}"


def _status(status: int) -> str:
    if status in (401, 403):
        return f"it refused us with HTTP {status}; check the headers (a token?) that are sent to it"
    if status == 404:
        return "there is nothing at its address (HTTP 404); check the address"
    return f"it answered with HTTP {status}"


# MERGED coder.mcp.live.link: One connection to one server, by the `mcp` package: made, listed, used, and explained when it fails.

Mode: TypeAlias = Literal["auto", "legacy"]
"""Whether to ask first which generation of MCP a server speaks, or to take it for one of the older."""
T = TypeVar("T")


class OnProgress(Protocol):
    """Hears how far a call is."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


_LONGEST_LOGGED: Final = 1000
_RELISTENS: Final = 5
_MOST_PAGES_TO_OPEN: Final = 3


class ServerConnection:
    """A connection that works."""

    def __init__(
        self, client: Client, asking: ServerRequests, terms: ServerContext, clients: HttpClients | None
    ) -> None:
        self._client = client
        self._asking = asking
        self._terms = terms
        self._clients = clients

    @classmethod
    @asynccontextmanager
    async def open(
        cls, server: McpServer, terms: ServerContext, mode: Mode
    ) -> AsyncGenerator["ServerConnection", None]:
        """Connect. What goes wrong, then or later, is raised as McpFailure: one line, without the server's name."""
        clients = HttpClients(server, terms) if isinstance(server, McpServerHttp | McpServerSse) else None
        asking = ServerRequests(terms)
        client = Client(
            _watched(_streams(server, clients, terms), terms),
            mode=mode,
            cache=None,
            client_info=types.Implementation(name="accord", version=__version__),
            elicitation_callback=asking.elicit,
            list_roots_callback=asking.roots,
            logging_callback=_Log(terms),
            log_level="info",
            message_handler=_News(terms),
        )
        try:
            async with client:
                yield cls(client, asking, terms, clients)
        except Exception as error:  # noqa: BLE001  (the package's tasks raise anything, in groups)
            raise explained(error, terms, clients) from None

    # -- what it offers -----------------------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """How to connect to it the next time."""
        return "auto" if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"

    async def offers(self) -> OfferedFeatures:
        """Everything it offers now. Raises McpFailure."""
        return await self._told(FeatureListing(self._client, self._terms).offers())

    async def listen(self) -> None:
        """Have it tell when that changes, for as long as this runs. Older servers do so unasked."""
        capabilities = self._client.server_capabilities
        changing = [
            bool(kind and kind.list_changed)
            for kind in (capabilities.tools, capabilities.prompts, capabilities.resources)
        ]
        if self.mode == "legacy" or not any(changing):
            return
        tools, prompts, resources = changing
        for attempt in range(_RELISTENS):
            try:
                async with self._client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                ) as events:
                    if attempt:
                        self._terms.stale()  # what happened meanwhile, nobody told
                    async for _ in events:
                        pass  # each is heard by `_News` as well
            except (MCPError, SubscriptionLost, TimeoutError) as error:
                _LOG.debug("%s stopped telling what changes (%s)", self._terms.name, type(error).__name__)
            await self._terms.clock.sleep(2.0**attempt)

    # -- using it -----------------------------------------------------------------------------------------------

    @property
    def asking(self) -> bool:
        """Whether the user has a question of the server before them."""
        return self._asking.open > 0

    async def call(
        self, tool: str, arguments: dict[str, Any], context: ToolContext, on_progress: OnProgress
    ) -> ToolOutcome:
        """Call a tool. Raises McpFailure."""
        try:
            result = await self._client.call_tool(tool, arguments, progress_callback=on_progress)
        except MCPError as error:
            if error.code != types.URL_ELICITATION_REQUIRED:
                raise explained(error, self._terms, self._clients) from None
            raise McpServerFailure(await self._pages_first(error)) from None
        except Exception as error:  # noqa: BLE001  (results that break the server's own schema, and worse)
            raise explained(error, self._terms, self._clients) from None
        return outcome(result, context)

    async def read(self, uri: str, context: ToolContext) -> ToolOutcome:
        """Read a resource. Raises McpFailure."""
        result = await self._told(self._client.read_resource(uri))
        return contents(result.contents, context)

    async def prompt(self, name: str, arguments: dict[str, str], bounds: ContentLimits) -> tuple[Part, ...]:
        """The parts of a prompt. Raises McpFailure."""
        result = await self._told(self._client.get_prompt(name, arguments or None))
        return prompt_parts(result.messages, bounds)

    async def _pages_first(self, error: MCPError) -> str:
        """A call that wants the user to do something on a page before: ask them."""
        told: Any = error.data
        data = cast(dict[str, Any], told) if isinstance(told, dict) else {}
        actions: list[str] = []
        for wanted in list(data.get("elicitations") or ())[:_MOST_PAGES_TO_OPEN]:
            try:
                params = types.ElicitRequestURLParams.model_validate(wanted)
            except ValueError:
                continue
            actions.append((await self._asking.answer(params)).action)
        if actions and all(action == "accept" for action in actions):
            return "it needs the user to finish something on a web page first, which they agreed to open; try again when they say it is done"
        return "it needs the user to do something on a web page first, and they did not agree to"

    async def _told(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except Exception as error:  # noqa: BLE001  (the boundary to the package)
            raise explained(error, self._terms, self._clients) from None


def _streams(
    server: McpServer, clients: HttpClients | None, terms: ServerContext
) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    if isinstance(server, McpServerHttp) and clients is not None:
        return http_streams(server, clients, terms)
    if isinstance(server, McpServerSse) and clients is not None:
        return sse_streams(server, clients)
    if isinstance(server, McpServerAcp):
        return acp_streams(server, terms)
    return stdio_streams(cast(McpServerStdio, server), terms)


@asynccontextmanager
async def _watched(
    streams: AbstractAsyncContextManager[tuple[Any, Any]], terms: ServerContext
) -> AsyncGenerator[tuple[Any, Any], None]:
    async with streams as (reading, writing):
        yield WatchedStream(reading, lambda: terms.lost("it closed the connection")), writing


class _Log:
    """Takes what a server logs into our log, as much as there is room for."""

    def __init__(self, terms: ServerContext) -> None:
        self._terms = terms
        self._left = terms.limits.log_lines

    async def __call__(self, params: types.LoggingMessageNotificationParams) -> None:
        level = logging.DEBUG if params.level == "debug" else logging.INFO
        if self._left > 0 and _LOG.isEnabledFor(level):
            self._left -= 1
            said = clean_line(self._terms.secrets.masked(str(params.data)[:_LONGEST_LOGGED]), _LONGEST_LOGGED)
            _LOG.log(level, "%s, %s: %s", self._terms.name, params.level, said)


class _News:
    """Hears what changes at a server."""

    def __init__(self, terms: ServerContext) -> None:
        self._terms = terms

    async def __call__(self, message: IncomingMessage) -> None:
        if isinstance(
            message,
            types.ToolListChangedNotification
            | types.PromptListChangedNotification
            | types.ResourceListChangedNotification,
        ):
            self._terms.stale()
