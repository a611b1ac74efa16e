"""`accord trace show` and `accord trace stats`, also for damaged recordings."""

import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.accord_command import run_accord
from tests.requirements import need_chromium
from tests.trace.trace_files import TraceBuilder

from accord.trace.trace_format import DamagedLine, TraceEntry, parse_line
from accord.trace.trace_reader import read_lines, read_runs

TRACE = [sys.executable, "-m", "accord.cli", "trace"]


def trace(*words: str | Path, **more: Any) -> "subprocess.CompletedProcess[str]":
    return run_accord("trace", *words, **more)


def turn() -> TraceBuilder:
    builder = TraceBuilder().opened("session-1", client={"fs": {"readTextFile": True}})
    prompt = builder.prompt("session-1", "Tidy up, please")
    builder.update(
        "session-1", 0.5, sessionUpdate="tool_call", toolCallId="t1", title="Read notes", kind="read"
    )
    read = builder.call(
        "agent", "fs/read_text_file", {"sessionId": "session-1", "path": "/project/notes"}, id="r1"
    )
    builder.answer("client", read, {"content": "b\na\n"}, after=0.25)
    builder.say("session-1", "All ", 0.5).say("session-1", "done.", 0.5)
    builder.answer("agent", prompt, {"stopReason": "end_turn"})
    return builder.note("closed", "client").note("closed", "agent").note("exit", code=0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return turn().write(tmp_path / "trace.jsonl")


def test_show_prints_the_timeline(file: Path):
    run = trace("show", file)
    assert (run.returncode, run.stderr) == (0, "")
    lines = [re.sub(r" {2,}", "  ", line.strip()) for line in run.stdout.splitlines()]
    assert lines[0].endswith("· agent --acp")
    assert lines[1:] == [
        f"1.000  →  initialize #1  {size_of(file, 0)}  version 1",
        f"2.000  ←  initialize = #1  1.00 s  {size_of(file, 1)}  version 1",
        f"3.000  →  session/new #2  {size_of(file, 2)}  in /project",
        f"4.000  ←  session/new = #2  1.00 s  {size_of(file, 3)}  [sion-1] session-1",
        f'5.000  →  session/prompt #3  {size_of(file, 4)}  [sion-1] "Tidy up, please"',
        f"5.500  ←  session/update  {size_of(file, 5)}  [sion-1] tool_call t1 · Read notes · read",
        f"6.500  ←  fs/read_text_file #r1  {size_of(file, 6)}  [sion-1] /project/notes",
        f'6.750  →  fs/read_text_file = #r1  250 ms  {size_of(file, 7)}  [sion-1] content "b\\na\\n"',
        f'7.250  ←  session/update  {size_of(file, 8)}  [sion-1] agent_message_chunk "All "',
        f"7.750  ←  session/update  {size_of(file, 9)}  [sion-1] agent_message_chunk done.",
        f"8.750  ←  session/prompt = #3  3.75 s  {size_of(file, 10)}  [sion-1] end_turn",
        "9.750  ×  closed  the client closed its output",
        "10.750  ×  closed  the agent closed its output",
        "11.750  ×  exit  the agent exited with code 0",
    ]


def size_of(file: Path, place: int) -> str:
    return f"{read_runs(str(file))[0].entries[place].size} B"


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (["--method", "session/*"], [3, 4, 5, 6, 9, 10, 11]),
        (["--method", "initialize", "--method", "fs/*"], [1, 2, 7, 8]),
        (["--session", "session-1", "--from", "client"], [5, 8]),
        (["--session", "sess"], [4, 5, 6, 7, 8, 9, 10, 11]),
        (["--session", "sion-1"], [4, 5, 6, 7, 8, 9, 10, 11]),
        (["--session", "other"], []),
        (["--since", "7.75", "--until", "9"], [10, 11]),
        (["--since", "10s"], [13, 14]),
        (["--until", "1500ms"], [1]),
        (["--since", "2026-11-16T10:00:10Z"], [13, 14]),
        (["--since", "2026-11-17"], []),
        (["--from", "agent", "--until", "5m"], [2, 4, 6, 7, 9, 10, 11, 13]),
        (["--faults"], []),
        (["--run", "1", "--method", "initialize"], [1, 2]),
    ],
)
def test_show_filters_steps(words: list[str], steps: list[int], file: Path):
    run = trace("show", file, "--json", *words)
    assert run.returncode == 0
    assert [json.loads(line)["step"] for line in run.stdout.splitlines()] == steps


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--method", "nope"],
            "no nope; the methods are initialize, session/new, session/prompt, "
            "session/update, fs/read_text_file",
        ),
        (["--session", "other"], "no other; the sessions are session-1"),
        (["--faults"], "none of 14 messages matches: none breaks a rule"),
        (["--since", "1h"], "none of 14 messages matches"),
        (["--method", "initialize", "--session", "session-1"], "none of 14 messages matches"),
        (["--run", "7"], "the file has no run 7; it has 1"),
    ],
)
@pytest.mark.parametrize("how", [["show"], ["show", "--json"], ["stats"], ["show", "--html", "-"]])
def test_a_filter_without_matches_lists_the_valid_values(
    how: list[str], words: list[str], sentence: str, file: Path
):
    run = trace(*how, file, *words)
    assert (run.returncode, run.stderr.count("\n")) == (0, 1)
    assert run.stderr.startswith("accord trace: ")
    assert run.stderr.endswith(f"{sentence}\n")


