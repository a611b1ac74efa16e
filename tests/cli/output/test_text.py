"""The turn for people: on an emulated terminal, and on a pipe."""

import fcntl
import io
import os
import struct
import termios
from pathlib import Path

import pytest
from tests.cli.output.screens import Show, Terminal, call, on_pipe, on_terminal, said, thought

import accord
from accord.cli.output import output_for
from accord.cli.output.style import wants_colour
from accord.cli.output.terminalsize import TerminalSize
from accord.client import AgentEnded, AgentRestarted, SessionLost, TerminalPrinted
from accord.client.connect import connect_transport
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
from accord.testing import steps
from accord.testing.agents import ScriptedAgent
from accord.testing.clock import FakeClock

ENDED = TurnEnded("end_turn", "end_turn")


def plan(*entries: tuple[str, str]) -> PlanChanged:
    items = PlanItems(
        plan_id="",
        entries=[PlanEntry(content=text, priority="medium", status=status) for text, status in entries],  # type: ignore[arg-type]
    )
    return PlanChanged("", items)


# -- tool calls -------------------------------------------------------------------------------------------------


async def test_a_call_is_a_live_line_until_it_is_done() -> None:
    show = on_terminal()
    show.tell(TurnStarted(), call(title="Read parser.py", kind="read", status="in_progress"))
    await show.clock.advance(2.25)
    assert show.screen == [f"{show.screen[0][0]} read Read parser.py (2.2 s)"]
    assert show.screen[0][0] in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    show.tell(call(status="completed"))
    assert show.screen == ["✓ read Read parser.py (2.2 s)"]


async def test_text_goes_on_where_it_was_after_live_lines_were_below_it() -> None:
    show = on_terminal(30)
    show.tell(
        TurnStarted(), call(title="Look", status="in_progress"), said("I look into the parser now and t")
    )
    await show.clock.advance(1)
    assert show.screen == ["I look into the parser now", "and t", f"{show.screen[2][0]} Look (1.0 s)"]
    show.tell(said("hen on."), call(status="completed"), ENDED)
    assert show.screen == ["I look into the parser now", "and then on.", "", "✓ Look (1.0 s)"]


def test_what_is_said_before_and_after_a_call_begins_is_apart() -> None:
    show = on_pipe()
    show.tell(said("Let me look."), call(title="Look", status="in_progress"), said("Meanwhile"), ENDED)
    assert show.text == "Let me look.\n\nMeanwhile\n\n? Look (ended without a result, 0.0 s)\n"


async def test_calls_side_by_side_and_one_that_never_ends() -> None:
    show = on_terminal()
    show.tell(TurnStarted())
    for number in range(8):
        show.tell(call(str(number), title=f"Call {number}", status="in_progress"))
    await show.clock.advance(1)
    assert show.screen[-1] == "and 2 more"
    for number in range(7):
        show.tell(call(str(number), status="failed" if number == 3 else "completed"))
    show.tell(ENDED)
    assert show.screen == [
        *[f"✓ Call {number} (1.0 s)" for number in range(3)],
        "✗ Call 3 (failed, 1.0 s)",
        *[f"✓ Call {number} (1.0 s)" for number in range(4, 7)],
        "? Call 7 (ended without a result, 1.0 s)",
    ]


def test_on_a_pipe_a_call_is_one_line_when_it_is_over() -> None:
    show = on_pipe()
    diff = Diff(path="/repo/a.py", old_text="one\ntwo\n", new_text="one\n2\n")
    show.tell(
        TurnStarted(),
        said("I edit."),
        call(
            title="Edit",
            kind="edit",
            status="pending",
            locations=[ToolCallLocation(path="/repo/a.py", line=2)],
        ),
        call(status="in_progress"),
        call(status="completed", content=[diff]),
        said("Done."),
        ENDED,
    )
    assert show.text == (
        "I edit.\n\n✓ edit Edit  /repo/a.py:2 (0.0 s)\n    /repo/a.py (+1 -1)\n    @@ -1,2 +1,2 @@\n     one\n    -two\n    +2\n\nDone.\n"
    )


