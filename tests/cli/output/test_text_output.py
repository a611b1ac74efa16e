"""Text output of a turn, on an emulated terminal and on a pipe."""

import fcntl
import io
import os
import struct
import termios
from pathlib import Path

import pytest
from tests.cli.output.output_recorder import (
    OutputRecorder,
    Terminal,
    call,
    message,
    on_pipe,
    on_terminal,
    thought,
)

import accord
from accord.cli.output import output_for
from accord.cli.output.terminal_screen import OutputSize, wants_color
from accord.client import AgentEnded, AgentRestarted, SessionLost, TerminalPrinted
from accord.client.remote_agent import connect_transport
from accord.errors import Crashed, RpcError, UsageError
from accord.schema import (
    UNSET,
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    Cost,
    Diff,
    Notice,
    PermissionOption,
    PlanEntry,
    PlanItems,
    RunningStateUpdate,
    SessionConfigBoolean,
    SubagentUpdate,
    TextContent,
    ToolCallLocation,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
)
from accord.session import (
    MessageChanged,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    ReplayEnded,
    ReplayStarted,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
)
from accord.testing import scripted_agent
from accord.testing.fake_clock import FakeClock
from accord.testing.scripted_agent import ScriptedAgent

ENDED = TurnEnded("end_turn", "end_turn")


def plan(*entries: tuple[str, str]) -> PlanChanged:
    items = PlanItems(
        plan_id="",
        entries=[
            PlanEntry(content=text, priority="medium", status=status)  # type: ignore[arg-type]
            for text, status in entries
        ],
    )
    return PlanChanged("", items)


# -- tool calls ------------------------------------------------------------------------------------------


async def test_a_tool_call_is_a_live_line_until_it_is_done() -> None:
    recorder = on_terminal()
    recorder.send(TurnStarted(), call(title="Read parser.py", kind="read", status="in_progress"))
    await recorder.clock.advance(2.25)
    assert recorder.screen == [f"{recorder.screen[0][0]} Read parser.py (2.2 s)"]
    assert recorder.screen[0][0] in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    recorder.send(call(status="completed"))
    assert recorder.screen == ["✓ Read parser.py (2.2 s)"]


async def test_text_continues_after_live_lines_below_it() -> None:
    recorder = on_terminal(30)
    recorder.send(
        TurnStarted(), call(title="Look", status="in_progress"), message("I look into the parser now and t")
    )
    await recorder.clock.advance(1)
    assert recorder.screen == ["I look into the parser now", "and t", f"{recorder.screen[2][0]} Look (1.0 s)"]
    recorder.send(message("hen on."), call(status="completed"), ENDED)
    assert recorder.screen == ["I look into the parser now", "and then on.", "", "✓ Look (1.0 s)"]


def test_text_before_and_after_a_tool_call_is_separated() -> None:
    recorder = on_pipe()
    recorder.send(
        message("Let me look."), call(title="Look", status="in_progress"), message("Meanwhile"), ENDED
    )
    assert recorder.text == "Let me look.\n\nMeanwhile\n\n? Look (ended without a result, 0.0 s)\n"


async def test_parallel_tool_calls_and_one_without_a_result() -> None:
    recorder = on_terminal()
    recorder.send(TurnStarted())
    for number in range(8):
        recorder.send(call(str(number), title=f"Call {number}", status="in_progress"))
    await recorder.clock.advance(1)
    assert recorder.screen[-1] == "and 2 more"
    for number in range(7):
        recorder.send(call(str(number), status="failed" if number == 3 else "completed"))
    recorder.send(ENDED)
    assert recorder.screen == [
        *[f"✓ Call {number} (1.0 s)" for number in range(3)],
        "✗ Call 3 (failed, 1.0 s)",
        *[f"✓ Call {number} (1.0 s)" for number in range(4, 7)],
        "? Call 7 (ended without a result, 1.0 s)",
    ]


