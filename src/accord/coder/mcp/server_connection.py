"""One connection to one MCP server through the `mcp` package: calls, lists of features, requests of the
server, errors in one line.

Imported on first use: it loads mcp.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
import msgspec
from mcp.client import Client, ClientRequestContext, IncomingMessage
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError
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
from accord.coder.mcp.server_content import ContentLimits, prompt_parts, resource_outcome, tool_outcome
from accord.coder.mcp.server_interface import (
    McpServerFailure,
    OfferedFeatures,
    OfferedPrompt,
    OfferedResource,
    OfferedTool,
    PromptArgument,
    ServerConnectionLost,
    ServerContext,
    SessionExpired,
    clean,
    clean_line,
    clean_schema,
    with_usable_names,
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

_LOG: Final = logging.getLogger("accord.coder.mcp")
_MAX_QUESTION: Final = 2000
_MAX_URL: Final = 2000
_MAX_FIELDS: Final = 50
_FIELD_TYPES: Final = frozenset(("string", "number", "integer", "boolean", "array"))
_NOT_ASKED: Final = ElicitResult(action="cancel")
"""The answer to a question that the user did not see."""


class ServerRequests:
    """Answers the requests of one server: questions to the user, and the roots of the session.

    Cancels whatever is unclear.
    """

    def __init__(self, server_context: ServerContext) -> None:
        self._context = server_context
        self.open: int = 0
        """The number of questions that are shown to the user."""

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Return the user's answer to a question of the server."""
        return await self.answer(params)

    async def answer(self, params: ElicitRequestParams) -> ElicitResult:
        """Return the user's answer to a question."""
        message = f"{self._context.name} asks: {clean(params.message, _MAX_QUESTION)}"
        self.open += 1
        try:
            if isinstance(params, ElicitRequestFormParams):
                return await self._show_form(message, params)
            return await self._ask_to_open(message, params)
        except Exception as error:  # noqa: BLE001  (an error in the session cancels the question)
            _LOG.error("a question of %s could not be asked (%s)", self._context.name, type(error).__name__)
            return _NOT_ASKED
        finally:
            self.open -= 1

    async def _show_form(self, message: str, params: ElicitRequestFormParams) -> ElicitResult:
        schema = clean_schema(params.requested_schema, _MAX_QUESTION)
        reason = form_refusal_reason(schema, params.message)
        if reason is not None:
            _LOG.warning("a form of %s was canceled without showing it: %s", self._context.name, reason)
            return _NOT_ASKED
        action, content = await self._context.hooks.elicit_form(message, schema)
        if action == "accept" and isinstance(content, dict):
            return ElicitResult(action="accept", content=content)
        return ElicitResult(action="decline") if action == "decline" else _NOT_ASKED

    async def _ask_to_open(self, message: str, params: ElicitRequestURLParams) -> ElicitResult:
        if not is_openable(params.url):
            _LOG.warning("%s asked to open an invalid address; canceled", self._context.name)
            return _NOT_ASKED
        action = await self._context.hooks.elicit_url(message, params.url)
        return ElicitResult(action=action) if action in ("accept", "decline") else _NOT_ASKED

    async def roots(self, context: ClientRequestContext) -> ListRootsResult:
        """Return the roots of the session."""
        return ListRootsResult(
            roots=[
                Root(uri=FileUrl(Path(root).as_uri()), name=clean_line(Path(root).name, 100) or None)
                for root in self._context.roots
            ]
        )


def form_refusal_reason(schema: dict[str, Any], message: str) -> str | None:
    """Return why a form is not shown: it is not flat, or it asks for a secret. None if it is fine."""
    fields = cast(dict[str, Any], schema["properties"])
    if len(fields) > _MAX_FIELDS:
        return "it has too many fields"
    for name, schema_of_field in fields.items():
        field = cast(dict[str, Any], schema_of_field) if isinstance(schema_of_field, dict) else {}
        if field.get("type") not in _FIELD_TYPES:
            return "it is not a flat form"
        if field["type"] != "string" or "enum" in field or "oneOf" in field:
            continue
        hints = (name, field.get("title"), field.get("description"), message)
        if field.get("format") == "password" or looks_secret(*hints):
            return "it asks for a secret"
    return None


