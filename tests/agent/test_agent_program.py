"""An agent as a separate program: its pipes, and how it ends."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.warm_start import real_starts

from accord.testing.raw_peer import schema_violations
from accord.wire.envelope import id_key

PROGRAM = Path(__file__).parent / "programs" / "echo_agent.py"
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
LOAD = {
    "jsonrpc": "2.0",
    "id": "load",
    "method": "session/load",
    "params": {"sessionId": "s1", "cwd": "/", "mcpServers": []},
}


def prompt(text: str) -> dict[str, Any]:
    blocks = [{"type": "text", "text": text}]
    return {
        "jsonrpc": "2.0",
        "id": "prompt",
        "method": "session/prompt",
        "params": {"sessionId": "s1", "prompt": blocks},
    }


class Program:
    """A running agent program, read and written line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        assert process.stdin
        self.stdin = process.stdin
        assert process.stdout
        self.stdout = process.stdout
        assert process.stderr
        self.stderr = process.stderr
        self._asked: dict[Any, str] = {}

    def write(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self._asked[id_key(message["id"])] = message["method"]
            self.stdin.write(json.dumps(message).encode() + b"\n")

    async def read(self) -> Any:
        """Read the next line, which must be a valid message; None at the end."""
        line = await self.stdout.readline()
        if not line:
            return None
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        assert schema_violations(message, "agent", self._asked) == []
        return message

    async def rest(self) -> list[Any]:
        messages: list[Any] = []
        while (message := await self.read()) is not None:
            messages.append(message)
        return messages

    async def end(self) -> tuple[int, str]:
        """Wait for the end; return exit code and stderr."""
        stderr_text = await self.stderr.read()
        return await self.process.wait(), stderr_text.decode()


@asynccontextmanager
async def running(*arguments: str, program: Path = PROGRAM) -> AsyncGenerator[Program]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), *arguments, stdin=pipe, stdout=pipe, stderr=pipe
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.rule(
    "framing.agent-only-messages",
    "framing.agent-one-line",
    "framing.agent-utf8",
    "framing.agent-jsonrpc-member",
    "framing.exits-at-end-of-input",
)
@pytest.mark.parametrize("arguments", [(), ("--strict",), ("--uvloop",)])
async def test_a_turn_over_pipes(arguments: tuple[str, ...]) -> None:
    if "--uvloop" in arguments:
        pytest.importorskip("uvloop")
    async with running(*arguments) as agent:
        agent.write(INITIALIZE)
        assert (await agent.read())["result"]["agentInfo"]["name"] == "echo"
        agent.write(LOAD)
        assert (await agent.read())["result"] == {}
        agent.write(prompt("日本"))
        update, ended = await agent.read(), await agent.read()
        agent.stdin.close()
        assert await agent.rest() == []
        code, stderr_text = await agent.end()
    assert update["params"]["update"]["content"]["text"] == "You said: 日本\n🎉"
    assert ended["result"] == {"stopReason": "end_turn"}
    assert code == 0
    assert stderr_text == "a stray line on stdout\n"


async def test_an_exit_in_a_handler_ends_the_program_with_one_report() -> None:
    async with running() as agent:
        agent.write(INITIALIZE, LOAD, prompt("exit"))
        await agent.rest()
        code, stderr_text = await agent.end()
    assert code == 9
    assert stderr_text.count("Traceback") == 1
    assert "Task" not in stderr_text


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals are POSIX")
async def test_an_agent_in_a_terminal_says_how_to_try_it() -> None:
    ours, theirs = os.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), stdin=theirs, stdout=theirs, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr
        hint = (await process.stderr.readline()).decode()
        process.terminate()
        await process.communicate()
    finally:
        os.close(ours)
        os.close(theirs)
    assert hint.startswith(
        'echo: waiting for an ACP client on stdin. To try the agent: accord run "Hello" -- '
    )
    assert hint.endswith(f"{PROGRAM}\n")