def test_a_change_is_coloured_and_bounded() -> None:
    show = on_terminal(60, 100)
    new = "".join(f"line {number}\n" for number in range(200))
    show.tell(call(title="Write", status="completed", content=[Diff(path="new.txt", new_text=new)]))
    assert show.screen[:3] == ["✓ Write (0.0 s)", "    new.txt (new, +200 -0)", "    +line 0"]
    assert show.screen[-1] == "    … 140 more lines"
    assert show.stdout.screen.buffer[2][4].fg == "green"  # type: ignore[attr-defined]


def test_what_came_of_a_call_is_shown_also_when_it_comes_late() -> None:
    show = on_pipe()
    text = [Content(content=TextContent(text="```\nout\n```"))]
    show.tell(call(title="make", kind="execute", status="completed"), call(content=text), call(content=text))
    assert show.text == "✓ execute make (0.0 s)\n    out\n"


def test_the_title_of_a_call_cannot_act_on_the_terminal() -> None:
    show = on_pipe()
    show.tell(call(title="ls\x1b[8m; rm -rf /\x1b[0m\r\nsecond \u202eline", status="completed"))
    assert show.text == "✓ ls; rm -rf / second <U+202E>line (0.0 s)\n"


async def test_a_command_shows_the_end_of_what_it_prints(tmp_path: Path) -> None:
    script = "for i in $(seq 1 30); do echo line $i; done; printf 'gone\\rstays\\n'; exit 3"
    agent = ScriptedAgent([[steps.tool("sh", steps.terminal("sh", "-c", script), kind="execute")]])
    stdout = io.StringIO()
    output = output_for("text", stdout=stdout, stderr=io.StringIO(), terminal=False, colour=False)
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


# -- the rest of a turn -----------------------------------------------------------------------------------------


def test_thoughts_are_dim_on_a_terminal_and_marked_on_a_pipe() -> None:
    show = on_terminal()
    show.tell(thought("Let me see.\nThen act."), said("Here."))
    assert "\x1b[2mLet\x1b[0m" in show.text
    show.tell(ENDED)
    assert show.screen == ["Let me see.", "Then act.", "", "Here."]
    piped = on_pipe()
    piped.tell(thought("Let me see.\nThen act."), said("Here."), ENDED)
    assert piped.text == "· Let me see.\n· Then act.\n\nHere.\n"


def test_a_plan_is_shown_again_only_when_it_changed() -> None:
    show = on_pipe()
    show.tell(plan(("Read", "completed"), ("Fix", "in_progress"), ("Test", "pending")))
    show.tell(plan(("Read", "completed"), ("Fix", "in_progress"), ("Test", "pending")))
    assert show.text == "☑ Read\n☐ Fix (in progress)\n☐ Test\n"
    show.tell(plan(("Read", "completed")))
    assert show.text.endswith("\n\n☑ Read\n")


