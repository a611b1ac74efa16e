"""Tools, resources and prompts of MCP servers, as tools of the agent and as slash commands."""

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Meta

from accord.coder.bounded_text import truncate
from accord.coder.mcp.server import SessionMcpServer
from accord.coder.mcp.server_interface import (
    McpServerFailure,
    OfferedPrompt,
    OfferedTool,
    PromptArgument,
    clean_line,
)
from accord.coder.model_history import Part, is_nested_too_deeply
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import (
    BadArguments,
    CallSubject,
    Category,
    PreparedCall,
    Report,
    Tool,
    ToolFailure,
    ToolOutcome,
    ToolProgress,
    text_outcome,
)
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import Content, TextContent, ToolCallContent, ToolKind, code_block

if TYPE_CHECKING:
    from accord.coder.mcp.server_connection import ServerConnection


def read_object(tool: str, raw: Any) -> dict[str, Any]:
    """Return the arguments as an object, also if the model sent JSON text. Raises BadArguments.

    The server checks them against its schema.
    """
    value: Any = {} if raw is None else raw
    if isinstance(value, str):
        try:
            value = json.loads(value, strict=False) if value.strip() else {}
        except (ValueError, RecursionError):
            raise BadArguments(
                f"{tool} was not run: its arguments must be one complete JSON object"
            ) from None
    if not isinstance(value, dict):
        raise BadArguments(
            f"{tool} was not run: its arguments must be a JSON object, not {type(value).__name__}"
        )
    arguments = cast(dict[str, Any], value)
    if is_nested_too_deeply(arguments):
        raise BadArguments(f"{tool} was not run: its arguments are nested too deep")
    try:
        msgspec.json.encode(arguments)
    except (UnicodeEncodeError, TypeError, ValueError):
        raise BadArguments(f"{tool} was not run: its arguments contain a value that is not JSON") from None
    return arguments


@dataclass(frozen=True)
class McpTool:
    """A `Tool` of an MCP server."""

    name: str
    server: SessionMcpServer
    definition: OfferedTool

    @property
    def kind(self) -> ToolKind:
        return "read" if self.definition.read_only else "other"

    @property
    def category(self) -> Category:
        return "external"

    @property
    def description(self) -> str:
        return self.definition.description

    @property
    def schema(self) -> dict[str, Any]:
        return self.definition.schema

    async def prepare(self, arguments: Any, context: ToolContext) -> PreparedCall:
        renamed = self.definition.renamed
        given = read_object(self.name, arguments)
        call_arguments = {renamed.get(name, name): value for name, value in given.items()}

        async def run(report: Report) -> ToolOutcome:
            reporter = _ProgressReporter(report, context)

            async def call(
                connection: "ServerConnection", report_progress: "Callable[[], None]"
            ) -> ToolOutcome:
                async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                    report_progress()
                    await reporter.show(progress, total, message)

                return await connection.call(self.definition.name, call_arguments, context, on_progress)

            try:
                return await self.server.request(call)
            except McpServerFailure as failure:
                return text_outcome(str(failure), failed=True)
            finally:
                await reporter.aclose()

        async def preview() -> Sequence[ToolCallContent]:
            """Show the arguments: some clients show only title and content."""
            text = json.dumps(call_arguments, indent=2, ensure_ascii=False)
            return (code_block(text, language="json"),) if call_arguments else ()

        return PreparedCall(
            title=one_line(f"{self.server.name}: {self.definition.title}"),
            subject=CallSubject(read_only=self.definition.read_only),
            run=run,
            preview=preview,
            category="external",
            arguments=call_arguments,
        )