@pytest.mark.rule("framing.agent-one-answer", "framing.exits-at-end-of-input")
async def test_all_requests_are_answered_when_stdin_closes_right_after_them() -> None:
    new = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}
    async with running() as agent:
        agent.write(INITIALIZE, new)
        agent.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"session/list"}')  # without a line end
        agent.stdin.close()
        answers = {message["id"]: message for message in await agent.rest()}
        code, stderr_text = await agent.end()
    assert set(answers) == {0, 1, 2}
    assert answers[2]["error"]["code"] == -32601
    assert (code, stderr_text) == (0, "")


@pytest.mark.rule("framing.exits-at-end-of-input", "cancel.stop-reason")
@pytest.mark.parametrize("how", ["close", "SIGTERM", "SIGINT"])
async def test_a_closed_stdin_or_a_signal_cancels_the_turn_and_exits_cleanly(how: str) -> None:
    async with running() as agent:
        agent.write(INITIALIZE, LOAD, prompt("wait"))
        while (await agent.read()).get("method") != "session/update":
            pass
        if how == "close":
            agent.stdin.close()
        else:
            agent.process.send_signal(signal.Signals[how])
        rest = await agent.rest()
        code, stderr_text = await agent.end()
    assert [message["result"] for message in rest] == [{"stopReason": "cancelled"}]
    assert (code, stderr_text) == (0, "a stray line on stdout\n")


@pytest.mark.rule("framing.exits-at-end-of-input")
async def test_the_agent_exits_when_the_client_dies() -> None:
    async with running() as agent:
        agent.write(INITIALIZE, LOAD, prompt("wait"))
        while (await agent.read()).get("method") != "session/update":
            pass
        agent.stdin.transport.abort()  # type: ignore[attr-defined]
        code, stderr_text = await agent.end()
    assert (code, stderr_text) == (0, "a stray line on stdout\n")


async def test_an_agent_imports_only_light_modules() -> None:
    allowed = {"agent", "wire", "schema", "errors", "clock", "lazy_names"}
    with real_starts():
        async with running() as agent:
            agent.write(INITIALIZE, {"jsonrpc": "2.0", "id": 1, "method": "_echo/modules"})
            await agent.read()
            modules: list[str] = (await agent.read())["result"]
    packages = {name.split(".")[1] for name in modules if name.startswith("accord.")}
    foreign = {name.split(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert packages <= allowed
    assert foreign <= {
        "__main__",
        "__mp_main__",
        "accord",
        "msgspec",
        "typing_extensions",
        "_virtualenv",
        "sitecustomize",
    } | {name for name in foreign if name.startswith(("_distutils", "__editable__"))}
    assert not {"accord.schema.validation", "accord.schema.type_shape"} & set(modules)


GUIDE = [
    block.split("```", 1)[0]
    for block in (Path(__file__).parents[2] / "docs" / "writing-agents.md")
    .read_text()
    .split("```python\n")[1:]
]


def test_the_examples_of_the_guide_run() -> None:
    names: dict[str, Any] = {}
    exec(GUIDE[0], names)  # the first agent; each other example gets a new agent
    for piece in GUIDE[1:]:
        if piece.startswith(("async with", "await ")):
            continue  # tests/test_snippets.py runs it in a function
        names["agent"] = names["accord"].Agent("reader")
        exec(piece, names)


async def test_the_first_agent_of_the_guide_answers_a_prompt(tmp_path: Path) -> None:
    program = tmp_path / "hello.py"
    program.write_text(GUIDE[0])
    async with running(program=program) as agent:
        agent.write(
            INITIALIZE,
            {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
        )
        await agent.read()
        session = (await agent.read())["result"]["sessionId"]
        message = prompt("hello")
        message["params"]["sessionId"] = session
        agent.write(message)
        update = await agent.read()
        agent.stdin.close()
        await agent.rest()
        code, stderr_text = await agent.end()
    assert update["params"]["update"]["content"]["text"] == "You said: hello"
    assert (code, stderr_text) == (0, "")
