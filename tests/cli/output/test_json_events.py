"""`--format json` follows its schema: every type of event, and every line of real runs."""

import io
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from tests.cli.output.output_recorder import OutputRecorder, on_pipe

import accord
from accord.cli.output import event_schema, output_for
from accord.client import (
    AgentEnded,
    AgentRestarted,
    ClientEvent,
    SessionLost,
    SessionReattached,
    TerminalPrinted,
)
from accord.client.remote_agent import connect, connect_transport
from accord.errors import AccordError, Crashed, RpcError
from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    Cost,
    Diff,
    Error,
    IdleStateUpdate,
    ImageContent,
    Notice,
    PermissionOption,
    PlanEntry,
    PlanItems,
    PlanMarkdown,
    ResourceLink,
    SessionConfigBoolean,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    SessionMode,
    SessionModeState,
    SubagentUpdate,
    Terminal,
    TextContent,
    ToolCallLocation,
    ToolCallUpdate,
    Unknown,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)
from accord.session import (
    BackgroundItem,
    MessageChanged,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    ReplayEnded,
    ReplayStarted,
    SessionOpened,
    StateChanged,
    TerminalChanged,
    TerminalExit,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
    turn_failed,
)
from accord.testing import scripted_agent
from accord.testing.scripted_agent import AgentScript, ScriptedAgent

SCHEMA: dict[str, Any] = json.loads(event_schema())
VALIDATOR = Draft202012Validator(SCHEMA)

TEXT = TextContent(text="Hi \x1b[31m\u202e\x9b")
YES = PermissionOption("y", "Allow", "allow_once")
PATCH = ToolCallUpdate(
    "c",
    title="Edit",
    kind="edit",
    status="in_progress",
    content=[Content(content=TEXT), Diff(path="/a", new_text="x"), Terminal(terminal_id="t")],
    locations=[ToolCallLocation(path="/a", line=1)],
    raw_input={"any": ["thing"]},
)
SWITCH = SessionConfigBoolean(id="w", name="Web", current_value=True)
SELECT = SessionConfigSelect(
    id="m",
    name="Model",
    current_value="a",
    options=[SessionConfigSelectOption(value="a", name="A")],
    category="model",
)
EVERY_EVENT: list[ClientEvent] = [
    TurnStarted([TEXT, ImageContent(data="AA==", mime_type="image/png")]),
    TurnStarted(),
    AgentMessageChunk(content=TEXT, message_id="1"),
    AgentThoughtChunk(content=ResourceLink(name="n", uri="file:///x")),
    UserMessageChunk(content=TEXT, meta={"a": 1}),
    MessageChanged("agent", "1", [TEXT]),
    MessageChanged("thought"),
    ToolCallChanged(PATCH, announce=True),
    PlanChanged(
        "", PlanItems(plan_id="", entries=[PlanEntry(content="x", priority="low", status="pending")])
    ),
    PlanChanged("p", PlanMarkdown(plan_id="p", content="# x")),
    PlanChanged("p", None),
    TerminalChanged("t", "make", "/x", None, "AA==", TerminalExit(0), cancellable=True),
    StateChanged("idle", [BackgroundItem("terminal", "t")]),
    ModeChanged("plan"),
    ConfigOptionUpdate(config_options=[SWITCH, SELECT]),
    AvailableCommandsUpdate(available_commands=[AvailableCommand(name="x", description="y")]),
    SessionInfoUpdate(title=None, updated_at="2026-01-01T00:00:00Z"),
    UsageUpdate(used=1, size=2, cost=Cost(0.5, "USD")),
    Notice(severity="info", title="t", description=None),
    CompactionUpdate(compaction_id="k", status="completed", summary=[TEXT], error=None),
    CompactionSummaryChunk(compaction_id="k", content=TEXT),
    SubagentUpdate(session_id="s", title="t", state=IdleStateUpdate(stop_reason="end_turn")),
    SessionMessage(message_id="m", sender_session_id="a", content=[TEXT]),
    SessionMessageChunk(message_id="m", content=TEXT),
    PermissionAsked("1", [YES], PATCH),
    PermissionAsked("2", [YES]),
    PermissionAnswered("1", YES),
    PermissionAnswered("2"),
    SessionOpened("s", "/x", [], SessionModeState("a", [SessionMode("a", "A")]), [SWITCH]),
    SessionOpened("s"),
    ReplayStarted(),
    ReplayEnded(),
    TurnCancelling(),
    TurnEnded("end_turn", "end_turn", Usage(total_tokens=3, input_tokens=1, output_tokens=2)),
    TurnEnded(None, "tired"),
    TurnEnded(error=Error(code=-32000, message="x", data={"a": None})),
    turn_failed(RpcError("x")),
    Unknown("new_thing", {"sessionUpdate": "new_thing", "type": "no", "v": 9}),
    AgentEnded(Crashed("gone", exit_code=1, stderr="oops")),
    AgentRestarted(1),
    SessionReattached("s", "load"),
    SessionLost("s", "why"),
    TerminalPrinted("t", "out\r\n"),
]


def lines_of(text: str) -> list[dict[str, Any]]:
    """Parse the lines. Check each against the schema, and that the schema names each of its members."""
    assert text.endswith("\n")
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        problems = [error.message for error in VALIDATOR.iter_errors(line)]
        assert not problems, (line, problems)
        named = SCHEMA["properties"].keys() | SCHEMA["$defs"][f"event_{line['type']}"]["properties"].keys()
        assert line.keys() <= named, line
    return lines


def test_the_event_schema_is_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert {f"event_{kind}" for kind in SCHEMA["properties"]["type"]["enum"]} == {
        name for name in SCHEMA["$defs"] if name.startswith("event_")
    }