def test_a_tool_call_on_a_pipe_is_written_when_it_ends() -> None:
    recorder = on_pipe()
    diff = Diff(path="/repo/a.py", old_text="one\ntwo\n", new_text="one\n2\n")
    recorder.send(
        TurnStarted(),
        message("I edit."),
        call(
            title="Edit",
            kind="edit",
            status="pending",
            locations=[ToolCallLocation(path="/repo/a.py", line=2)],
        ),
        call(status="in_progress"),
        call(status="completed", content=[diff]),
        message("Done."),
        ENDED,
    )
    assert recorder.text == (
        "I edit.\n\n✓ Edit  /repo/a.py:2 (0.0 s)\n    /repo/a.py (+1 -1)\n    @@ -1,2 +1,2 @@\n"
        "     one\n    -two\n    +2\n\nDone.\n"
    )


def test_a_text_below_a_diff_is_shown() -> None:
    recorder = on_pipe()
    diff = Diff(path="a.py", old_text="one\n", new_text="two\n")
    texts = [
        Content(content=TextContent(text=text)) for text in ("Read it first.", "This edit added 1 error")
    ]
    recorder.send(call(title="Edit", kind="edit", status="completed", content=[texts[0], diff, texts[1]]))
    assert recorder.text.endswith("    -one\n    +two\n    This edit added 1 error\n")
    assert "Read it first" not in recorder.text


def test_a_diff_is_colored_and_bounded() -> None:
    recorder = on_terminal(60, 100)
    new = "".join(f"line {number}\n" for number in range(200))
    recorder.send(call(title="Write", status="completed", content=[Diff(path="new.txt", new_text=new)]))
    assert recorder.screen[:3] == ["✓ Write (0.0 s)", "    new.txt (new, +200 -0)", "    +line 0"]
    assert recorder.screen[-1] == "    … 140 more lines"
    assert recorder.stdout.screen.buffer[2][4].fg == "green"  # type: ignore[attr-defined]


def test_late_content_of_a_tool_call_is_shown_once() -> None:
    recorder = on_pipe()
    text = [Content(content=TextContent(text="```\nout\n```"))]
    recorder.send(
        call(title="make", kind="execute", status="completed"), call(content=text), call(content=text)
    )
    assert recorder.text == "✓ execute make (0.0 s)\n    out\n"


def test_escape_sequences_in_a_tool_call_title_are_removed() -> None:
    recorder = on_pipe()
    recorder.send(call(title="ls\x1b[8m; rm -rf /\x1b[0m\r\nsecond \u202eline", status="completed"))
    assert recorder.text == "✓ ls; rm -rf / second <U+202E>line (0.0 s)\n"


async def test_a_command_shows_the_end_of_its_output(tmp_path: Path) -> None:
    script = "for i in $(seq 1 30); do echo line $i; done; printf 'gone\\rstays\\n'; exit 3"
    agent = ScriptedAgent(
        [[scripted_agent.tool("sh", scripted_agent.terminal("sh", "-c", script), kind="execute")]]
    )
    stdout = io.StringIO()
    output = output_for("text", stdout=stdout, stderr=io.StringIO(), terminal=False, color=False)
    handlers = accord.ClientHandlers(workspace=accord.local_workspace)
    async with connect_transport(agent.transport(), handlers=handlers) as remote:
        session = await remote.new_session(tmp_path)
        output.opened(session, remote)
        async for event in session.prompt("go"):
            output.event(event)
    lines = stdout.getvalue().splitlines()
    assert lines[0].startswith("✓ execute sh (")
    assert lines[1:] == [
        "    … 21 lines before",
        *[f"    line {number}" for number in range(22, 31)],
        "    stays",
        "    exit code 3",
    ]


# -- the rest of a turn ----------------------------------------------------------------------------------


def test_thoughts_are_dim_on_a_terminal_and_marked_on_a_pipe() -> None:
    recorder = on_terminal()
    recorder.send(thought("Let me see.\nThen act."), message("Here."))
    assert "\x1b[2mLet\x1b[0m" in recorder.text
    recorder.send(ENDED)
    assert recorder.screen == ["Let me see.", "Then act.", "", "Here."]
    piped = on_pipe()
    piped.send(thought("Let me see.\nThen act."), message("Here."), ENDED)
    assert piped.text == "· Let me see.\n· Then act.\n\nHere.\n"