def test_an_unanswered_request_is_shown_in_every_format(tmp_path: Path):
    builder = TraceBuilder().opened("s1")
    builder.prompt("s1", "go")
    file = builder.write(tmp_path / "t")
    text = "session/prompt was never answered (rule framing.agent-one-answer, 11)"
    assert text in trace("show", file).stdout
    assert text in trace("show", file, "--html", "-").stdout
    step = json.loads(trace("show", file, "--json", "--faults").stdout)
    assert step == {
        "run": 1,
        "step": 5,
        "t": 5.0,
        "from": "client",
        "method": "session/prompt",
        "id": 3,
        "session": "s1",
        "kind": "unanswered",
        "faults": [
            {"rule": 11, "slug": "framing.agent-one-answer", "text": "session/prompt was never answered"}
        ],
    }


def test_a_time_of_day_is_in_the_local_time_zone(file: Path):
    run = trace("show", file, "--json", "--since", "12:00:10", env={**os.environ, "TZ": "ABC-2"})
    assert [json.loads(line)["step"] for line in run.stdout.splitlines()] == [13, 14]
    run = trace("show", file, "--json", "--since", "10:00:10", env={**os.environ, "TZ": "UTC"})
    assert [json.loads(line)["step"] for line in run.stdout.splitlines()] == [13, 14]


def test_show_json_prints_one_object_per_step(file: Path):
    steps = [json.loads(line) for line in trace("show", file, "--json").stdout.splitlines()]
    assert steps[7] == {
        "run": 1,
        "step": 8,
        "t": 6.75,
        "from": "client",
        "kind": "answer",
        "method": "fs/read_text_file",
        "id": "r1",
        "session": "session-1",
        "size": steps[7]["size"],
        "ms": 250.0,
        "message": {"jsonrpc": "2.0", "id": "r1", "result": {"content": "b\na\n"}},
    }


