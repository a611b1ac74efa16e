"""What a server lists, page by page, taken over as far as it is usable and fits."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

import mcp_types as types
import msgspec
from mcp.client import Client

from accord.coder.mcp.cleaning import clean, clean_line, clean_schema
from accord.coder.mcp.offers import OfferedPrompt, OfferedResource, OfferedTool, Offers, PromptArgument
from accord.coder.mcp.terms import Terms

T = TypeVar("T")
_LOG: Final = logging.getLogger("accord.coder.mcp")
_MOST_PAGES: Final = 50
_LONGEST_TITLE: Final = 120
_LONGEST_NAME: Final = 256  # of a name that is sent back to the server; a longer one is no honest name
_LONGEST_URI: Final = 2000
_MOST_ARGUMENTS: Final = 20


class Listing:
    """Asks one server for all its lists."""

    def __init__(self, client: Client, terms: Terms) -> None:
        self._client = client
        self._terms = terms
        self._limits = terms.limits

    async def offers(self) -> Offers:
        """Everything. Only a failing list of tools is a failure: without the others a server is still of use."""
        can = self._client.server_capabilities
        client, limits = self._client, self._limits
        tools = prompts = resources = templates = ()
        if can.tools is not None:
            tools = await self._paged(client.list_tools, lambda page: page.tools, limits.tools)
        if can.prompts is not None:
            prompts = await self._if_any(client.list_prompts, lambda page: page.prompts, limits.prompts)
        if can.resources is not None:
            resources = await self._if_any(
                client.list_resources, lambda page: page.resources, limits.resources
            )
            templates = await self._if_any(
                client.list_resource_templates, lambda page: page.resource_templates, limits.resources
            )
        return Offers(
            tuple(found for tool in tools if (found := self._tool(tool)) is not None),
            tuple(self._prompt(prompt) for prompt in prompts if len(prompt.name) <= _LONGEST_NAME),
            tuple(found for one in (*resources, *templates) if (found := self._resource(one)) is not None),
            clean(client.instructions or "", limits.description_chars),
            can.resources is not None,
        )

    async def _if_any(
        self, ask: Callable[..., Awaitable[Any]], items: Callable[[Any], Iterable[T]], most: int
    ) -> tuple[T, ...]:
        try:
            return await self._paged(ask, items, most)
        except Exception as error:  # noqa: BLE001  (many servers announce lists that they do not have)
            _LOG.debug("%s did not give a list it announced (%s)", self._terms.name, type(error).__name__)
            return ()

    async def _paged(
        self, ask: Callable[..., Awaitable[Any]], items: Callable[[Any], Iterable[T]], most: int
    ) -> tuple[T, ...]:
        found: list[T] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await ask(cursor=cursor)
            found += items(page)
            if page.next_cursor is None or page.next_cursor == cursor or len(found) > most:
                break
            cursor = page.next_cursor
        if len(found) > most:
            _LOG.warning("%s lists more than %d of a kind; the rest is left out", self._terms.name, most)
        return tuple(found[:most])

    def _tool(self, tool: types.Tool) -> OfferedTool | None:
        hints = tool.annotations
        shown = clean_line(tool.name, _LONGEST_TITLE)
        try:
            if len(tool.name) > _LONGEST_NAME:
                raise ValueError("its name is too long")
            schema = clean_schema(tool.input_schema, self._limits.description_chars)
            if len(msgspec.json.encode(schema)) > self._limits.schema_bytes:
                raise ValueError("its schema is too large")
            tool.name.encode()
        except (ValueError, RecursionError) as error:
            _LOG.warning("tool %s of %s is left out: %s", shown, self._terms.name, error)
            return None
        title = tool.title or (hints.title if hints is not None else None) or tool.name
        return OfferedTool(
            tool.name,
            clean_line(title, _LONGEST_TITLE) or shown or "tool",
            clean(tool.description or "", self._limits.description_chars)
            or clean_line(title, _LONGEST_TITLE),
            schema,
            hints is not None and hints.read_only_hint is True,
        )

    def _prompt(self, prompt: types.Prompt) -> OfferedPrompt:
        arguments = tuple(
            PromptArgument(one.name, clean_line(one.description or "", _LONGEST_TITLE), bool(one.required))
            for one in (prompt.arguments or ())[:_MOST_ARGUMENTS]
        )
        title = clean_line(prompt.title or prompt.name, _LONGEST_TITLE)
        described = clean_line(prompt.description or "", self._limits.description_chars) or title
        return OfferedPrompt(prompt.name, title, described, arguments)

    def _resource(self, resource: types.Resource | types.ResourceTemplate) -> OfferedResource | None:
        template = isinstance(resource, types.ResourceTemplate)
        uri = resource.uri_template if template else resource.uri
        if len(uri) > _LONGEST_URI or not uri.isprintable():
            return None
        return OfferedResource(
            uri,
            clean_line(resource.title or resource.name, _LONGEST_TITLE),
            clean_line(resource.description or "", 2 * _LONGEST_TITLE),
            clean_line(resource.mime_type or "", _LONGEST_TITLE),
            template,
        )