def test_a_plan_is_shown_again_only_when_it_changes() -> None:
    recorder = on_pipe()
    recorder.send(plan(("Read", "completed"), ("Fix", "in_progress"), ("Test", "pending")))
    recorder.send(plan(("Read", "completed"), ("Fix", "in_progress"), ("Test", "pending")))
    assert recorder.text == "☑ Read\n☐ Fix (in progress)\n☐ Test\n"
    recorder.send(plan(("Read", "completed")))
    assert recorder.text.endswith("\n\n☑ Read\n")


def test_other_events_are_one_line_without_repetition() -> None:
    recorder = on_pipe()
    option = SessionConfigBoolean(id="web", name="Web search", current_value=True)
    recorder.send(
        Notice(severity="warning", title="Careful", description="two\nlines"),
        CompactionUpdate(compaction_id="c", status="in_progress"),
        CompactionUpdate(compaction_id="c", status="in_progress"),
        CompactionUpdate(compaction_id="c", status="failed", error="no room"),
        SubagentUpdate(session_id="s", title="Scout", state=RunningStateUpdate()),
        SubagentUpdate(session_id="s", description="looks around"),
        ModeChanged("plan"),
        ModeChanged("plan"),
        ConfigOptionUpdate(config_options=[option]),
        ConfigOptionUpdate(config_options=[option]),
        AgentEnded(Crashed("it is gone", exit_code=7, stderr="oops")),
        AgentRestarted(1),
        SessionLost("s", "it cannot load"),
        TerminalPrinted("t", "nothing of this"),
    )
    assert recorder.text.splitlines() == [
        "! warning: Careful: two lines",
        "· compacting the context",
        "· the context could not be compacted: no room",
        "· sub-agent Scout: running",
        "· mode: plan",
        "· Web search: on",
        "✗ the agent ended unexpectedly (exit code 7)",
        "· the agent was restarted (attempt 1)",
        "✗ the session is lost: it cannot load",
    ]


def test_a_rejection_is_shown_without_counting_its_wait() -> None:
    recorder = on_pipe()
    options = [PermissionOption("y", "Allow", "allow_once"), PermissionOption("n", "Reject", "reject_once")]
    recorder.send(
        PermissionAsked("1", options, ToolCallUpdate("1", title="rm x", kind="delete")),
        PermissionAnswered("1", options[1]),
        call(status="failed"),
        PermissionAsked("2", options, ToolCallUpdate("2", title="ls")),
        PermissionAnswered("2", options[0]),
        PermissionAsked("3", options, ToolCallUpdate("3", title="cat")),
        PermissionAnswered("3"),
    )
    assert recorder.text.splitlines() == [
        "⊘ not allowed: rm x (Reject)",
        "✗ delete rm x (failed, 0.0 s)",
        "⊘ not allowed: cat (not answered)",
    ]


def test_a_replay_is_not_shown_and_a_complete_message_is() -> None:
    recorder = on_pipe()
    recorder.send(
        ReplayStarted(),
        message("old"),
        ReplayEnded(),
        MessageChanged("agent", content=[TextContent(text="new")]),
    )
    assert recorder.text == "new\n"


def test_messages_are_separated_by_an_empty_line() -> None:
    recorder = on_pipe()
    recorder.send(message("One.", "1"), message(" Still one.", "1"), message("Two.", "2"), ENDED)
    assert recorder.text == "One. Still one.\n\nTwo.\n"


# -- live lines ------------------------------------------------------------------------------------------


async def test_a_silent_agent_shows_a_progress_line_until_the_next_text() -> None:
    recorder = on_terminal()
    recorder.send(TurnStarted(), message("Well"))
    await recorder.clock.advance(3.3)
    assert recorder.screen == ["Well", f"{recorder.screen[1][0]} working 3 s"]
    recorder.send(message(", yes."), ENDED)
    assert recorder.screen == ["Well, yes."]