def test_control_characters_in_a_recording_are_escaped(tmp_path: Path):
    builder = TraceBuilder(command=("agent", "\x1b[2J")).opened("s\x1b]0;evil\x07")
    builder.say("s\x1b]0;evil\x07", "\x1b[31mred\x07\u202egnp.exe\x9b2J\nnext line")
    builder.frame("agent", b"\x1b[2Jnoise\x1b]52;c;aGk=\x07")
    builder.note("stderr", "stderr", data=b"\x1b[31mwarning\x1b[0m\r", size=9)
    builder.call("client", "_x/\x1b[1m", {"a\x1b": "b"}, id="\x1b[5m")
    file = builder.write(tmp_path / "t")
    for words in (["show"], ["show", "--full"], ["stats"], ["show", "--width", "0"], ["show", "--html", "-"]):
        out = trace(words[0], file, *words[1:]).stdout
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)
    assert "\\u001b[31mred\\u0007\\u202egnp.exe\\u009b2J" in trace("show", file, "--width", "0").stdout


def test_colors_are_used_only_on_a_terminal(file: Path):
    assert "\x1b" not in trace("show", file).stdout
    leader, follower = pty.openpty()
    with subprocess.Popen([*TRACE, "show", str(file)], stdout=follower, env={**os.environ, "TERM": "xterm"}):
        os.close(follower)
        shown = read_all(leader)
    assert "\x1b[36m" in shown
    leader, follower = pty.openpty()
    with subprocess.Popen([*TRACE, "show", str(file)], stdout=follower, env={**os.environ, "NO_COLOR": "1"}):
        os.close(follower)
        assert "\x1b" not in read_all(leader)


def read_all(leader: int) -> str:
    data = b""
    try:
        while piece := os.read(leader, 65536):
            data += piece
    except OSError:
        pass  # a closed terminal raises this
    finally:
        os.close(leader)
    return data.decode()