def test_everything_else_is_a_line_and_told_once() -> None:
    show = on_pipe()
    option = SessionConfigBoolean(id="web", name="Web search", current_value=True)
    show.tell(
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
    assert show.text.splitlines() == [
        "! warning: Careful: two lines",
        "· compacting the context",
        "· the context could not be compacted: no room",
        "· sub-agent Scout: running",
        "· mode: plan",
        "· Web search: on",
        "✗ the agent is gone (exit code 7)",
        "· the agent was started again (time 1)",
        "✗ the session is lost: it cannot load",
    ]


def test_a_refusal_is_told_and_its_wait_is_not_the_time_of_the_call() -> None:
    show = on_pipe()
    options = [PermissionOption("y", "Allow", "allow_once"), PermissionOption("n", "Reject", "reject_once")]
    show.tell(
        PermissionAsked("1", options, ToolCallUpdate("1", title="rm x", kind="delete")),
        PermissionAnswered("1", options[1]),
        call(status="failed"),
        PermissionAsked("2", options, ToolCallUpdate("2", title="ls")),
        PermissionAnswered("2", options[0]),
        PermissionAsked("3", options, ToolCallUpdate("3", title="cat")),
        PermissionAnswered("3"),
    )
    assert show.text.splitlines() == [
        "⊘ not allowed: rm x (Reject)",
        "✗ delete rm x (failed, 0.0 s)",
        "⊘ not allowed: cat (not answered)",
    ]


def test_a_replay_is_not_shown_and_a_whole_message_is() -> None:
    show = on_pipe()
    show.tell(
        ReplayStarted(),
        said("old"),
        ReplayEnded(),
        MessageChanged("agent", content=[TextContent(text="new")]),
    )
    assert show.text == "new\n"


def test_messages_are_apart() -> None:
    show = on_pipe()
    show.tell(said("One.", "1"), said(" Still one.", "1"), said("Two.", "2"), ENDED)
    assert show.text == "One. Still one.\n\nTwo.\n"


# -- live lines -------------------------------------------------------------------------------------------------


async def test_silence_is_shown_and_gone_with_the_next_word() -> None:
    show = on_terminal()
    show.tell(TurnStarted(), said("Well"))
    await show.clock.advance(3.3)
    assert show.screen == ["Well", f"{show.screen[1][0]} working 3 s"]
    show.tell(said(", yes."), ENDED)
    assert show.screen == ["Well, yes."]


async def test_nothing_is_drawn_more_often_than_four_times_a_second() -> None:
    show = on_terminal()
    show.tell(TurnStarted())
    writes: list[str] = []
    write = show.stdout.write

    def counted(text: str, /) -> int:
        writes.append(text)
        return write(text)

    show.stdout.write = counted  # type: ignore[method-assign]
    await show.clock.advance(10)
    assert len(writes) <= 40


async def test_live_lines_are_put_away_for_a_question() -> None:
    show = on_terminal()
    show.tell(TurnStarted(), said("half a line"), call(title="Ask me", status="pending"))
    await show.clock.advance(1)
    assert len(show.screen) == 2
    with show.output.question():
        assert show.screen == ["half a line"]
        show.stdout.write("Allow? y\n")
        await show.clock.advance(5)
        assert show.screen == ["half a line", "Allow? y"]
    await show.clock.advance(1)
    assert "Ask me" in show.screen[-1]


async def test_a_note_goes_to_stderr_on_a_line_of_its_own() -> None:
    show = on_terminal()
    show.tell(TurnStarted(), said("half a"), call(title="Work", status="in_progress"))
    await show.clock.advance(1)
    show.output.note("refused: \x1b[31mrm\nx")
    assert show.stderr.getvalue() == "accord run: refused: rm x\n"
    assert show.screen == ["half a"]
    assert show.stdout.screen.cursor.x == 0  # type: ignore[attr-defined]


async def test_cancelling_is_shown() -> None:
    show = on_terminal()
    show.tell(TurnStarted(), TurnCancelling())
    await show.clock.advance(2)
    assert show.screen == [f"{show.screen[0][0]} cancelling 2 s"]
    show.output.finished(TurnEnded("cancelled", "cancelled"), None, 130)
    assert show.screen == []
    await show.clock.advance(5)
    assert show.screen == []
    assert show.clock.waiting == 0


async def test_live_lines_never_wrap() -> None:
    show = on_terminal(24)
    show.tell(TurnStarted(), call(title="日本語" * 20, kind="search", status="in_progress"))
    await show.clock.advance(1)
    assert len(show.screen) == 1
    show.tell(call(title="x", status="completed"))
    assert show.screen == ["✓ search x (1.0 s)"]


# -- the end ----------------------------------------------------------------------------------------------------


async def test_the_last_line_tells_what_it_cost(tmp_path: Path) -> None:
    agent = ScriptedAgent([[steps.say("Hi.")]])
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
    assert line.startswith("stopped: the token limit is reached · 0.0 s · 1,234 tokens")
    assert "· 1,234 tokens (1,000 in, 234 out) · context 25 % of 200,000 · 0.25 USD · session " in line


async def test_the_end_is_broken_between_its_parts(tmp_path: Path) -> None:
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


def test_the_error_is_told_on_stderr_and_cleaned() -> None:
    for format in ("text", "quiet", "json"):
        show = on_pipe(format)
        show.output.finished(None, Crashed("it died", exit_code=3, stderr="\x1b[31mboom\x1b[0m\nlast"), 3)
        assert show.stderr.getvalue() == "accord run: it died; its last words on stderr:\nboom\nlast\n"
    show = on_pipe()
    show.output.finished(TurnEnded(), RpcError("no such model", {"a": 1}), 1)
    assert show.stderr.getvalue() == "accord run: no such model ({'a': 1}) [-32603]\n"


@pytest.mark.parametrize(
    ("terminal", "environment", "colour"),
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
def test_colour_is_the_users_choice(terminal: bool, environment: dict[str, str], colour: bool) -> None:
    assert wants_colour(terminal, environment) is colour


def test_without_colours_nothing_is_coloured_and_the_marks_stay() -> None:
    show = on_terminal(colour=False)
    show.tell(said("# Title\n**bold**"), thought("hm"), call(title="x", status="completed"), ENDED)
    assert show.text == "# Title\n**bold**\n\n· hm\n\n✓ x (0.0 s)\n"


async def test_live_lines_take_nothing_away_without_colours() -> None:
    show = on_terminal(30, colour=False)
    show.tell(TurnStarted(), thought("A thought that is longer than a line\n\nand go"))
    await show.clock.advance(1)
    lines = ["· A thought that is longer", "· than a line", "·", "· and go"]
    assert show.screen == [*lines, f"{show.screen[-1][0]} working 1 s"]
    show.tell(thought("es on."), ENDED)
    assert show.screen == [*lines[:3], "· and goes on."]


def test_the_width_is_asked_again_after_a_resize() -> None:
    master, slave = os.openpty()
    with open(master, "rb"), open(slave, "w") as stream:
        size = TerminalSize(stream)
        for columns in (100, 42):
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
            assert (size.columns, size.lines) == (columns, 30)
        assert TerminalSize(stream, 3).columns == 20  # nobody can write on less


def test_signs_fit_the_encoding() -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    output = output_for("text", stdout=stdout, stderr=io.StringIO(), terminal=False, colour=False)
    show = Show(output, io.StringIO(), io.StringIO(), None)  # type: ignore[arg-type]
    show.tell(call(title="x", status="completed"))
    assert stdout.buffer.getvalue() == b"+ x (0.0 s)\n"  # type: ignore[attr-defined]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="'xml'; there are: text, json, quiet"):
        on_pipe("xml")


def test_on_a_pipe_a_finished_line_is_out_whole_and_empty_lines_wait_for_more() -> None:
    show = on_pipe()
    for piece, seen in (
        ("\n\none", "one"),
        ("\n", "one\n"),
        ("\n\n", "one\n"),
        ("two\n\n", "one\n\n\ntwo\n"),
        ("three", "one\n\n\ntwo\n\nthree"),
    ):
        show.tell(said(piece))
        assert show.text == seen
    show.output.note("by the way")
    show.tell(said("four\n\n"))
    show.tell(ENDED)
    assert show.text == "one\n\n\ntwo\n\nthree\nfour\n"


def test_on_a_pipe_every_line_of_a_thought_has_its_mark_as_soon_as_it_is_there() -> None:
    show = on_pipe()
    show.tell(thought("one\n"))
    assert show.text == "· one\n"
    show.tell(thought("\ntwo"), thought(" three\nfour"))
    assert show.text == "· one\n· \n· two three\n· four"
