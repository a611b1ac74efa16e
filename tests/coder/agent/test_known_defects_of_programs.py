"""What other coding agents were found to do wrong as programs: what they load, whom they tell, what they need. Not here."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

from tests.coder.agent.desk import Desk
from tests.coder.process.editor import BOUNDARY, PATIENT, Editor, Wire, environment, started

from accord.testing.models import Answer, ModelServer
from accord.wire.process import spawn

ROOT = Path(__file__).parents[3]

WATCHED = """
import sys

def watch(event, args):
    if event in ("socket.connect", "socket.sendto"):
        sys.stderr.write(f"told: {args[1]}\\n")
    elif event == "socket.getaddrinfo":
        sys.stderr.write(f"told: {args[:2]}\\n")

sys.addaudithook(watch)
from accord.cli import main

sys.exit(main())
"""


async def test_nobody_but_the_model_s_provider_is_told_anything(desk: Desk):
    async with ModelServer() as server:
        server.add(Answer("Hello."))
        address = server.base_url("openai")
        variables = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": address, "OPENAI_MODEL": "gpt-5"}
        transport = await spawn(
            [sys.executable, "-c", WATCHED, "agent"],
            cwd=desk.project,
            env=environment(desk.home, **variables),
            patience=PATIENT,
        )
        editor = Editor(Wire(transport), desk.project)
        try:
            await editor.call("initialize", protocolVersion=1, clientCapabilities={})
            chat = await editor.new()
            assert (await chat.turn("hi")).text == "Hello."
        finally:
            await transport.aclose()
    end = await editor.wire.wait_end()
    told = [line for line in end.stderr.splitlines() if line.startswith("told: ")]
    port = address.split(":")[2].split("/")[0]
    assert told, "the watch does not work"
    assert [line for line in told if "'127.0.0.1'" not in line or port not in line] == []


async def test_a_key_without_a_model_is_said_to_lack_one_and_not_passed_over_in_silence(desk: Desk):
    variables = {"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    async with started(desk.home, desk.project, variables=variables, stderr=None) as editor:
        assert (await (await editor.new()).turn("think: x")).stop == "end_turn"
        await editor.new()
    assert editor.wire.end is not None
    told = [line for line in editor.wire.end.stderr.splitlines() if "rehearsal: " in line]
    assert told == [
        "accord agent: rehearsal: there is a key for openai at http://127.0.0.1:9/v1, but no model is named: "
        "set OPENAI_MODEL, or choose one as openai:NAME"
    ]


async def test_a_launcher_that_closes_stderr_gets_an_agent_all_the_same(desk: Desk):
    script = 'exec "$@" 2>&-'
    command = ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "accord.cli", "agent", "--resume", "gone"]
    transport = await spawn(command, cwd=desk.project, env=environment(desk.home), patience=PATIENT)
    editor = Editor(Wire(transport), desk.project)
    try:
        await editor.call("initialize", protocolVersion=1, clientCapabilities={})
        chat = await editor.new()
        assert (await chat.turn("write a.txt: hello")).stop == "end_turn"
    finally:
        await transport.aclose()
    assert (await editor.wire.wait_end()).exit_code == 0
    assert (desk.project / "a.txt").read_text() == "hello"


async def test_what_confines_commands_is_said_once_and_not_for_every_session(desk: Desk):
    async with started(desk.home, desk.project, stderr=None) as editor:
        for _ in range(3):
            assert (await (await editor.new()).turn("run true")).stop == "end_turn"
    assert editor.wire.end is not None
    said = [line for line in editor.wire.end.stderr.splitlines() if line.startswith(BOUNDARY)]
    assert len(said) == len(set(said))
    assert "not tried" not in "".join(said)


def test_the_greeting_is_answered_before_anything_heavy_is_loaded(desk: Desk):
    code = """
        import asyncio, json, sys
        from accord.coder.app import coding_agent
        from accord.coder.coder import Coder
        from accord.coder.start import Start
        from accord.testing.wire import raw_pair

        class Watched(Coder):
            def preload(self):
                self.loaded = sorted(sys.modules)

        async def main():
            coder = Watched(Start(environment={"ANTHROPIC_API_KEY": "sk", "ACCORD_MODEL": "anthropic:claude"}))
            ours, raw = raw_pair(hears="agent")
            connection = coding_agent(coder).connect(ours)
            await raw.call("initialize", {"protocolVersion": 1})
            print(json.dumps(coder.loaded))
            await raw.aclose()
            await connection

        asyncio.run(main())
    """
    run = subprocess.run(
        [sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in json.loads(run.stdout)}
    heavy = {
        "pydantic",
        "pydantic_ai",
        "openai",
        "anthropic",
        "google",
        "mcp",
        "httpx",
        "tree_sitter",
        "rignore",
    }
    assert loaded & heavy == set()


def test_a_library_that_moves_fast_cannot_break_a_fresh_installation():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["optional-dependencies"]["agent"], *project["optional-dependencies"]["mcp"]]
    unbounded = [line for line in needed if not re.search(r",<\d", line)]
    assert unbounded == []