async def test_live_lines_are_drawn_at_most_four_times_a_second() -> None:
    recorder = on_terminal()
    recorder.send(TurnStarted())
    writes: list[str] = []
    write = recorder.stdout.write

    def counted(text: str, /) -> int:
        writes.append(text)
        return write(text)

    recorder.stdout.write = counted  # type: ignore[method-assign]
    await recorder.clock.advance(10)
    assert len(writes) <= 40


async def test_live_lines_are_hidden_during_a_question() -> None:
    recorder = on_terminal()
    recorder.send(TurnStarted(), message("half a line"), call(title="Ask me", status="pending"))
    await recorder.clock.advance(1)
    assert len(recorder.screen) == 2
    with recorder.output.question():
        assert recorder.screen == ["half a line"]
        recorder.stdout.write("Allow? y\n")
        await recorder.clock.advance(5)
        assert recorder.screen == ["half a line", "Allow? y"]
    await recorder.clock.advance(1)
    assert "Ask me" in recorder.screen[-1]


async def test_a_note_goes_to_stderr_on_its_own_line() -> None:
    recorder = on_terminal()
    recorder.send(TurnStarted(), message("half a"), call(title="Work", status="in_progress"))
    await recorder.clock.advance(1)
    recorder.output.note("refused: \x1b[31mrm\nx")
    assert recorder.stderr.getvalue() == "accord run: refused: rm x\n"
    assert recorder.screen == ["half a"]
    assert recorder.stdout.screen.cursor.x == 0  # type: ignore[attr-defined]


async def test_cancelling_shows_a_progress_line() -> None:
    recorder = on_terminal()
    recorder.send(TurnStarted(), TurnCancelling())
    await recorder.clock.advance(2)
    assert recorder.screen == [f"{recorder.screen[0][0]} cancelling 2 s"]
    recorder.output.finished(TurnEnded("cancelled", "cancelled"), None, 130)
    assert recorder.screen == []
    await recorder.clock.advance(5)
    assert recorder.screen == []
    assert recorder.clock.waiting == 0


async def test_live_lines_are_never_wrapped() -> None:
    recorder = on_terminal(24)
    recorder.send(TurnStarted(), call(title="日本語" * 20, kind="search", status="in_progress"))
    await recorder.clock.advance(1)
    assert len(recorder.screen) == 1
    recorder.send(call(title="x", status="completed"))
    assert recorder.screen == ["✓ search x (1.0 s)"]


# -- the end ---------------------------------------------------------------------------------------------


async def test_the_last_line_shows_tokens_context_and_cost(tmp_path: Path) -> None:
    agent = ScriptedAgent([[scripted_agent.say("Hi.")]])
    stdout = Terminal(200)
    output = output_for(
        "text", stdout=stdout, stderr=io.StringIO(), terminal=True, width=200, clock=FakeClock()
    )
    async with connect_transport(agent.transport()) as remote:
        session = await remote.new_session(tmp_path)
        output.opened(session, remote)
        session.state.apply(UsageUpdate(used=50_000, size=200_000, cost=Cost(0.25, "USD")))
        usage = Usage(total_tokens=1234, input_tokens=1000, output_tokens=234, thought_tokens=UNSET)
        output.finished(TurnEnded("max_tokens", "max_tokens", usage), None, 1)
    (line,) = stdout.shown
    assert line.startswith("stopped: the token limit was reached · 0.0 s · 1,234 tokens")
    assert "· 1,234 tokens (1,000 in, 234 out) · context 25 % of 200,000 · 0.25 USD · session " in line


async def test_the_last_line_is_wrapped_between_its_parts(tmp_path: Path) -> None:
    agent = ScriptedAgent()
    stdout = Terminal(50)
    output = output_for(
        "text", stdout=stdout, stderr=io.StringIO(), terminal=True, width=50, clock=FakeClock()
    )
    async with connect_transport(agent.transport()) as remote:
        session = await remote.new_session(tmp_path)
        output.opened(session, remote)
        path = str(tmp_path)
        where = [ToolCallLocation(path=path), ToolCallLocation(path=f"{path}/src/a.py", line=3)]
        output.event(session.state.apply(call(title="List .", status="completed", locations=where)))
        output.finished(ENDED, None, 0)
    assert stdout.shown[0].startswith("✓ List .  src/a.py:3 (0.0 s)")
    assert stdout.shown[2] == "done · 0.0 s"
    assert stdout.shown[3] == f"session {session.id}"


