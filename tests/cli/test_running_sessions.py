"""`accord sessions` says that a session runs in another process, and does not call it failed."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.cli.agent_process import environment, running_agent

AGENT = """
import sys, time
import accord

agent = accord.Agent("slow")

@agent.prompt
async def reply(turn):
    async with turn.tool_call("Long work", kind="execute", start=True):
        await turn.say("working on it")
        await turn.client.request("_test/never")

agent.serve()
"""
CLIENT = """
import asyncio, sys
from accord.client import ClientHandlers, connect
from accord.frontend.recording import RecordedSessions

async def never(params):
    print("running", flush=True)
    await asyncio.Event().wait()

async def main():
    records = RecordedSessions.open()
    handlers = ClientHandlers(extensions={"_test/never": never})
    async with connect(sys.executable, sys.argv[1], handlers=handlers) as agent:
        session = await agent.new_session(".")
        recording = records.record(session, agent="slow", failed=print)
        async for event in session.prompt("go"):
            recording.append(event)
            records.store.commit()

asyncio.run(main())
"""


async def accord(folder: Path, env: dict[str, str], *words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "accord.cli", *words, cwd=folder, env=env, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_a_session_of_another_process_is_running_and_not_failed(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    env = {**os.environ, "ACCORD_HOME": str(tmp_path / "home")}
    client = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CLIENT,
        str(program),
        cwd=tmp_path,
        env=env,
        stdout=asyncio.subprocess.PIPE,
    )
    assert client.stdout
    try:
        assert await client.stdout.readline() == b"running\n"
        [listed] = json.loads(await accord(tmp_path, env, "sessions", "list", "--recorded", "--json"))
        assert listed["runningIn"] == client.pid
        assert f"(open in process {client.pid})" in await accord(
            tmp_path, env, "sessions", "list", "--recorded"
        )
        id = listed["sessionId"]
        shown = await accord(tmp_path, env, "sessions", "show", "--recorded", id)
        assert f"running in process {client.pid}" in shown
        assert "working on it" in shown
        assert "failed" not in shown.lower()
        assert "interrupted" not in shown.lower()
    finally:
        client.kill()
        await client.communicate()
    shown = await accord(tmp_path, env, "sessions", "show", "--recorded", id)
    assert "running in process" not in shown
    assert "interrupted" in shown.lower(), "after a kill, the turn is over"


async def test_a_session_of_an_editor_is_shown_from_the_log_of_the_coding_agent(tmp_path: Path) -> None:
    """The editor records nothing here, and no second agent can load the session while it is open."""
    home = tmp_path / "home"
    env = environment(home, ACCORD_MODEL="rehearsal")
    with running_agent("--model", "rehearsal", home=home) as agent:
        agent.initialize()
        id = agent.new_session(tmp_path)["result"]["sessionId"]
        agent.prompt(id, "list .")
        [listed] = json.loads(await accord(tmp_path, env, "sessions", "list", "--json"))
        pid = listed["runningIn"]
        assert f"(open in process {pid})" in await accord(tmp_path, env, "sessions", "list")
        shown = await accord(tmp_path, env, "sessions", "show", id)
        assert f"open in process {pid}" in shown
        assert "list ." in shown
        agent.start_request(
            "session/prompt", sessionId=id, prompt=[{"type": "text", "text": "ask: which color?"}]
        )
        while not agent.read().keys() >= {"id", "method"}:
            pass
        shown = await accord(tmp_path, env, "sessions", "show", id)
        assert f"running in process {pid}" in shown
        assert "which color?" in shown
        exported = json.loads(await accord(tmp_path, env, "sessions", "export", "--format", "json", id))
        assert exported["source"] == "agent"
    shown = await accord(tmp_path, env, "sessions", "show", id)
    assert "in process" not in shown
    assert "interrupted" in shown.lower(), "after a kill, the turn is over"
