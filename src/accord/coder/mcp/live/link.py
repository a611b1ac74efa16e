"""One connection to one server, by the `mcp` package: made, listed, used, and explained when it fails."""

import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast

import mcp_types as types
from mcp.client import Client, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from accord import __version__
from accord.coder.mcp.cleaning import clean_line
from accord.coder.mcp.hooks import McpFailure
from accord.coder.mcp.live.acp import acp_streams
from accord.coder.mcp.live.asking import Asking
from accord.coder.mcp.live.content import Bounds, contents, outcome, prompt_parts
from accord.coder.mcp.live.explaining import explained
from accord.coder.mcp.live.http import HttpClients, http_streams, sse_streams
from accord.coder.mcp.live.listing import Listing
from accord.coder.mcp.live.stdio import stdio_streams
from accord.coder.mcp.live.streams import Watched
from accord.coder.mcp.offers import Offers
from accord.coder.mcp.terms import Terms
from accord.coder.messages import Part
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import ToolOutcome
from accord.schema.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse, McpServerStdio

Mode: TypeAlias = Literal["auto", "legacy"]
"""Whether to ask first which generation of MCP a server speaks, or to take it for one of the older."""
T = TypeVar("T")


class OnProgress(Protocol):
    """Hears how far a call is."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


_LOG: Final = logging.getLogger("accord.coder.mcp")
_LONGEST_LOGGED: Final = 1000
_RELISTENS: Final = 5
_MOST_PAGES_TO_OPEN: Final = 3


class Link:
    """A connection that works."""

    def __init__(self, client: Client, asking: Asking, terms: Terms, clients: HttpClients | None) -> None:
        self._client = client
        self._asking = asking
        self._terms = terms
        self._clients = clients

    @classmethod
    @asynccontextmanager
    async def open(cls, server: McpServer, terms: Terms, mode: Mode) -> AsyncGenerator["Link", None]:
        """Connect. What goes wrong, then or later, is raised as McpFailure: one line, without the server's name."""
        clients = HttpClients(server, terms) if isinstance(server, McpServerHttp | McpServerSse) else None
        asking = Asking(terms)
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

    async def offers(self) -> Offers:
        """Everything it offers now. Raises McpFailure."""
        return await self._told(Listing(self._client, self._terms).offers())

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
            raise McpFailure(await self._pages_first(error)) from None
        except Exception as error:  # noqa: BLE001  (results that break the server's own schema, and worse)
            raise explained(error, self._terms, self._clients) from None
        return outcome(result, context)

    async def read(self, uri: str, context: ToolContext) -> ToolOutcome:
        """Read a resource. Raises McpFailure."""
        result = await self._told(self._client.read_resource(uri))
        return contents(result.contents, context)

    async def prompt(self, name: str, arguments: dict[str, str], bounds: Bounds) -> tuple[Part, ...]:
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
    server: McpServer, clients: HttpClients | None, terms: Terms
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
    streams: AbstractAsyncContextManager[tuple[Any, Any]], terms: Terms
) -> AsyncGenerator[tuple[Any, Any], None]:
    async with streams as (reading, writing):
        yield Watched(reading, lambda: terms.lost("it closed the connection")), writing


class _Log:
    """Takes what a server logs into our log, as much as there is room for."""

    def __init__(self, terms: Terms) -> None:
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

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    async def __call__(self, message: IncomingMessage) -> None:
        if isinstance(
            message,
            types.ToolListChangedNotification
            | types.PromptListChangedNotification
            | types.ResourceListChangedNotification,
        ):
            self._terms.stale()