def is_openable(url: str) -> bool:
    """Return whether a user may open the URL: https, or this machine, without a password."""
    if len(url) > _MAX_URL or not url.isascii() or not url.isprintable():
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


_MAX_REASON: Final = 300
# the text of the `mcp` package for most statuses
_ERROR_RESPONSE: Final = "Server returned an error response"


def explain_error(
    error: BaseException, server_context: ServerContext, clients: HttpClients | None
) -> McpServerFailure:
    """Convert an error to a McpServerFailure: one line without secrets and without the server's name."""
    inner = _first_error(error)
    if isinstance(inner, McpServerFailure):
        return inner
    reason = clean_line(server_context.secrets.masked(_describe_error(inner, clients)), _MAX_REASON)
    if isinstance(inner, MCPError) and inner.code == types.CONNECTION_CLOSED:
        return ServerConnectionLost(reason)
    if isinstance(inner, MCPError) and clients is not None and clients.session_expired:
        return SessionExpired(reason)
    return McpServerFailure(reason)


def _first_error(error: BaseException) -> BaseException:
    """Return the first single error of a group."""
    while isinstance(error, BaseExceptionGroup):
        errors = cast(BaseExceptionGroup[BaseException], error).exceptions
        error = next((inner for inner in errors if isinstance(inner, Exception)), errors[0])
    return error


def _describe_error(error: BaseException, clients: HttpClients | None) -> str:
    match error:
        case MCPError():
            if error.message == _ERROR_RESPONSE and clients is not None and clients.error_status is not None:
                return _describe_status(clients.error_status)
            return error.message or f"it answered with error {error.code}"
        case NeverStarted():
            return str(error)
        case OAuthRegistrationError():
            return f"it lets no program register for a sign-in; put a token into its headers ({error})"
        case OAuthFlowError():
            return f"the sign-in failed: {error}"
        case httpx2.HTTPStatusError():
            return _describe_status(error.response.status_code)
        case ResponseTooLarge():
            return "its answer is too large"
        case httpx2.ConnectError():
            return "nothing answers at its address; check the address and that the server runs"
        case httpx2.TimeoutException():
            return "its address does not answer in time"
        case httpx2.HTTPError() | httpx2.InvalidURL():
            return f"the connection failed ({type(error).__name__})"
        case ValidationError():
            more = f" and {error.error_count() - 1} more" if error.error_count() > 1 else ""
            return f"its answer does not follow MCP ({_describe_first_fault(error)}{more})"
        case UnicodeError():
            return "its address or a header has characters that cannot be sent"
        case _:
            return f"{type(error).__name__}: {error}"


def _describe_first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'][-3:]))}: {fault['msg']}"


def _describe_status(status: int) -> str:
    if status in (401, 403):
        return (
            f"it refused the request with HTTP {status}; sign in with `/mcp login NAME`, "
            "or check its headers, such as the token"
        )
    if status == 404:
        return "there is nothing at its address (HTTP 404); check the address"
    return f"it answered with HTTP {status}"


Mode: TypeAlias = Literal["auto", "legacy"]
"""`auto` asks the server for its MCP version first; `legacy` uses the older handshake."""
T = TypeVar("T")