class _ProgressReporter:
    """Shows the latest progress of a call, a few times a second at most, and none after its end."""

    def __init__(self, report: Report, context: ToolContext) -> None:
        self._report = report
        self._context = context
        self._latest: str | None = None
        self._is_idle = True
        self._task: asyncio.Task[None] | None = None

    async def show(self, progress: float, total: float | None, message: str | None) -> None:
        position = f"{progress:g} of {total:g}" if total is not None else f"{progress:g}"
        text = clean_line(message or "", 300)
        self._latest = f"{text} ({position})" if text else position
        if self._is_idle:
            self._is_idle = False
            await self._show_latest()
            self._task = asyncio.create_task(self._show_later())

    async def _show_latest(self) -> None:
        text, self._latest = self._latest, None
        if text is not None:
            await self._report(ToolProgress((Content(TextContent(text)),)))

    async def _show_later(self) -> None:
        """Show what came meanwhile, after a while."""
        await self._context.clock.sleep(self._context.limits.report_seconds)
        while self._latest is not None:
            await self._show_latest()
            await self._context.clock.sleep(self._context.limits.report_seconds)
        self._is_idle = True

    async def aclose(self) -> None:
        """Stop showing progress."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


A = TypeVar("A", bound=ToolArguments)


class ListArguments(ToolArguments):
    server: Annotated[str, Meta(description="Only those of this server.")] = ""


class ReadArguments(ToolArguments):
    server: Annotated[str, Meta(min_length=1, description="The server.")]
    uri: Annotated[str, Meta(min_length=1, description="The address of the resource.")]


@dataclass(frozen=True)
class ResourceTool(BuiltInTool[A], Generic[A]):
    """A built-in tool whose description file is in this folder."""

    @cached_property
    def description(self) -> str:
        return Path(__file__).with_name(f"{self.name}.md").read_text("utf-8").strip()


class Resources:
    """The two tools with which the model lists and reads the resources of the servers."""

    def __init__(self, servers: Callable[[], Mapping[str, SessionMcpServer]]) -> None:
        self._servers = servers
        self.tools: tuple[Tool, ...] = (
            cast(
                Tool,
                ResourceTool("list_mcp_resources", "search", "external", ListArguments, self._prepare_list),
            ),
            cast(
                Tool, ResourceTool("read_mcp_resource", "read", "external", ReadArguments, self._prepare_read)
            ),
        )

    async def _prepare_list(self, arguments: ListArguments, context: ToolContext) -> PreparedCall:
        servers = [self._find_server(arguments.server)] if arguments.server else [*self._servers().values()]

        async def run(report: Report) -> ToolOutcome:
            return _resource_list(servers, context.limits.output_chars)

        title = f"{arguments.server}: list resources" if arguments.server else "List MCP resources"
        return PreparedCall(title=one_line(title), subject=CallSubject(read_only=True), run=run)

    async def _prepare_read(self, arguments: ReadArguments, context: ToolContext) -> PreparedCall:
        server = self._find_server(arguments.server)

        async def run(report: Report) -> ToolOutcome:
            return await read_resource(server, arguments.uri, context)

        title = one_line(f"{server.name}: read {arguments.uri}")
        return PreparedCall(title=title, subject=CallSubject(read_only=True), run=run)

    def _find_server(self, name: str) -> SessionMcpServer:
        servers = self._servers()
        if name not in servers:
            raise ToolFailure(
                f"no MCP server {one_line(name, 80)!r} has resources; servers with resources: "
                f"{', '.join(servers) or 'none'}"
            )
        return servers[name]


async def read_resource(server: SessionMcpServer, uri: str, context: ToolContext) -> ToolOutcome:
    """Read a resource of a server. A failure is the outcome."""

    async def call(connection: "ServerConnection", report_progress: Callable[[], None]) -> ToolOutcome:
        return await connection.read(uri, context)

    try:
        return await server.request(call)
    except McpServerFailure as failure:
        return text_outcome(str(failure), failed=True)


def _resource_list(servers: list[SessionMcpServer], max_chars: int) -> ToolOutcome:
    lines: list[str] = []
    found: list[dict[str, str]] = []
    for server in servers:
        for resource in server.features.resources:
            description = ", ".join(filter(None, (resource.name, resource.mime_type, resource.description)))
            kind = " (template)" if resource.template else ""
            lines.append(f"{server.name}: {resource.uri}{kind}: {description}")
            found.append({"server": server.name, "uri": resource.uri, "name": resource.name})
    return text_outcome(
        truncate("\n".join(lines) or "There are no resources.", max_chars), raw={"resources": found[:200]}
    )


_NAMED_ARGUMENT: Final = re.compile(r"([^\s=]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class McpPrompt:
    """A prompt of a server as a slash command. Its arguments are in the text after the command."""

    name: str
    """The name of the command, without its slash."""
    description: str
    server: SessionMcpServer
    definition: OfferedPrompt
    max_chars: int
    """The maximum length of the text."""
    max_image_bytes: int

    @property
    def hint(self) -> str:
        """The arguments that can follow the command; empty if there are none."""
        return " ".join(
            argument.name if argument.required else f"[{argument.name}]"
            for argument in self.definition.arguments
        )

    async def parts(self, text: str, *, sees_images: bool = False) -> tuple[Part, ...]:
        """Return the parts of the prompt. Raises McpServerFailure."""
        arguments = self._arguments(text.strip())

        async def call(
            connection: "ServerConnection", report_progress: "Callable[[], None]"
        ) -> tuple[Part, ...]:
            from accord.coder.mcp.server_content import ContentLimits

            limits = ContentLimits(self.max_chars, self.max_image_bytes, sees_images)
            return await connection.prompt(self.definition.name, arguments, limits)

        parts = await self.server.request(call)
        if not parts:
            raise McpServerFailure(f"{self.server.name}: its prompt {self.definition.title} is empty")
        return parts

    def _arguments(self, text: str) -> dict[str, str]:
        declared = self.definition.arguments
        values = _parse_arguments(text, declared) if text and declared else {}
        missing = [
            argument.name for argument in declared if argument.required and argument.name not in values
        ]
        if missing:
            raise McpServerFailure(f"/{self.name} needs {', '.join(missing)}; type: /{self.name} {self.hint}")
        return values


def _parse_arguments(text: str, declared: tuple[PromptArgument, ...]) -> dict[str, str]:
    """Parse the arguments: `name=value` anywhere, other words in order. The last argument gets the rest."""
    names = [argument.name for argument in declared]
    if len(names) == 1:
        named = _NAMED_ARGUMENT.fullmatch(text)
        return {names[0]: named[2] if named and named[1] == names[0] else text}
    values: dict[str, str] = {}
    positional: list[str] = []
    for word in _words(text):
        named = _NAMED_ARGUMENT.fullmatch(word)
        if named and named[1] in names:
            values[named[1]] = named[2]
        else:
            positional.append(word)
    open_names = [name for name in names if name not in values]
    for position, name in enumerate(open_names):
        words = (
            positional[position:] if position == len(open_names) - 1 else positional[position : position + 1]
        )
        if words:
            values[name] = " ".join(words)
    return values


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # a single quote is an apostrophe
