"""Stdio servers, with the server side of the `mcp` package on the other end."""

import asyncio
from pathlib import Path

import pytest
from tests.coder.mcp.everything_server import PIXEL
from tests.coder.mcp.harness import McpSession, stdio_server, wait_for_text

from accord.coder.mcp.server_interface import McpServerFailure
from accord.coder.model_history import ImagePart, TextPart
from accord.coder.tools.tool import BadArguments
from accord.coder.tools.tool_context import ToolLimits
from accord.schema.content import (
    AudioContent,
    Content,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from accord.schema.mcp import McpServerStdio


async def test_tools_resources_and_prompts_work(tmp_path: Path) -> None:
    async with McpSession([stdio_server("every", "everything_server.py")], tmp_path) as session:
        assert session.status == {"every": "connecting"}
        await session.ready()
        (state,) = session.host.states
        assert (state.status, state.transport, state.prompts, state.resources) == ("ready", "stdio", 1, 2)
        assert session.host.instructions == {"every": "Use echo for echoes."}

        echo = session.host.tools["every__echo"]
        assert (echo.kind, echo.category, echo.description) == ("read", "external", "Says it again.")
        assert echo.schema["required"] == ["text"]
        call = await echo.prepare('{"text": "hi"}', session.context)
        assert (call.title, call.subject.read_only, call.category) == ("every: Echo it", True, "external")
        assert call.arguments == {"text": "hi"}
        # Several editors show only the title and the content of a permission request.
        (shown,) = await call.preview()
        assert isinstance(shown, Content)
        assert isinstance(shown.content, TextContent)
        assert shown.content.text == '```json\n{\n  "text": "hi"\n}\n```'
        fail = await session.host.tools["every__fail"].prepare(None, session.context)
        assert (fail.title, fail.subject.read_only) == ("every: fail", False)
        with pytest.raises(BadArguments, match="JSON object"):
            await echo.prepare("[1", session.context)

        assert await session.done("every__echo", text="héllo") == "héllo"
        assert await session.refused("every__fail") == "no such table"
        structured = await session.use("every__structured")
        assert (structured.text, structured.raw_output) == ('{"sum":3}', {"sum": 3})
        assert await session.done("every__progress") == "done"
        assert await session.done("every__roots") == tmp_path.as_uri()

        listed = await session.use("list_mcp_resources")
        assert "every: note://1: note, a note" in listed.text
        assert "note://{id} (template)" in listed.text
        read = await session.host.tools["read_mcp_resource"].prepare(
            {"server": "every", "uri": "note://7"}, session.context
        )
        assert (read.title, read.subject.read_only) == ("every: read note://7", True)
        assert "text of note://7" in await session.done("read_mcp_resource", server="every", uri="note://7")

        (prompt,) = session.host.prompts
        assert (prompt.name, prompt.description, prompt.hint) == (
            "every:review",
            "Review a file.",
            "file [style]",
        )
        assert await prompt.parts("a.py 'short and' sweet") == (
            TextPart("Review {'file': 'a.py', 'style': 'short and sweet'}."),
        )
        assert await prompt.parts("style=x my file") == (
            TextPart("Review {'style': 'x', 'file': 'my file'}."),
        )
        with pytest.raises(
            McpServerFailure, match=r"/every:review needs file; type: /every:review file \[style\]"
        ):
            await prompt.parts("")

    assert session.status == {"every": "closed"}
    assert session.failures == []


async def test_results_become_content_and_model_parts(tmp_path: Path) -> None:
    async with McpSession(
        [stdio_server("every", "everything_server.py")], tmp_path, tool_limits=ToolLimits(output_chars=4000)
    ) as session:
        await session.ready()
        outcome = await session.use("every__content")
        blocks = [item.content for item in outcome.content or () if isinstance(item, Content)]
        text, image, audio, link, note, blob = blocks
        assert isinstance(text, TextContent)
        assert text.text == "look here"
        assert isinstance(image, ImageContent)
        assert (image.data, image.mime_type) == (PIXEL, "image/png")
        assert isinstance(audio, AudioContent)
        assert isinstance(link, ResourceLink)
        assert (link.name, link.uri, link.description) == ("page", "page://3", "a page")
        assert isinstance(note, EmbeddedResource)
        assert isinstance(blob, EmbeddedResource)
        assert [part.text for part in outcome.parts if isinstance(part, TextPart)] == [
            "look here",
            "[audio: audio/wav]",
            "[resource page://3: page, a page]",
            "[resource note://1]",
            "a note",
            "[resource note://2: image/png, 70 bytes]",
        ]
        assert [part.mime_type for part in outcome.parts if isinstance(part, ImagePart)] == ["image/png"] * 2

        huge = await session.use("every__huge")
        assert len(huge.text) < 5000
        assert "characters, 99" in huge.text
        assert huge.content is not None
        (shown,) = huge.content
        assert isinstance(shown, Content)
        assert isinstance(shown.content, TextContent)
        assert len(shown.content.text) < 5000

        assert await session.done("every__ask", field="colour") == "accept {'colour': 'red'}"
        assert session.asked == [
            ("every asks: which colour?", {"type": "object", "properties": {"colour": {"type": "string"}}})
        ]
        assert await session.done("every__ask", field="api_key") == "cancel None"
        assert len(session.asked) == 1


async def test_servers_start_in_parallel_and_failures_are_isolated(tmp_path: Path) -> None:
    missing = McpServerStdio("gone", "no-such-program-here", [], [])
    crashing = stdio_server("crash", "no_such_script.py")
    servers = [
        missing,
        stdio_server("every", "everything_server.py"),
        crashing,
        stdio_server("every", "everything_server.py"),
    ]
    async with McpSession(servers, tmp_path) as session:
        assert session.status == dict.fromkeys(("gone", "every", "crash", "every-2"), "connecting")
        await session.ready()
        assert session.status == {"gone": "failed", "every": "ready", "crash": "failed", "every-2": "ready"}
        reason = dict(session.failures)
        assert reason["gone"].startswith("cannot start no-such-program-here: it is not on PATH")
        assert "exited with code 2; its last line on stderr: " in reason["crash"]
        assert [state.reason for state in session.host.states] == [reason["gone"], "", reason["crash"], ""]
        assert await session.done("every__echo", text="1") == "1"
        assert await session.done("every-2__echo", text="2") == "2"


async def test_cancelled_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with McpSession([stdio_server("every", "everything_server.py", mark)], tmp_path) as session:
        await session.ready()
        waiting = asyncio.create_task(session.use("every__wait"))
        await wait_for_text(mark, "waiting")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await wait_for_text(mark, "cancelled")
        assert await session.done("every__echo", text="still here") == "still here"
