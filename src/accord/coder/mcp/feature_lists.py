"""Fetches the lists of tools, prompts and resources of an MCP server.

Imported on first use: it loads mcp.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

import mcp_types as types
import msgspec
from mcp.client import Client

from accord.coder.mcp.server_interface import (
    OfferedFeatures,
    OfferedPrompt,
    OfferedResource,
    OfferedTool,
    PromptArgument,
    ServerContext,
    clean,
    clean_line,
    clean_schema,
    with_usable_names,
)

T = TypeVar("T")
_LOG: Final = logging.getLogger("accord.coder.mcp")
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
