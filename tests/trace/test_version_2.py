"""Recordings of version 2: their timeline, faults and statistics, and `accord trace record --protocol`."""

import json
import sys
from base64 import b64decode, b64encode
from pathlib import Path

from tests.accord_command import run_accord
from tests.trace.trace_files import TraceBuilder

from accord.trace.redaction import redact_value

INFO = {"name": "one", "version": "1"}
AGENT = """
from accord import Agent, Turn

agent = Agent("echo", version="1", protocol=(1, 2))


@agent.prompt
async def answer(turn: Turn) -> None:
    await turn.say("heard: " + turn.text)


agent.serve()
"""


def opened(requested: int, answered: int, **more: object) -> TraceBuilder:
    builder = TraceBuilder()
    params = {"protocolVersion": requested, "info": INFO, "capabilities": {}, **more}
    asked = builder.call("client", "initialize", params)
    name, can = ("info", "capabilities") if answered == 2 else ("agentInfo", "agentCapabilities")
    return builder.answer("agent", asked, {"protocolVersion": answered, name: INFO, can: {}})


def two_turns() -> TraceBuilder:
    """The second prompt is held until the first turn has ended."""
    builder = opened(2, 2)
    session = builder.call("client", "session/new", {"cwd": "/project"})
    builder.answer("agent", session, {"sessionId": "s1"})
    text = [{"type": "text", "text": "Build it"}]
    first = builder.call("client", "session/prompt", {"sessionId": "s1", "prompt": text})
    builder.update("s1", sessionUpdate="state_update", state="running")
    builder.update("s1", sessionUpdate="user_message", messageId="m1", content=text)
    builder.answer("agent", first, {"messageId": "m1"})
    second = builder.call("client", "session/prompt", {"sessionId": "s1", "prompt": text})
    builder.update("s1", sessionUpdate="terminal_update", terminalId="t1", command="make", cwd="/project")
    builder.update("s1", sessionUpdate="terminal_output_chunk", terminalId="t1", data="b2s=")
    work = [{"type": "terminal", "terminalId": "t1"}]
    builder.update("s1", sessionUpdate="state_update", state="idle", stopReason="end_turn", background=work)
    builder.answer("agent", second, {"messageId": "m2"})
    builder.update("s1", sessionUpdate="state_update", state="running", background=[])
    builder.update("s1", sessionUpdate="state_update", state="idle", stopReason="max_tokens", background=[])
    return builder


def shown(file: Path, *options: str) -> str:
    run = run_accord("trace", "show", file, *options)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_a_correct_recording_has_no_faults_and_a_readable_timeline(tmp_path: Path):
    file = two_turns().write(tmp_path / "trace.jsonl")
    timeline = shown(file)
    assert "  !  " not in timeline
    for line in (
        "version 2, one 1",
        "state_update running",
        'user_message "Build it"',
        "messageId m1",
        "terminal_update t1 · make · /project",
        "terminal_output_chunk t1 ok",
        "state_update idle · end_turn, 1 in the background",
    ):
        assert line in timeline


def test_a_turn_lasts_until_the_session_is_idle(tmp_path: Path):
    file = two_turns().write(tmp_path / "trace.jsonl")
    totals = json.loads(run_accord("trace", "stats", file, "--json").stdout)
    assert totals["faults"] == 0
    assert [turn["ended"] for turn in totals["turns"]] == ["end_turn", "max_tokens"]
    assert [turn["seconds"] for turn in totals["turns"]] == [7.0, 6.0]


def test_faults_name_the_rules_of_version_2(tmp_path: Path):
    builder = opened(2, 2)
    builder.update("s1", sessionUpdate="state_update", state="idle", stopReason="tired")
    builder.update("s1", sessionUpdate="agent_message_chunk", content={"type": "text", "text": "x"})
    read = builder.call("agent", "fs/read_text_file", {"sessionId": "s1", "path": "/x"}, id="r1")
    builder.error("client", read, -32601, "Method not found").answer("client", "r2", {})
    builder.call("client", "session/list")
    faults = shown(builder.write(tmp_path / "trace.jsonl"), "--faults")
    for slug in (
        "v2-prompt.running",
        "v2-prompt.stop-reason",
        "v2-update.message-id",
        "v2-framing.agent-known-methods",
        "v2-framing.client-returns-id",
        "v2-framing.agent-one-answer",
    ):
        assert f"rule {slug}," in faults


def test_an_initialize_for_both_versions_is_no_fault(tmp_path: Path):
    both = {"clientInfo": INFO, "clientCapabilities": {}}
    for answered in (1, 2):
        file = opened(2, answered, **both).write(tmp_path / f"{answered}.jsonl")
        assert "  !  " not in shown(file)


def test_a_recording_without_initialize_is_judged_in_the_given_version(tmp_path: Path):
    builder = TraceBuilder().update("s1", sessionUpdate="state_update", state="running")
    file = builder.write(tmp_path / "trace.jsonl")
    assert "unknown variant 'state_update'" in shown(file)
    assert "  !  " not in shown(file, "--protocol", "2")


def test_secrets_in_the_output_of_terminals_are_removed():
    output = b"\xc3export TOKEN=abcdefgh12345678\n"
    for update in ({"data": encoded(output)}, {"output": {"data": encoded(output)}}):
        redacted = redact_value({"sessionUpdate": "terminal_output_chunk", "terminalId": "t1", **update})
        data = redacted.get("data") or redacted["output"]["data"]
        assert b64decode(data) == b"\xc3export TOKEN=[redacted]\n"
    harmless = {"terminalId": "t1", "data": encoded(b"compiled 3 files\n")}
    assert redact_value(harmless) is harmless


def encoded(output: bytes) -> str:
    return b64encode(output).decode()


def test_record_lets_a_client_of_version_1_use_version_2(tmp_path: Path):
    (tmp_path / "agent.py").write_text(AGENT)
    file = tmp_path / "trace.jsonl"
    options = ["-o", str(file), "--protocol", "2", "--no-redact"]
    recorder = [sys.executable, "-m", "accord.cli", "trace", "record", *options]
    agent = [*recorder, "--", sys.executable, str(tmp_path / "agent.py")]
    run = run_accord("run", "hello", "--", *agent, cwd=tmp_path)
    assert (run.returncode, "heard: hello" in run.stdout) == (0, True)
    timeline = shown(file)
    assert "state_update idle · end_turn" in timeline
    assert "  !  " not in timeline