class OnProgress(Protocol):
    """Gets the progress of a call."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


_MAX_LOG_TEXT: Final = 1000
_LISTEN_ATTEMPTS: Final = 5
_MAX_URLS: Final = 3


class ServerConnection:
    """An open connection to a server."""

    def __init__(
        self,
        client: Client,
        requests: ServerRequests,
        server_context: ServerContext,
        clients: HttpClients | None,
    ) -> None:
        self._client = client
        self._requests = requests
        self._context = server_context
        self._clients = clients

    @classmethod
    @asynccontextmanager
    async def open(
        cls, server: McpServer, server_context: ServerContext, mode: Mode
    ) -> AsyncGenerator["ServerConnection", None]:
        """Connect.

        Raises every error, now or later, as McpServerFailure: one line without the server's name.
        """
        clients = (
            HttpClients(server, server_context) if isinstance(server, McpServerHttp | McpServerSse) else None
        )
        requests = ServerRequests(server_context)
        client = Client(
            _watched(_streams(server, clients, server_context), server_context),
            mode=mode,
            cache=None,
            client_info=types.Implementation(name="accord", version=__version__),
            elicitation_callback=requests.elicit,
            list_roots_callback=requests.roots,
            logging_callback=_ServerLog(server_context),
            log_level="info",
            message_handler=_ChangeHandler(server_context),
        )
        try:
            async with client:
                yield cls(client, requests, server_context, clients)
        except Exception as error:  # noqa: BLE001  (the package's tasks raise anything, in groups)
            raise explain_error(error, server_context, clients) from None

    @property
    def mode(self) -> Mode:
        """The mode for the next connection."""
        return "auto" if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"

    async def features(self) -> OfferedFeatures:
        """Return its current features. Raises McpServerFailure."""
        return await self._explain_errors(FeatureLists(self._client, self._context).features())

    async def listen(self) -> None:
        """Subscribe to changes of its features until canceled. Older servers report them without that."""
        capabilities = self._client.server_capabilities
        reports_changes = [
            bool(kind and kind.list_changed)
            for kind in (capabilities.tools, capabilities.prompts, capabilities.resources)
        ]
        if self.mode == "legacy" or not any(reports_changes):
            return
        tools, prompts, resources = reports_changes
        for attempt in range(_LISTEN_ATTEMPTS):
            try:
                async with self._client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                ) as events:
                    if attempt:
                        self._context.on_features_changed()  # changes may have been missed
                    async for _ in events:
                        pass  # `_ChangeHandler` handles them
            except (MCPError, SubscriptionLost, TimeoutError) as error:
                _LOG.debug("%s stopped reporting changes (%s)", self._context.name, type(error).__name__)
            await self._context.clock.sleep(2.0**attempt)

    @property
    def waits_for_user(self) -> bool:
        """Whether a question of the server is shown to the user."""
        return self._requests.open > 0

    async def call(
        self, tool: str, arguments: dict[str, Any], context: ToolContext, on_progress: OnProgress
    ) -> ToolOutcome:
        """Call a tool. Raises McpServerFailure."""
        try:
            result = await self._client.call_tool(tool, arguments, progress_callback=on_progress)
        except MCPError as error:
            if error.code != types.URL_ELICITATION_REQUIRED:
                raise explain_error(error, self._context, self._clients) from None
            raise McpServerFailure(await self._open_urls(error)) from None
        except Exception as error:  # noqa: BLE001  (such as results that break the server's own schema)
            raise explain_error(error, self._context, self._clients) from None
        return await asyncio.to_thread(tool_outcome, result, context)  # images may be scaled

    async def read(self, uri: str, context: ToolContext) -> ToolOutcome:
        """Read a resource. Raises McpServerFailure."""
        result = await self._explain_errors(self._client.read_resource(uri))
        return await asyncio.to_thread(resource_outcome, result.contents, context)

    async def prompt(self, name: str, arguments: dict[str, str], limits: ContentLimits) -> tuple[Part, ...]:
        """Return the parts of a prompt. Raises McpServerFailure."""
        result = await self._explain_errors(self._client.get_prompt(name, arguments or None))
        return await asyncio.to_thread(prompt_parts, result.messages, limits)

    async def _open_urls(self, error: MCPError) -> str:
        """Ask the user to open the pages that a call requires. Return the message for the model."""
        error_data: Any = error.data
        data = cast(dict[str, Any], error_data) if isinstance(error_data, dict) else {}
        actions: list[str] = []
        for elicitation in list(data.get("elicitations") or ())[:_MAX_URLS]:
            try:
                params = types.ElicitRequestURLParams.model_validate(elicitation)
            except ValueError:
                continue
            actions.append((await self._requests.answer(params)).action)
        if actions and all(action == "accept" for action in actions):
            return (
                "the user must first finish something on a web page, which they agreed to open; "
                "try again when they say it is done"
            )
        return "the user must first do something on a web page, and they did not agree to"

    async def _explain_errors(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except Exception as error:  # noqa: BLE001  (the boundary to the package)
            raise explain_error(error, self._context, self._clients) from None


def _streams(
    server: McpServer, clients: HttpClients | None, server_context: ServerContext
) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    if isinstance(server, McpServerHttp) and clients is not None:
        return http_streams(server, clients, server_context)
    if isinstance(server, McpServerSse) and clients is not None:
        return sse_streams(server, clients)
    if isinstance(server, McpServerAcp):
        return acp_streams(server, server_context)
    return stdio_streams(cast(McpServerStdio, server), server_context)


@asynccontextmanager
async def _watched(
    streams: AbstractAsyncContextManager[tuple[Any, Any]], server_context: ServerContext
) -> AsyncGenerator[tuple[Any, Any], None]:
    async with streams as (incoming, outgoing):
        yield WatchedStream(incoming, lambda: server_context.on_lost("it closed the connection")), outgoing


class _ServerLog:
    """Writes log messages of a server to our log, up to a limit."""

    def __init__(self, server_context: ServerContext) -> None:
        self._context = server_context
        self._remaining_messages = server_context.limits.log_lines

    async def __call__(self, params: types.LoggingMessageNotificationParams) -> None:
        level = logging.DEBUG if params.level == "debug" else logging.INFO
        if self._remaining_messages > 0 and _LOG.isEnabledFor(level):
            self._remaining_messages -= 1
            text = clean_line(self._context.secrets.masked(str(params.data)[:_MAX_LOG_TEXT]), _MAX_LOG_TEXT)
            _LOG.log(level, "%s, %s: %s", self._context.name, params.level, text)


class _ChangeHandler:
    """Marks the features as changed when the server reports it."""

    def __init__(self, server_context: ServerContext) -> None:
        self._context = server_context

    async def __call__(self, message: IncomingMessage) -> None:
        if isinstance(
            message,
            types.ToolListChangedNotification
            | types.PromptListChangedNotification
            | types.ResourceListChangedNotification,
        ):
            self._context.on_features_changed()


_MAX_PAGES: Final = 300  # some servers send one entry a page
_MAX_TITLE: Final = 120
_MAX_LISTED_NAME: Final = 256  # of names that are sent back to the server
_MAX_URI: Final = 2000
_MAX_ARGUMENTS: Final = 20
_MAX_LISTED_TOOLS: Final = 5000


class FeatureLists:
    """Fetches all lists of one server, page by page, and leaves out unusable entries."""

    def __init__(self, client: Client, server_context: ServerContext) -> None:
        self._client = client
        self._context = server_context
        self._limits = server_context.limits

    async def features(self) -> OfferedFeatures:
        """Return all features. Raises only if the list of tools fails: the other lists are optional."""
        capabilities = self._client.server_capabilities
        client, limits = self._client, self._limits
        tools = prompts = resources = templates = ()
        left_out: list[str] = []
        if capabilities.tools is not None:
            # More are listed than are used, so that those left out can be named.
            listed = await self._list_all(client.list_tools, lambda page: page.tools, _MAX_LISTED_TOOLS)
            tools = listed[: limits.tools]
            left_out += [clean_line(tool.name, _MAX_TITLE) for tool in listed[limits.tools :]]
        if capabilities.prompts is not None:
            prompts = await self._list_optional(
                client.list_prompts, lambda page: page.prompts, limits.prompts
            )
        if capabilities.resources is not None:
            resources = await self._list_optional(
                client.list_resources, lambda page: page.resources, limits.resources
            )
            templates = await self._list_optional(
                client.list_resource_templates, lambda page: page.resource_templates, limits.resources
            )
        usable = {tool.name: found for tool in tools if (found := self._tool(tool)) is not None}
        left_out += [clean_line(tool.name, _MAX_TITLE) for tool in tools if tool.name not in usable]
        return OfferedFeatures(
            tuple(usable.values()),
            tuple(self._prompt(prompt) for prompt in prompts if len(prompt.name) <= _MAX_LISTED_NAME),
            tuple(found for item in (*resources, *templates) if (found := self._resource(item)) is not None),
            clean(client.instructions or "", limits.description_chars),
            capabilities.resources is not None,
            tuple(left_out),
        )

    async def _list_optional(
        self, list_page: Callable[..., Awaitable[Any]], items: Callable[[Any], Iterable[T]], max_items: int
    ) -> tuple[T, ...]:
        try:
            return await self._list_all(list_page, items, max_items)
        except Exception as error:  # noqa: BLE001  (many servers advertise lists that they do not have)
            _LOG.debug(
                "%s did not send a list that it advertises (%s)", self._context.name, type(error).__name__
            )
            return ()

    async def _list_all(
        self, list_page: Callable[..., Awaitable[Any]], items: Callable[[Any], Iterable[T]], max_items: int
    ) -> tuple[T, ...]:
        found: list[T] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await list_page(cursor=cursor)
            found += items(page)
            if page.next_cursor is None or page.next_cursor == cursor or len(found) > max_items:
                break
            cursor = page.next_cursor
        if len(found) > max_items:
            _LOG.warning(
                "%s lists more than %d of a kind; the rest is left out", self._context.name, max_items
            )
        return tuple(found[:max_items])

    def _tool(self, tool: types.Tool) -> OfferedTool | None:
        hints = tool.annotations
        name = clean_line(tool.name, _MAX_TITLE)
        try:
            if len(tool.name) > _MAX_LISTED_NAME:
                raise ValueError("its name is too long")
            schema = clean_schema(tool.input_schema, self._limits.description_chars)
            schema, renamed = with_usable_names(schema)
            if len(msgspec.json.encode(schema)) > self._limits.schema_bytes:
                raise ValueError("its schema is too large")
            tool.name.encode()  # rejects lone surrogates
            if tool.execution is not None and tool.execution.task_support == "required":
                raise ValueError("it can only be called as a task of MCP, which is not supported")
        except (ValueError, RecursionError) as error:
            _LOG.warning("tool %s of %s is left out: %s", name, self._context.name, error)
            return None
        title = tool.title or (hints.title if hints is not None else None) or tool.name
        return OfferedTool(
            tool.name,
            clean_line(title, _MAX_TITLE) or name or "tool",
            clean(tool.description or "", self._limits.description_chars) or clean_line(title, _MAX_TITLE),
            schema,
            hints is not None and hints.read_only_hint is True,
            renamed,
        )

    def _prompt(self, prompt: types.Prompt) -> OfferedPrompt:
        arguments = tuple(
            PromptArgument(
                argument.name, clean_line(argument.description or "", _MAX_TITLE), bool(argument.required)
            )
            for argument in (prompt.arguments or ())[:_MAX_ARGUMENTS]
        )
        title = clean_line(prompt.title or prompt.name, _MAX_TITLE)
        description = clean_line(prompt.description or "", self._limits.description_chars) or title
        return OfferedPrompt(prompt.name, title, description, arguments)

    def _resource(self, resource: types.Resource | types.ResourceTemplate) -> OfferedResource | None:
        is_template = isinstance(resource, types.ResourceTemplate)
        uri = resource.uri_template if is_template else resource.uri
        if len(uri) > _MAX_URI or not uri.isprintable():
            return None
        return OfferedResource(
            uri,
            clean_line(resource.title or resource.name, _MAX_TITLE),
            clean_line(resource.description or "", 2 * _MAX_TITLE),
            clean_line(resource.mime_type or "", _MAX_TITLE),
            is_template,
        )