def test_the_error_goes_to_stderr_without_escape_sequences() -> None:
    for format in ("text", "quiet", "json"):
        recorder = on_pipe(format)
        recorder.output.finished(None, Crashed("it died", exit_code=3, stderr="\x1b[31mboom\x1b[0m\nlast"), 3)
        assert recorder.stderr.getvalue() == "accord run: it died; its last stderr lines:\nboom\nlast\n"
    recorder = on_pipe()
    recorder.output.finished(TurnEnded(), RpcError("no such model", {"a": 1}), 1)
    assert recorder.stderr.getvalue() == "accord run: no such model (a: 1) [-32603]\n"


@pytest.mark.parametrize(
    ("terminal", "environment", "color"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"FORCE_COLOR": "0"}, False),
        (True, {"TERM": "dumb"}, False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_color_follows_the_terminal_and_the_environment(
    terminal: bool, environment: dict[str, str], color: bool
) -> None:
    assert wants_color(terminal, environment) is color


def test_without_colors_the_markdown_marks_are_kept() -> None:
    recorder = on_terminal(color=False)
    recorder.send(message("# Title\n**bold**"), thought("hm"), call(title="x", status="completed"), ENDED)
    assert recorder.text == "# Title\n**bold**\n\n· hm\n\n✓ x (0.0 s)\n"


async def test_live_lines_without_colors_keep_the_text() -> None:
    recorder = on_terminal(30, color=False)
    recorder.send(TurnStarted(), thought("A thought that is longer than a line\n\nand go"))
    await recorder.clock.advance(1)
    lines = ["· A thought that is longer", "· than a line", "·", "· and go"]
    assert recorder.screen == [*lines, f"{recorder.screen[-1][0]} working 1 s"]
    recorder.send(thought("es on."), ENDED)
    assert recorder.screen == [*lines[:3], "· and goes on."]


def test_the_width_is_read_again_after_a_resize() -> None:
    master, slave = os.openpty()
    with open(master, "rb"), open(slave, "w") as stream:
        size = OutputSize(stream)
        for columns in (100, 42):
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
            assert (size.columns, size.lines) == (columns, 30)
        assert OutputSize(stream, 3).columns == 20  # the minimum width


def test_symbols_fit_the_encoding() -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    output = output_for("text", stdout=stdout, stderr=io.StringIO(), terminal=False, color=False)
    recorder = OutputRecorder(output, io.StringIO(), io.StringIO(), None)  # type: ignore[arg-type]
    recorder.send(call(title="x", status="completed"))
    assert stdout.buffer.getvalue() == b"+ x (0.0 s)\n"  # type: ignore[attr-defined]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="'xml'; use one of: text, json, quiet"):
        on_pipe("xml")


def test_a_pipe_gets_complete_lines_and_delays_empty_ones() -> None:
    recorder = on_pipe()
    for piece, expected in (
        ("\n\none", "one"),
        ("\n", "one\n"),
        ("\n\n", "one\n"),
        ("two\n\n", "one\n\n\ntwo\n"),
        ("three", "one\n\n\ntwo\n\nthree"),
    ):
        recorder.send(message(piece))
        assert recorder.text == expected
    recorder.output.note("by the way")
    recorder.send(message("four\n\n"))
    recorder.send(ENDED)
    assert recorder.text == "one\n\n\ntwo\n\nthree\nfour\n"


def test_every_line_of_a_thought_on_a_pipe_is_marked() -> None:
    recorder = on_pipe()
    recorder.send(thought("one\n"))
    assert recorder.text == "· one\n"
    recorder.send(thought("\ntwo"), thought(" three\nfour"))
    assert recorder.text == "· one\n· \n· two three\n· four"
