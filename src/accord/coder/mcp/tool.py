"""A tool of a server, as the loop and the model see it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accord.coder.mcp.arguments import read_object
from accord.coder.mcp.cleaning import clean_line
from accord.coder.mcp.hooks import McpFailure
from accord.coder.mcp.offers import OfferedTool
from accord.coder.mcp.server import Server
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import Call, Category, Progress, Report, Subject, ToolOutcome, one_line, said
from accord.schema.content import TextContent
from accord.schema.tools import Content, ToolKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.coder.mcp.live.link import Link


@dataclass(frozen=True)
class McpTool:
    """A `Tool` that a server does."""

    name: str
    server: Server
    offered: OfferedTool

    @property
    def kind(self) -> ToolKind:
        return "read" if self.offered.read_only else "other"

    @property
    def category(self) -> Category:
        return "external"

    @property
    def description(self) -> str:
        return self.offered.description

    @property
    def schema(self) -> dict[str, Any]:
        return self.offered.schema

    async def prepare(self, arguments: Any, context: ToolContext) -> Call:
        read = read_object(self.name, arguments)

        async def run(report: Report) -> ToolOutcome:
            showing = _Showing(report)

            async def ask(link: "Link", alive: "Callable[[], None]") -> ToolOutcome:
                async def progressed(progress: float, total: float | None, message: str | None) -> None:
                    alive()
                    await showing.show(progress, total, message)

                return await link.call(self.offered.name, read, context, progressed)

            try:
                return await self.server.use(ask)
            except McpFailure as failure:
                return said(str(failure), failed=True)
            finally:
                showing.over = True

        return Call(
            title=one_line(f"{self.server.name}: {self.offered.title}"),
            subject=Subject(read_only=self.offered.read_only),
            run=run,
            category="external",
            arguments=read,
        )


class _Showing:
    """Shows how far a call is: always the newest word, one at a time, none after its end."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._newest: str | None = None
        self._busy = False
        self.over = False

    async def show(self, progress: float, total: float | None, message: str | None) -> None:
        far = f"{progress:g} of {total:g}" if total is not None else f"{progress:g}"
        words = clean_line(message or "", 300)
        self._newest = f"{words} ({far})" if words else far
        if self._busy:
            return
        self._busy = True
        try:
            while self._newest is not None and not self.over:
                text, self._newest = self._newest, None
                await self._report(Progress((Content(TextContent(text)),)))
        finally:
            self._busy = False
