"""The pipes of the real process: malformed input, dialects, and the recording of all messages."""

import json
from pathlib import Path

import pytest
from tests.coder.process.editor import BOUNDARY, started

MALFORMED = [
    b"",
    b"   ",
    b"hello",
    b"{",
    b'{"jsonrpc":"2.0","id":7,"method":',
    b"\xff\xfe\x00",
    b"[]",
    b"42",
    b'{"jsonrpc":"2.0","method":"no/such/notification"}',
    b'{"jsonrpc":"2.0","id":"ghost","result":{}}',
    b'{"jsonrpc":"2.0","id":"ghost","error":{"code":1,"message":"x"}}',
    b"{" * 10_000,
]


@pytest.mark.rule("framing.agent-only-messages", "framing.agent-one-line")
async def test_malformed_input_is_survived_and_stdout_stays_valid(home: Path, project: Path) -> None:
    async with started(home, project, stderr=None) as editor:
        chat = await editor.new()
        for line in MALFORMED:
            editor.wire.send(line)
            assert (await chat.turn("think: still here")).stop == "end_turn"
        assert (await editor.error("no/such/method"))["code"] == -32601
        assert (await editor.error("session/prompt", sessionId=chat.id, prompt=7))["code"] == -32602
        assert (await chat.turn("list")).stop == "end_turn"
    answers = [message for message in editor.wire.heard if message.get("id", 0) is None]
    assert {answer["error"]["code"] for answer in answers} <= {-32700, -32600}
    assert editor.wire.end is not None
    assert editor.wire.end.exit_code == 0
    stderr_lines = [line for line in editor.wire.end.stderr.splitlines() if not line.startswith(BOUNDARY)]
    assert {line.split(" accord.")[0] for line in stderr_lines} == {"accord agent: WARNING"}, (
        "each warning must be one line without a traceback"
    )


async def test_requests_before_initialize_are_answered(home: Path, project: Path) -> None:
    async with started(home, project, initialize=False) as editor:
        answer = await editor.answer(editor.ask("session/new", cwd=str(project), mcpServers=[]))
        assert "result" in answer or answer["error"]["code"] < 0
        assert (await editor.call("initialize", protocolVersion=1))["protocolVersion"] == 1


@pytest.mark.rule("accord.agent-strict-mode")
async def test_dialects_are_understood_unless_strict(home: Path, project: Path) -> None:
    async with started(home, project) as editor:
        assert "sessionId" in await editor.call("session/new", cwd=str(project))
    async with started(home, project, "--strict") as editor:
        assert (await editor.error("session/new", cwd=str(project)))["code"] == -32602
        assert (await (await editor.new()).turn("list")).stop == "end_turn"


async def test_control_characters_in_command_output_do_not_break_the_wire(home: Path, project: Path) -> None:
    async with started(home, project, "--mode", "full-access") as editor:
        chat = await editor.new()
        record = await chat.turn(r"run printf '\033[31mred\033[0m\r\n\000\007\342\200\250{}\n'")
        assert record.call["status"] == "completed"
        assert "red" in record.call["rawOutput"]["output"]
    assert all(line.startswith(b"{") and b"\n" not in line for line in editor.wire.lines)


async def test_log_option_records_all_messages_in_a_private_file(
    home: Path, project: Path, tmp_path: Path
) -> None:
    log = tmp_path / "wire.log"
    async with started(home, project, "--log", str(log)) as editor:
        chat = await editor.new()
        await chat.turn("list src")
    recorded = [json.loads(line) for line in log.read_text().splitlines()]
    text = json.dumps(recorded)
    for word in ("initialize", "session/new", "session/prompt", "List src", "end_turn"):
        assert word in text
    assert len(recorded) >= len(editor.wire.lines) + len(editor.wire.sent)
    assert log.stat().st_mode & 0o077 == 0
