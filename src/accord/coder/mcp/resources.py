"""The two tools by which the model gets at the resources of servers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar, cast

from msgspec import Meta

from accord.coder.mcp.hooks import McpFailure
from accord.coder.mcp.server import Server
from accord.coder.output import capped
from accord.coder.tools.arguments import Arguments
from accord.coder.tools.builtin import BuiltIn
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import Call, Report, Subject, Tool, ToolFailure, ToolOutcome, one_line, said

if TYPE_CHECKING:
    from accord.coder.mcp.live.link import Link

A = TypeVar("A", bound=Arguments)


class ListArguments(Arguments):
    server: Annotated[str, Meta(description="Only those of this server.")] = ""


class ReadArguments(Arguments):
    server: Annotated[str, Meta(min_length=1, description="The server.")]
    uri: Annotated[str, Meta(min_length=1, description="The address of the resource.")]


@dataclass(frozen=True)
class ResourceTool(BuiltIn[A], Generic[A]):
    """A tool of this package whose description stands beside this file."""

    @cached_property
    def description(self) -> str:
        return Path(__file__).with_name(f"{self.name}.md").read_text("utf-8").strip()


class Resources:
    """Makes the two tools for the servers of one session."""

    def __init__(self, servers: Callable[[], Mapping[str, Server]]) -> None:
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

    async def _prepare_list(self, arguments: ListArguments, context: ToolContext) -> Call:
        servers = [self._named(arguments.server)] if arguments.server else [*self._servers().values()]

        async def run(report: Report) -> ToolOutcome:
            return _listed(servers, context.limits.output_chars)

        title = f"{arguments.server}: list resources" if arguments.server else "List MCP resources"
        return Call(title=one_line(title), subject=Subject(read_only=True), run=run)

    async def _prepare_read(self, arguments: ReadArguments, context: ToolContext) -> Call:
        server = self._named(arguments.server)

        async def ask(link: "Link", alive: Callable[[], None]) -> ToolOutcome:
            return await link.read(arguments.uri, context)

        async def run(report: Report) -> ToolOutcome:
            try:
                return await server.use(ask)
            except McpFailure as failure:
                return said(str(failure), failed=True)

        title = one_line(f"{server.name}: read {arguments.uri}")
        return Call(title=title, subject=Subject(read_only=True), run=run)

    def _named(self, name: str) -> Server:
        servers = self._servers()
        if name not in servers:
            raise ToolFailure(
                f"there is no MCP server {one_line(name, 80)!r} with resources; there are: {', '.join(servers) or 'none'}"
            )
        return servers[name]


def _listed(servers: list[Server], most: int) -> ToolOutcome:
    lines: list[str] = []
    found: list[dict[str, str]] = []
    for server in servers:
        for one in server.offers.resources:
            about = ", ".join(filter(None, (one.name, one.mime_type, one.description)))
            kind = " (template)" if one.template else ""
            lines.append(f"{server.name}: {one.uri}{kind}: {about}")
            found.append({"server": server.name, "uri": one.uri, "name": one.name})
    return said(capped("\n".join(lines) or "There are no resources.", most), raw={"resources": found[:200]})
