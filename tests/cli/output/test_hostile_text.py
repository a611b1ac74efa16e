"""No text of an agent, in any field, reaches the terminal as an escape sequence."""

import pytest
from tests.cli.output.output_recorder import OutputRecorder, call, message, on_pipe, on_terminal, thought

from accord.client import AgentEnded, SessionLost, TerminalPrinted
from accord.errors import Crashed, RpcError
from accord.schema import (
    AgentMessageChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    Diff,
    EmbeddedResource,
    ImageContent,
    Notice,
    PermissionOption,
    PlanEntry,
    PlanFile,
    PlanItems,
    PlanMarkdown,
    ResourceLink,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMessage,
    SubagentUpdate,
    TextContent,
    TextResourceContents,
    ToolCallLocation,
    ToolCallUpdate,
    Unknown,
)
from accord.session import (
    MessageChanged,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    TurnEnded,
    TurnStarted,
)

EVIL = (
    "a\x1b[2J\x1b]0;t\x07\x9b31m\x90q\x9cb\u202ec\u2066\x08\x7f\x85\u2028\r\nd\x1bPx\x1b\\\ud89b\U000e0041e"
)
TEXT = TextContent(text=EVIL)
FORBIDDEN = {chr(code) for code in [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), 0x2066, 0x2028]}


def send_every_event(recorder: OutputRecorder) -> None:
    option = PermissionOption(EVIL, EVIL, "reject_once")
    select = SessionConfigSelect(
        id=EVIL, name=EVIL, current_value=EVIL, options=[SessionConfigSelectOption(value=EVIL, name=EVIL)]
    )
    content = [Content(content=TEXT), Diff(path=EVIL, old_text=EVIL, new_text=EVIL * 2)]
    where = [ToolCallLocation(path=EVIL, line=1)]
    step = PlanEntry(content=EVIL, priority="low", status="pending")
    recorder.send(
        TurnStarted([TEXT]),
        message(EVIL),
        thought(EVIL),
        MessageChanged("agent", content=[TEXT, ImageContent(data="", mime_type=EVIL)]),
        AgentMessageChunk(content=ResourceLink(name=EVIL, uri=EVIL)),
        AgentMessageChunk(content=EmbeddedResource(resource=TextResourceContents(uri=EVIL, text=EVIL))),
        PermissionAsked("1", [option], ToolCallUpdate(EVIL, title=EVIL)),
        PermissionAnswered("1", option),
        call(EVIL, title=EVIL, kind="execute", status="failed", content=content, locations=where),
        call("2", title="", name=EVIL, status="completed"),
        call("open", title=EVIL),
        PlanChanged(EVIL, PlanItems(plan_id=EVIL, entries=[step])),
        PlanChanged("2", PlanFile(plan_id="2", uri=EVIL)),
        PlanChanged("3", PlanMarkdown(plan_id="3", content=EVIL)),
        Notice(severity=EVIL, title=EVIL, description=EVIL),
        CompactionUpdate(compaction_id=EVIL, status=EVIL, error=EVIL),
        SubagentUpdate(session_id=EVIL, title=EVIL, state=Unknown(EVIL, {"state": EVIL})),
        SessionMessage(message_id=EVIL, sender_session_id=EVIL, recipient_session_id=EVIL, content=[TEXT]),
        ModeChanged(EVIL),
        ConfigOptionUpdate(config_options=[select]),
        TerminalPrinted(EVIL, EVIL),
        AgentEnded(Crashed(EVIL, signal=EVIL, stderr=EVIL)),
        SessionLost(EVIL, EVIL),
        Unknown(EVIL, {"sessionUpdate": EVIL}),
        TurnEnded(None, EVIL),
    )
    recorder.output.note(EVIL)
    recorder.output.finished(TurnEnded(None, EVIL), RpcError(EVIL, {EVIL: EVIL}), 1)


@pytest.mark.parametrize("format", ["text", "json", "quiet"])
def test_hostile_text_on_a_pipe_is_escaped(format: str) -> None:
    recorder = on_pipe(format)
    send_every_event(recorder)
    assert not (FORBIDDEN - {"\n"}) & set(recorder.text + recorder.stderr.getvalue())
    assert recorder.text or format == "quiet"


def test_hostile_text_on_a_terminal_is_escaped() -> None:
    recorder = on_terminal(60, 200, color=False)
    send_every_event(recorder)
    assert not (FORBIDDEN - {"\n"}) & set(recorder.text + recorder.stderr.getvalue())


async def test_hostile_text_in_live_lines_is_escaped() -> None:
    recorder = on_terminal(60, 200)
    recorder.send(
        TurnStarted(), call(EVIL, title=EVIL, status="in_progress", locations=[ToolCallLocation(path=EVIL)])
    )
    await recorder.clock.advance(1)
    (line,) = recorder.screen
    assert "<U+202E>" in line
    assert set("\x1b\x9b\u202e") & set(line) == set()
