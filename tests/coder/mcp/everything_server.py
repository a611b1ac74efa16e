"""An MCP server on stdio with tools, prompts and resources of every kind, built on the `mcp` package."""

import asyncio
import base64
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
).decode()
PLAIN_TOOLS = ("content", "structured", "fail", "wait", "progress", "ask", "huge", "roots")
ANY: dict[str, Any] = {"type": "object", "properties": {}}


def tool(name: str, **rest: Any) -> types.Tool:
    return types.Tool(name=name, description=f"Does {name}.", input_schema=ANY, **rest)


class EverythingServer:
    """The server, with events that tell what has happened in it."""

    def __init__(self, mark: Path | None = None) -> None:
        self.mark = mark
        self.more: list[types.Tool] = []
        self.roots: list[str] = []
        self.called = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.listened = asyncio.Event()
        self.bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self.bus)
        self.server: Server[Any] = Server(
            "everything",
            instructions="Use echo for echoes.",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_subscriptions_listen=self.listen,
        )

    async def listen(self, ctx: Any, params: Any) -> Any:
        self.listened.set()
        return await self.listening(ctx, params)

    async def publish_tools_changed(self) -> None:
        await self.bus.publish(ToolsListChanged())

    async def list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(
                name="echo",
                title="Echo it",
                description="Says it again.",
                input_schema={
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                },
                annotations=types.ToolAnnotations(read_only_hint=True),
            ),
            *map(tool, PLAIN_TOOLS),
            *self.more,
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        arguments = params.arguments or {}
        return await getattr(self, f"do_{params.name}")(ctx, arguments, params)

    async def do_echo(self, ctx: Any, arguments: dict[str, Any], params: Any) -> types.CallToolResult:
        return text_result(arguments["text"])

    async def do_content(self, ctx: Any, arguments: dict[str, Any], params: Any) -> types.CallToolResult:
        inside = types.TextResourceContents(uri="note://1", text="a note", mime_type="text/plain")
        blob = types.BlobResourceContents(uri="note://2", blob=PIXEL, mime_type="image/png")
        return types.CallToolResult(
            content=[
                types.TextContent(text="look \x1b[31mhere\x07"),
                types.ImageContent(data=PIXEL, mime_type="image/png"),
                types.AudioContent(data="AAAA", mime_type="audio/wav"),
                types.ResourceLink(name="page", uri="page://3", description="a page"),
                types.EmbeddedResource(resource=inside),
                types.EmbeddedResource(resource=blob),
            ]
        )

    async def do_structured(self, ctx: Any, arguments: dict[str, Any], params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[], structured_content={"sum": 3})

    async def do_fail(self, ctx: Any, arguments: dict[str, Any], params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text="no such table")], is_error=True)

    async def do_wait(self, ctx: Any, arguments: dict[str, Any], params: Any) -> types.CallToolResult:
        self.called.set()
        self._write_mark("waiting")
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            self._write_mark("cancelled")
            raise
        raise AssertionError

    async def do_progress(self, ctx: Any, arguments: dict[str, Any], params: Any) -> types.CallToolResult:
        await ctx.session.report_progress(1, 2, "half way")
        return text_result("done")

    async def do_ask(self, ctx: Any, arguments: dict[str, Any], params: Any) -> Any:
        """Ask the 2026 way: the client repeats the call with the answer."""
        if params.input_responses is None:
            schema = {"type": "object", "properties": {arguments["field"]: {"type": "string"}}}
            wanted = types.ElicitRequestFormParams(message="which colour?", requested_schema=schema)
            return types.InputRequiredResult(input_requests={"q": types.ElicitRequest(params=wanted)})
        answer = params.input_responses["q"]
        return text_result(f"{answer.action} {answer.content}")

    async def do_huge(self, ctx: Any, arguments: dict[str, Any], params: Any) -> types.CallToolResult:
        return text_result("line\n" * 100_000)

    async def do_grow(self, ctx: Any, arguments: dict[str, Any], params: Any) -> types.CallToolResult:
        return text_result("grown")

    async def do_roots(self, ctx: Any, arguments: dict[str, Any], params: Any) -> Any:
        if params.input_responses is None:
            return types.InputRequiredResult(input_requests={"r": types.ListRootsRequest()})
        return text_result(" ".join(str(root.uri) for root in params.input_responses["r"].roots))

    async def list_prompts(self, ctx: Any, params: Any) -> types.ListPromptsResult:
        arguments = [
            types.PromptArgument(name="file", required=True),
            types.PromptArgument(name="style"),
        ]
        return types.ListPromptsResult(
            prompts=[types.Prompt(name="review", description="Review a file.", arguments=arguments)]
        )

    async def get_prompt(self, ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        text = f"Review {params.arguments}."
        return types.GetPromptResult(
            messages=[types.PromptMessage(role="user", content=types.TextContent(text=text))]
        )

    async def list_resources(self, ctx: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[types.Resource(name="note", uri="note://1", description="a note")]
        )

    async def list_templates(self, ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[types.ResourceTemplate(name="any note", uri_template="note://{id}")]
        )

    async def read_resource(
        self, ctx: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, text=f"text of {params.uri}")]
        )

    def _write_mark(self, word: str) -> None:
        if self.mark is not None:
            with self.mark.open("a") as file:
                file.write(f"{word}\n")


def text_result(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


async def main() -> None:
    everything = EverythingServer(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    async with stdio_server() as (reading, writing):
        server = everything.server
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