def test_arrows_are_ascii_when_the_output_encoding_is(file: Path):
    run = trace("show", file, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert run.returncode == 0
    assert run.stdout.isascii()
    assert "->  initialize #1" in run.stdout


def test_lines_are_cut_to_the_width(tmp_path: Path):
    builder = TraceBuilder().opened("s")
    builder.say("s", "word " * 100)
    file = builder.write(tmp_path / "t")
    assert max(map(len, trace("show", file, "--width", "100").stdout.splitlines())) == 100
    assert "word " * 100 in trace("show", file, "--full", "--width", "0").stdout


def test_rule_violations_are_marked(tmp_path: Path):
    builder = TraceBuilder()
    builder.call("client", "session/new", {"cwd": "/p", "mcpServers": []})
    builder.opened("s1")
    builder.frame("agent", b"Welcome to the agent!")
    builder.frame("agent", b'[{"jsonrpc":"2.0"}]')
    builder.frame("agent", {"id": 99, "result": {}})
    builder.call("agent", "fs/read_text_file", {"sessionId": "s1", "path": "/p/a"}, id="f")
    builder.notify("agent", "custom/thing", {})
    builder.update("s1", sessionUpdate="tool_call_update", toolCallId="never", status="completed")
    prompt = builder.prompt("s1", "hi")
    builder.prompt("s1", "again")
    builder.notify("client", "session/cancel", {"sessionId": "s1"})
    ask = builder.call(
        "agent",
        "session/request_permission",
        {
            "sessionId": "s1",
            "toolCall": {"toolCallId": "never"},
            "options": [{"optionId": "a", "name": "A", "kind": "allow_once"}],
        },
        id="p",
    )
    builder.answer("client", ask, {"outcome": {"outcome": "selected", "optionId": "zzz"}})
    builder.answer("agent", prompt, {"stopReason": "end_turn", "extra": 1})
    builder.answer("agent", prompt, {"stopReason": "end_turn"})
    file = builder.write(tmp_path / "t")
    shown = trace("show", file, "--width", "0").stdout
    faults = [line.strip() for line in shown.splitlines() if re.match(r"\s+(\d+\.\d+\s+)?!", line)]
    assert [re.sub(r"^(\d+\.\d+\s+)?!\s+", "", fault) for fault in faults] == [
        "the first call is session/new (rule initialize.first, 58)",
        "a line is not a message (rule framing.agent-only-messages, 1)",
        "an array of messages (rule framing.agent-no-batch, 29)",
        "an answer to the id 99, which no request has (rule framing.agent-returns-id, 9)",
        "the client does not offer clientCapabilities.fs.readTextFile "
        "(rule initialize.missing-client-capability, 68)",
        "custom/thing is not a notification of the protocol (rule extension.agent-known-methods, 44)",
        "an update of never, which was never announced (rule tool-call.announced, 181)",
        "a prompt while a turn is running (rule cancel.waits-before-next-prompt, 171)",
        "the option 'zzz' was not offered (rule permission.offered-option, 197)",
        "session/prompt: $.extra: unknown member (rule extension.agent-no-custom-members, 42)",
        "a canceled turn ends with 'end_turn' (rule cancel.stop-reason, 161)",
        "2 answers to one request (rule framing.agent-one-answer, 11)",
        "session/new was never answered (rule framing.agent-one-answer, 11)",
        "fs/read_text_file was never answered (rule framing.client-one-answer, 12)",
        "session/prompt was never answered (rule framing.agent-one-answer, 11)",
    ]
    only = [json.loads(line) for line in trace("show", file, "--json", "--faults").stdout.splitlines()]
    assert len(only) == 14
    assert only[1]["faults"] == [
        {"rule": 1, "slug": "framing.agent-only-messages", "text": "a line is not a message"}
    ]


def test_a_cancelled_turn_with_another_stop_reason_is_marked(tmp_path: Path):
    builder = TraceBuilder().opened("s1")
    prompt = builder.prompt("s1", "hi")
    builder.notify("client", "session/cancel", {"sessionId": "s1"})
    builder.answer("agent", prompt, {"stopReason": "end_turn"})
    assert "! a canceled turn ends with 'end_turn' (rule cancel.stop-reason, 161)" in re.sub(
        " +", " ", trace("show", builder.write(tmp_path / "t")).stdout
    )


def test_the_html_page_is_self_contained_and_escapes_messages(tmp_path: Path):
    builder = TraceBuilder().opened("s1")
    builder.say("s1", "</script><script>alert(1)</script><img src=x onerror=alert(1)>")
    builder.call("client", '_x"><b>', {"sessionId": '"><i>'}, id="<u>")
    file = builder.write(tmp_path / "t")
    target = tmp_path / "page.html"
    assert trace("show", file, "--html", target).returncode == 0
    html_page = target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert html_page.count("<script>") == 1
    assert not re.search(r"<(img|b|i|u)[ >]", html_page)
    assert not re.search(r"""(src|href)=["']?http""", html_page)
    assert "agent_message_chunk" in html_page
    assert html_page.count('<div class="step') == 6
    assert trace("show", file, "--html", target).returncode == 0  # an existing page may be overwritten
    refused = trace("show", file, "--html", file)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "is not an HTML page" in refused.stderr


@pytest.mark.parametrize(
    ("fragment", "count"),
    [
        ("", 14),
        ("#method=session/*", 7),
        ("#method=session/update&text=done.", 1),
        ("#session=sion-1&from=client", 2),
        ("#faults=1", 0),
    ],
)
def test_the_html_page_filters_in_a_browser(fragment: str, count: int, file: Path, tmp_path: Path):
    chromium = need_chromium()
    target = tmp_path / "page.html"
    assert trace("show", file, "--html", target).returncode == 0
    words = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
    ]
    shown = subprocess.run(
        [chromium, *words, f"{target.as_uri()}{fragment}"], capture_output=True, text=True, check=False
    ).stdout
    assert f">{count} of 14</output>" in shown
    rows = re.findall(r'<div class="step [^>]*>', shown)
    assert (len(rows), sum(" hidden=" not in row for row in rows)) == (14, count)


