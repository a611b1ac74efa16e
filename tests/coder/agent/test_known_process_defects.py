"""Process-level defects found in other coding agents: imports, network traffic, dependencies."""

import re
import sys
import tomllib
from pathlib import Path

from tests.coder.agent.harness import AgentHarness
from tests.coder.process.editor import BOUNDARY, LONG_TIMEOUTS, Editor, Wire, environment, started

from accord.testing.model_script import ModelAnswer
from accord.testing.model_server import ModelServer
from accord.wire.process import spawn

ROOT = Path(__file__).parents[3]

WATCHED = """
import sys

def watch(event, args):
    if event in ("socket.connect", "socket.sendto"):
        sys.stderr.write(f"contacted: {args[1]}\\n")
    elif event == "socket.getaddrinfo":
        sys.stderr.write(f"contacted: {args[:2]}\\n")

sys.addaudithook(watch)
from accord.cli import main

sys.exit(main())
"""


async def test_agent_connects_only_to_the_model_provider(harness: AgentHarness):
    async with ModelServer() as server:
        server.add(ModelAnswer("Hello."))
        address = server.base_url("openai")
        variables = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": address, "OPENAI_MODEL": "gpt-5"}
        transport = await spawn(
            [sys.executable, "-c", WATCHED, "agent"],
            cwd=harness.project,
            env=environment(harness.home, **variables),
            timeouts=LONG_TIMEOUTS,
        )
        editor = Editor(Wire(transport), harness.project)
        try:
            await editor.call("initialize", protocolVersion=1, clientCapabilities={})
            chat = await editor.new()
            assert (await chat.turn("hi")).text == "Hello."
        finally:
            await transport.aclose()
    end = await editor.wire.wait_end()
    contacted = [line for line in end.stderr.splitlines() if line.startswith("contacted: ")]
    port = address.split(":")[2].split("/")[0]
    assert contacted, "the audit hook recorded no connection"
    assert [line for line in contacted if "'127.0.0.1'" not in line or port not in line] == []


async def test_key_without_model_is_reported_once(harness: AgentHarness):
    variables = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    async with started(harness.home, harness.project, variables=variables, stderr=None) as editor:
        assert (await (await editor.new()).turn("think: x")).stop == "end_turn"
        await editor.new()
    assert editor.wire.end is not None
    reported = [line for line in editor.wire.end.stderr.splitlines() if "rehearsal: " in line]
    assert reported == [
        "accord agent: rehearsal: there is a key for openai at http://127.0.0.1:9/v1, but no model is named: "
        "set OPENAI_MODEL, or choose one as openai:NAME"
    ]


async def test_agent_works_with_closed_stderr(harness: AgentHarness):
    script = 'exec "$@" 2>&-'
    command = ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "accord.cli", "agent", "--resume", "gone"]
    transport = await spawn(
        command, cwd=harness.project, env=environment(harness.home), timeouts=LONG_TIMEOUTS
    )
    editor = Editor(Wire(transport), harness.project)
    try:
        await editor.call("initialize", protocolVersion=1, clientCapabilities={})
        chat = await editor.new()
        assert (await chat.turn("write a.txt: hello")).stop == "end_turn"
    finally:
        await transport.aclose()
    assert (await editor.wire.wait_end()).exit_code == 0
    assert (harness.project / "a.txt").read_text() == "hello"


async def test_sandbox_status_is_printed_once_per_process(harness: AgentHarness):
    async with started(harness.home, harness.project, stderr=None) as editor:
        for _ in range(3):
            assert (await (await editor.new()).turn("run true")).stop == "end_turn"
    assert editor.wire.end is not None
    boundary_lines = [line for line in editor.wire.end.stderr.splitlines() if line.startswith(BOUNDARY)]
    assert len(boundary_lines) == len(set(boundary_lines))
    assert "not tried" not in "".join(boundary_lines)


def test_agent_dependencies_have_upper_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["optional-dependencies"]["agent"], *project["optional-dependencies"]["mcp"]]
    unbounded = [line for line in needed if not re.search(r",<\d", line)]
    assert unbounded == []