def test_the_guide_describes_every_event_type() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "json-events.md").read_text()
    for kind in SCHEMA["properties"]["type"]["enum"]:
        members = SCHEMA["$defs"][f"event_{kind}"]
        (row,) = [line for line in guide.splitlines() if line.startswith(f"| `{kind}` |")]
        assert members["description"] in row
        for member in members["properties"].keys() - {"type", "_meta"}:
            assert f"`{member}`" + ("" if member in members["required"] else "?") in row


def test_every_event_is_written_as_a_valid_line() -> None:
    assert {type(event) for event in EVERY_EVENT} == set(get_args(ClientEvent))
    recorder = on_pipe("json")
    recorder.send(*EVERY_EVENT)
    assert len(lines_of(recorder.text)) == len(EVERY_EVENT)


def test_terminal_control_characters_are_escaped_and_preserved() -> None:
    recorder = on_pipe("json")
    text = "\x1b[31m\x9b\u202e\u2028\x7f\U000e0041é語"
    recorder.send(AgentMessageChunk(content=TextContent(text=text)))
    assert not {"\x1b", "\x9b", "\u202e", "\u2028", "\x7f", "\U000e0041"} & set(recorder.text)
    assert "é語" in recorder.text
    (line,) = lines_of(recorder.text)
    assert line["content"]["text"] == text


def test_the_result_is_the_last_line_after_a_crash() -> None:
    recorder = on_pipe("json")
    recorder.output.note("a note")
    recorder.output.finished(None, Crashed("gone", exit_code=1, stderr="boom"), 3)
    recorder.output.note("too late")
    note, result = lines_of(recorder.text)
    assert (note["type"], note["text"], note["session"]) == ("note", "a note", None)
    assert result["exitCode"] == 3
    assert result["error"] == {
        "kind": "Crashed",
        "message": "gone; its last stderr lines:\nboom",
        "exitCode": 1,
        "signal": None,
        "stderr": "boom",
    }
    assert "too late" in recorder.stderr.getvalue()


async def run(remote: accord.RemoteAgent, folder: Path, recorder: OutputRecorder) -> list[dict[str, Any]]:
    """Run a turn as `accord run` does."""
    session = await remote.new_session(folder)
    recorder.output.opened(session, remote)
    ended, error = None, None
    try:
        async for event in session.prompt("go"):
            recorder.output.event(event)
            if isinstance(event, TurnEnded):
                ended = event
    except AccordError as caught:
        error = caught
    recorder.output.finished(ended, error, 0 if error is None else 3)
    return lines_of(recorder.text)


async def test_a_real_run_writes_valid_lines(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        [
            [
                scripted_agent.think("hm"),
                scripted_agent.plan(("Read", "completed"), "Fix"),
                scripted_agent.tool(
                    "Run", scripted_agent.ask(), scripted_agent.terminal("echo", "out"), kind="execute"
                ),
                scripted_agent.update({"sessionUpdate": "brand_new", "x": [1]}),
                scripted_agent.update({"sessionUpdate": "usage_update", "used": 5, "size": 10}),
                scripted_agent.say("The ", "answer."),
            ]
        ]
    )
    recorder = on_pipe("json")
    handlers = accord.ClientHandlers(permissions=accord.allow_all, workspace=accord.local_workspace)
    async with connect_transport(agent.transport(), handlers=handlers) as remote:
        lines = await run(remote, tmp_path, recorder)
    kinds = [line["type"] for line in lines]
    assert kinds[:2] == ["opened", "turn_started"]
    assert kinds[-2:] == ["turn_ended", "result"]
    assert set(kinds) >= {
        "agent_thought_chunk",
        "plan_changed",
        "tool_call_changed",
        "permission_asked",
        "permission_answered",
        "terminal_printed",
        "unknown",
        "usage_update",
        "agent_message_chunk",
    }
    assert len({line["session"] for line in lines}) == 1
    result = lines[-1]
    assert (result["text"], result["stopReason"], result["exitCode"]) == ("The answer.", "end_turn", 0)
    assert result["context"] == {"used": 5, "size": 10}
    assert recorder.stderr.getvalue() == ""


async def test_a_run_with_a_crashed_agent_writes_valid_lines(tmp_path: Path) -> None:
    command = AgentScript(tmp_path).command([[{"say": "Well"}, {"die": 7}]])
    recorder = on_pipe("json")
    async with connect(*command) as remote:
        lines = await run(remote, tmp_path, recorder)
    died = next(line for line in lines if line["type"] == "agent_ended")
    assert died["exitCode"] == 7
    result = lines[-1]
    assert (result["stopReason"], result["error"]["kind"], result["error"]["exitCode"]) == (
        None,
        "Crashed",
        7,
    )
    assert result["text"] == "Well"


@pytest.mark.parametrize(("texts", "answer"), [(["One.", "Two."], "Two.\n"), ([], "")])
async def test_quiet_writes_only_the_last_message(tmp_path: Path, texts: list[str], answer: str) -> None:
    messages = [
        scripted_agent.update(
            {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": f"\n{text}\x1b[0m\n"},
                "messageId": text,
            }
        )
        for text in texts
    ]
    agent = ScriptedAgent([[scripted_agent.think("hm"), *messages, scripted_agent.tool("Work", kind="read")]])
    stdout, stderr = io.StringIO(), io.StringIO()
    output = output_for("quiet", stdout=stdout, stderr=stderr, terminal=False)
    async with connect_transport(agent.transport()) as remote:
        session = await remote.new_session(tmp_path)
        output.opened(session, remote)
        async for event in session.prompt("go"):
            output.event(event)
        assert stdout.getvalue() == ""
        output.finished(TurnEnded("end_turn", "end_turn"), None, 0)
    assert stdout.getvalue() == answer
    assert stderr.getvalue() == ""