def test_follow_shows_lines_that_are_written_later(file: Path):
    with subprocess.Popen(
        [*TRACE, "show", "--follow", "--json", str(file)], stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        first = [json.loads(following.stdout.readline())["step"] for _ in range(14)]
        with file.open("ab") as more:
            half = b'{"run":"bbbbbb","t":1.0,"from":"agent","size":2,"fra'
            more.write(b'{"accordTrace":1,"run":"bbbbbb","started":"x"}\n' + half)
            more.flush()
            more.write(b'me":{}}\n')
        second = json.loads(following.stdout.readline())
        following.send_signal(signal.SIGINT)
    assert first == list(range(1, 15))
    assert (second["run"], second["message"]) == (2, {})
    assert following.returncode == 130


def test_stats_prints_counts_and_times(file: Path):
    run = trace("stats", file, "--json")
    figures = json.loads(run.stdout)
    assert (figures["runs"], figures["sessions"], figures["seconds"]) == (1, 1, 11.75)
    assert figures["updates"] == {"tool_call": 1, "agent_message_chunk": 2}
    (turned,) = figures["turns"]
    assert turned == {
        "run": 1,
        "session": "session-1",
        "began": 5.0,
        "seconds": 3.75,
        "first_update": 0.5,
        "longest_gap": 1.75,
        "updates": 3,
        "chunks": 2,
        "characters": 9,
        "chunks_per_second": 2.0,
        "ended": "end_turn",
    }
    by_method = {one["method"]: one for one in figures["methods"]}
    assert by_method["session/prompt"]["messages"] == 2
    assert by_method["session/prompt"]["answers"] == {"p50": 3.75, "p95": 3.75, "max": 3.75}
    assert by_method["fs/read_text_file"]["from"] == "agent"
    sizes = [entry.size for entry in read_runs(str(file))[0].entries if entry.kind == "frame"]
    assert sum(one["bytes"] for one in figures["methods"]) == sum(sizes)
    text = trace("stats", file).stdout
    assert "1 run, 1 session, 11.75 s" in text
    assert re.search(r"1  ession-1 +3\.75 s +500 ms +1\.75 s +3 +2 +2\.0  end_turn", text)


def test_stats_include_turns_that_did_not_end(tmp_path: Path):
    builder = TraceBuilder().opened("s1")
    builder.prompt("s1", "hi")
    builder.error("agent", 2, -1, "late")
    file = builder.write(tmp_path / "t")
    figures = json.loads(trace("stats", file, "--json").stdout)
    assert figures["turns"][0]["ended"] is None
    assert {one["method"]: one["unanswered"] for one in figures["methods"]}["session/prompt"] == 1
    assert "not ended" in trace("stats", file).stdout


def test_a_truncated_recording_is_read_up_to_the_cut(file: Path, tmp_path: Path):
    whole = file.read_bytes()
    everything = [found for line in whole.splitlines() if (found := parse_line(line)) is not None]
    cut = tmp_path / "cut"
    for length in range(len(whole.splitlines()[0]) + 1, len(whole), 37):
        cut.write_bytes(whole[:length])
        found = list(read_lines(str(cut)))
        read = [one for one in found if not isinstance(one, DamagedLine)]
        assert read == everything[: len(read)]
        assert len(read) >= whole[:length].count(b"\n")
        assert all(not one.complete for one in found if isinstance(one, DamagedLine))
    run = trace("show", cut)
    assert run.returncode == 0
    assert run.stderr == "accord trace: the last line of the recording is cut off\n"


def test_a_damaged_line_is_reported_and_skipped(file: Path):
    lines = file.read_bytes().splitlines(keepends=True)
    lines[3] = b"\x00\x00 torn \xff\n"
    file.write_bytes(b"".join(lines))
    run = trace("show", file)
    assert run.returncode == 0
    assert "1 line of the file could not be read" in run.stderr
    assert "session/prompt" in run.stdout


def test_unknown_members_and_kinds_are_ignored(file: Path):
    with file.open("ab") as more:
        more.write(b'{"run":"aaaaaa","t":99,"weather":"fine"}\n')
        more.write(b'{"run":"aaaaaa","t":99,"from":"client","size":2,"frame":{},"weather":"fine"}\n')
    found = list(read_lines(str(file)))
    assert not any(isinstance(one, DamagedLine) for one in found)
    assert isinstance(found[-1], TraceEntry)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["show", "{tmp}/missing"], "missing (No such file or directory)"),
        (["show", "{tmp}"], "(Is a directory)"),
        (["show", "{tmp}/empty"], "empty is empty; nothing was recorded"),
        (["show", "{tmp}/other"], "other is not a recording"),
        (["show", "{tmp}/newer"], "a newer Accord (format 7, this one knows 1): update Accord"),
        (["show", "{tmp}/t", "--since", "tomorrow"], "'tomorrow' is not a time"),
        (
            ["show", "{tmp}/t", "--html", "{tmp}/no/where.html"],
            "(No such file or directory)",
        ),
        (["show", "{tmp}/t", "--html", "x", "--json"], "--html excludes --json"),
        (["show", "{tmp}/t", "--from", "nobody"], "invalid choice"),
        (["show"], "no recordings in"),
        (["stats", "{tmp}/missing"], "cannot read"),
        (["dance"], "unknown subcommand 'dance'; use one of: record, show, replay, stats"),
        (["replay", "{tmp}/t", "--run", "9"], "has no run 9; it has 1"),
        (["replay", "{tmp}/t", "--as-client"], "missing agent command for --as-client"),
        (["replay", "{tmp}/t", "--", "agent"], "a command after `--` needs --as-client"),
        (["replay", "{tmp}/t", "--as-client", "--cwd", "{tmp}/no", "--", "agent"], "is not a folder"),
        (["replay", "{tmp}/t", "--speed", "-1"], "numbers above 0"),
    ],
)
def test_a_usage_error_is_one_line(words: list[str], sentence: str, tmp_path: Path):
    turn().write(tmp_path / "t")
    (tmp_path / "empty").touch()
    (tmp_path / "other").write_text("# Notes\n")
    (tmp_path / "newer").write_text('{"accordTrace":7,"run":"x","started":"y"}\n')
    env = {**os.environ, "ACCORD_HOME": str(tmp_path / "home")}
    run = trace(*(word.format(tmp=tmp_path) for word in words), env=env)
    assert (run.returncode, run.stdout) == (2, "")
    assert sentence in run.stderr
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith("accord trace: ")


