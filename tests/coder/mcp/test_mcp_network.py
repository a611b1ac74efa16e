"""Servers on the loopback interface, by streamable HTTP and by server-sent events."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import mcp_types as types
import msgspec
import pytest
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from tests.coder.mcp.everything_server import EverythingServer, tool
from tests.coder.mcp.harness import McpSession, serve_app, without_discovery

from accord.coder.mcp.server_interface import McpLimits
from accord.coder.tools.tool_context import ToolLimits
from accord.schema.mcp import HttpHeader, McpServerAcp, McpServerHttp, McpServerSse
from accord.testing import FakeClock


def http(url: str, *headers: HttpHeader, name: str = "web") -> McpServerHttp:
    return McpServerHttp(name, f"{url}/mcp", list(headers))


def sse_app(everything: EverythingServer) -> Starlette:
    messages = SseServerTransport("/messages/")

    async def connect(request: Request) -> Response:
        async with messages.connect_sse(request.scope, request.receive, request._send) as (reading, writing):
            server = everything.server
            await server.run(reading, writing, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", messages.handle_post_message)])


async def use_all_features(session: McpSession, everything: EverythingServer) -> None:
    await session.ready()
    assert session.status == {"web": "ready"}
    assert await session.done("web__echo", text="hi") == "hi"
    assert await session.refused("web__fail") == "no such table"
    assert "text of note://1" in await session.done("read_mcp_resource", server="web", uri="note://1")
    waiting = asyncio.create_task(session.use("web__wait"))
    await everything.called.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await everything.cancelled.wait()
    assert await session.done("web__echo", text="still") == "still"


async def test_streamable_http(tmp_path: Path) -> None:
    everything = EverythingServer()
    async with (
        serve_app(everything.server.streamable_http_app()) as url,
        McpSession([http(url)], tmp_path) as session,
    ):
        await use_all_features(session, everything)
        assert await session.done("web__ask", field="colour") == "accept {'colour': 'red'}"
        assert [state.transport for state in session.host.states] == ["http"]


async def test_streamable_http_of_an_older_server(tmp_path: Path) -> None:
    everything = EverythingServer()
    async with (
        serve_app(without_discovery(everything.server.streamable_http_app())) as url,
        McpSession([http(url)], tmp_path) as session,
    ):
        await use_all_features(session, everything)


async def test_server_sent_events(tmp_path: Path) -> None:
    everything = EverythingServer()
    async with (
        serve_app(sse_app(everything)) as url,
        McpSession([McpServerSse("web", f"{url}/sse", [])], tmp_path) as session,
    ):
        await use_all_features(session, everything)
        assert [state.transport for state in session.host.states] == ["sse"]


async def test_subscribed_list_changes_are_applied(tmp_path: Path) -> None:
    everything = EverythingServer()
    async with (
        serve_app(everything.server.streamable_http_app()) as url,
        McpSession([http(url)], tmp_path, limits=McpLimits(refresh_seconds=0)) as session,
    ):
        await session.ready()
        await everything.listened.wait()
        everything.more.append(tool("grow"))
        await everything.publish_tools_changed()
        await session.until(lambda: "web__grow" in session.host.tools)
        assert await session.done("web__grow") == "grown"


async def test_lost_http_session_is_reopened_during_a_call(tmp_path: Path) -> None:
    everything = EverythingServer()
    async with (
        serve_app(without_discovery(everything.server.streamable_http_app())) as url,
        McpSession([http(url)], tmp_path) as session,
    ):
        await session.ready()
        assert await session.done("web__echo", text="1") == "1"
        everything.server.session_manager._server_instances.clear()
        assert await session.done("web__echo", text="2") == "2"
        assert session.status == {"web": "ready"}
        assert session.failures == []


async def test_stopped_server_fails_the_call_in_one_line(tmp_path: Path) -> None:
    async with serve_app(without_discovery(EverythingServer().server.streamable_http_app())) as url:
        session = McpSession([http(url)], tmp_path)
        session.host.start()
        await session.ready()
        assert session.status == {"web": "ready"}
    async with session:
        text = await session.refused("web__echo", text="1")
        assert text.startswith("web ended before it answered; the call may or may not have had effects: ")
        assert "\n" not in text
        text = await session.refused("web__echo", text="1")
        assert text == (
            "web is not available: nothing answers at its address; check the address and that the server runs"
        )


async def test_headers_are_sent_and_never_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    seen: list[str | None] = []

    async def refuse(request: Request) -> Response:
        seen.append(request.headers.get("authorization"))
        return PlainTextResponse("no", 401)

    app = Starlette(routes=[Route("/mcp", refuse, methods=["GET", "POST"]), Route("/sse", refuse)])
    key = HttpHeader("Authorization", "Bearer s3cr3t-t0k3n")
    broken = HttpHeader("X-Key", "s3cr3t-ünfit")
    async with serve_app(app) as url:
        servers = [
            http(url, key, name="a"),
            McpServerSse("b", f"{url}/sse?key=s3cr3t-in-url", [key]),
            http(url, broken, name="c"),
            http("ftp://x", name="d"),
            http(f"{url}/nowhere", name="e"),
        ]
        async with McpSession(servers, tmp_path) as session:
            await session.ready()
    assert "Bearer s3cr3t-t0k3n" in seen
    reason = dict(session.failures)
    assert (
        reason["a"]
        == reason["b"]
        == "it refused the request with HTTP 401; sign in with `/mcp login NAME`, or check its headers, "
        "such as the token"
    )
    assert reason["d"] == "its address is not an http or https URL; correct it"
    assert "s3cr3t" not in repr(session.failures)
    ours = [record for record in caplog.records if not record.name.startswith(("uvicorn", "httpcore2"))]
    assert not [record.getMessage() for record in ours if "s3cr3t" in record.getMessage()]
    assert set(reason) >= {"a", "b", "d", "e"}


async def test_endless_response_fails_the_server(tmp_path: Path) -> None:
    async def endless(request: Request) -> Response:
        async def body() -> AsyncGenerator[bytes, None]:
            while not await request.is_disconnected():
                yield b" " * 65536

        return StreamingResponse(body(), media_type="application/json")

    async with (
        serve_app(Starlette(routes=[Route("/mcp", endless, methods=["POST"])])) as url,
        McpSession([http(url)], tmp_path, limits=McpLimits(message_bytes=1_000_000)) as session,
    ):
        await session.ready()
        assert session.status == {"web": "failed"}


async def test_server_that_never_answers_fails_after_the_start_timeout(tmp_path: Path) -> None:
    reached = asyncio.Event()

    async def silent(request: Request) -> Response:
        reached.set()
        while (await request.receive())["type"] != "http.disconnect":
            continue
        return Response()

    clock = FakeClock()
    app = Starlette(routes=[Route("/mcp", silent, methods=["POST"]), Route("/sse", silent)])
    async with serve_app(app) as url:
        for server in (http(url), McpServerSse("web", f"{url}/sse", [])):
            reached.clear()
            async with McpSession([server], tmp_path, clock=clock) as session:
                await reached.wait()
                await clock.advance(60)
                await session.until(lambda: session.failures)
                assert session.failures == [("web", "it was not ready within 60 s")]


async def test_closing_the_session_ends_its_calls(tmp_path: Path) -> None:
    everything = EverythingServer()
    async with (
        serve_app(everything.server.streamable_http_app()) as url,
        McpSession([http(url)], tmp_path) as session,
    ):
        await session.ready()
        waiting = asyncio.create_task(session.use("web__wait"))
        await everything.called.wait()
        await session.host.aclose()
        outcome = await waiting
        assert outcome.failed
        assert outcome.text == "web was closed before it answered"
        assert session.failures == []
        assert await session.refused("web__echo", text="x") == "web is closed"


async def test_server_offered_by_the_client_over_acp(tmp_path: Path) -> None:
    """Unstable: each request goes through the connection to the client."""
    heard: list[tuple[str, str]] = []

    async def request(server_id: str, method: str, params: Any = None, *, on_notification: Any = None) -> Any:
        heard.append((server_id, method))
        everything = EverythingServer()
        if method == "server/discover":
            return {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
            }
        if method == "tools/list":
            listed = await everything.list_tools(None, None)
        else:
            listed = await everything.call_tool(None, types.CallToolRequestParams.model_validate(params))
        return listed.model_dump(by_alias=True, mode="json", exclude_none=True)

    async with McpSession([McpServerAcp("mine", "id-1")], tmp_path, acp=request) as session:
        await session.ready()
        assert await session.done("mine__echo", text="hi") == "hi"
        assert ("id-1", "tools/call") in heard
    async with McpSession([McpServerAcp("mine", "id-1")], tmp_path) as session:
        await session.ready()
        assert session.failures == [("mine", "servers that the client offers over ACP cannot be used here")]


async def test_one_bad_content_item_keeps_the_good_ones(tmp_path: Path) -> None:
    content = [
        {"type": "text", "text": "good"},
        {"type": "image", "data": 5},
        7,
        {"type": "text", "text": "last"},
    ]
    everything = EverythingServer()

    def spoiled(app: Any) -> Any:
        """Replace the content of the tool's result on its way out."""

        async def wrapped(scope: Any, receive: Any, send: Any) -> None:
            async def spoil(message: Any) -> None:
                body = message.get("body", b"")
                plain = b'[{"text":"hi","type":"text"}]'
                if plain in body:
                    message = {**message, "body": body.replace(plain, msgspec.json.encode(content))}
                if message["type"] == "http.response.start":
                    headers = [item for item in message["headers"] if item[0] != b"content-length"]
                    message = {**message, "headers": headers}
                await send(message)

            await app(scope, receive, spoil)

        return wrapped

    async with (
        serve_app(spoiled(everything.server.streamable_http_app())) as url,
        McpSession([http(url)], tmp_path) as session,
    ):
        await session.ready()
        text = await session.done("web__echo", text="hi")
    assert text == (
        "good\n[image that does not follow MCP was left out]\n"
        "[content that does not follow MCP was left out]\nlast"
    )


async def test_progress_is_shown_a_few_times_a_second_at_most(tmp_path: Path) -> None:
    everything = EverythingServer()

    async def flood(ctx: Any, arguments: Any, params: Any) -> types.CallToolResult:
        for number in range(500):
            await ctx.session.report_progress(number, 500, "working")
        return types.CallToolResult(content=[types.TextContent(text="done")])

    everything.do_echo = flood  # type: ignore[method-assign]
    async with (
        serve_app(everything.server.streamable_http_app()) as url,
        McpSession([http(url)], tmp_path, tool_limits=ToolLimits(report_seconds=3600)) as session,
    ):
        await session.ready()
        assert await session.done("web__echo", text="hi") == "done"
        assert len(session.shown) == 1