def test_every_trace_command_has_help():
    assert trace().returncode == 2
    for words in (
        ["--help"],
        ["record", "--help"],
        ["show", "--help"],
        ["replay", "--help"],
        ["stats", "--help"],
    ):
        run = trace(*words)
        assert run.returncode == 0
        assert "usage: accord trace" in run.stdout


def test_a_file_can_hold_several_runs(tmp_path: Path):
    file = turn().write(tmp_path / "t")
    TraceBuilder("bbbbbb", command=("second",)).opened("s9").write(file)
    shown = trace("show", file).stdout
    assert re.findall(r"^run (\d) .* · (.*)$", shown, re.MULTILINE) == [("1", "agent --acp"), ("2", "second")]
    only = [json.loads(line) for line in trace("show", file, "--run", "2", "--json").stdout.splitlines()]
    assert {step["run"] for step in only} == {2}
    assert json.loads(trace("stats", file, "--json").stdout)["runs"] == 2
    assert "the file has no run 5" in trace("show", file, "--run", "5").stderr


def test_show_exits_quietly_when_its_reader_closes_the_pipe(file: Path):
    with subprocess.Popen(
        [*TRACE, "show", str(file), "--full"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as showing:
        assert showing.stdout is not None
        assert showing.stderr is not None
        showing.stdout.close()
        assert showing.stderr.read() == b""
    assert showing.returncode == 0
