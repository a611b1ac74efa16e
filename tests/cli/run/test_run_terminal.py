"""`accord run` on a terminal: permission questions, forms, Ctrl-C."""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run.run_harness import RunHarness, alive, odd_agent
from tests.cli.terminal import Terminal, in_terminal

CTRL_C, CTRL_D = "\x03", "\x04"


@contextmanager
def run(harness: RunHarness, *words: str, **env: str) -> Generator[Terminal]:
    before = words.index("--") if "--" in words else len(words)
    with in_terminal(
        "run",
        "--cwd",
        str(harness.cwd),
        *words[:before],
        "go",
        *words[before:],
        env=harness.env(TERM="xterm", **env),
    ) as terminal:
        yield terminal


def test_without_a_model_one_line_says_so_and_the_script_answers(harness: RunHarness) -> None:
    with run(harness, ACCORD_MODEL="") as terminal:
        terminal.expect("no model is set up")
        assert terminal.end() == 0
    shown = " ".join(terminal.shown.split())
    assert "set a key such as ANTHROPIC_API_KEY, run" in shown
    assert "a fixed script inside Accord" in shown


# -- permissions -----------------------------------------------------------------------------------------


def test_all_options_are_shown_and_none_is_preselected(harness: RunHarness) -> None:
    diff = {"type": "diff", "path": "a.txt", "oldText": "one\n", "newText": "two\n"}
    call = {"title": "Change a.txt", "kind": "edit", "content": [diff]}
    with run(harness, *odd_agent("permission", json.dumps(call))) as terminal:
        terminal.expect("odd asks: Change a.txt [edit]")
        terminal.expect("change a.txt")
        terminal.expect("-one")
        terminal.expect("+two")
        terminal.expect("1  Yes, please")
        terminal.expect("2  Always")
        terminal.expect("3  No, thanks")
        terminal.expect("Choose 1-3: ")
        terminal.type("\r")
        terminal.expect("Choose 1-3: ")
        terminal.type("yes\r")
        terminal.expect("Choose 1-3: ")
        terminal.type("9\r")
        terminal.expect("Choose 1-3: ")
        terminal.type("1\r")
        terminal.expect('"optionId": "yes"')
        assert terminal.end() == 0


def test_output_during_a_question_gets_lines_of_its_own_and_the_prompt_follows(
    harness: RunHarness, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    os.mkfifo(asked)
    with run(harness, *odd_agent("permission-with-news", str(asked)), NO_COLOR="1") as terminal:
        terminal.expect("Choose 1-3: ")
        asked.write_text("")
        terminal.expect("\r\naccord run: ignored non-JSON output from the agent: loading...\r\nChoose 1-3: ")
        terminal.expect("\r\n· Sandbox: ready\r\nChoose 1-3: ")
        terminal.expect("\r\nA line\r\nChoose 1-3: ")
        terminal.type("1\r")
        terminal.expect("1\r\nand a half, then yes\r\n")
        assert terminal.end() == 0


@pytest.mark.parametrize("format", ["json", "quiet"])
def test_a_note_during_a_question_gets_a_line_of_its_own(
    harness: RunHarness, tmp_path: Path, format: str
) -> None:
    asked = tmp_path / "asked"
    os.mkfifo(asked)
    with run(harness, "--format", format, *odd_agent("permission-with-news", str(asked))) as terminal:
        terminal.expect("Choose 1-3: ")
        asked.write_text("")
        terminal.expect("\r\naccord run: ignored non-JSON output from the agent: loading...\r\nChoose 1-3: ")
        terminal.type("1\r")
        assert terminal.end() == 0


@pytest.mark.parametrize("command", [(), ("--", sys.executable, "-m", "accord", "agent")])
def test_a_command_of_the_coding_agent_is_asked_once(harness: RunHarness, command: tuple[str, ...]) -> None:
    words = ("run", "--cwd", str(harness.cwd), "run echo $PWD && touch made", *command)
    env = harness.env(TERM="xterm", ACCORD_MODEL="rehearsal")
    with in_terminal(*words, env=env) as terminal:
        terminal.expect("$ echo $PWD && touch made")
        terminal.expect("Choose 1-")
        terminal.type("1\r")
        terminal.expect("Done.")
        assert terminal.end() == 0
    assert (harness.cwd / "made").exists()


@pytest.mark.parametrize("kind", ["execute", "other"])
def test_a_command_is_shown_with_its_folder(harness: RunHarness, kind: str) -> None:
    call = {"title": "python3 app.py", "kind": kind, "rawInput": {"command": "python3 app.py", "timeout": 5}}
    with run(harness, *odd_agent("permission", json.dumps(call))) as terminal:
        terminal.expect("odd asks: run a command")
        terminal.expect("  $ python3 app.py")
        terminal.expect(f"  in {harness.cwd}")
        terminal.expect("Choose 1-3: ")
        assert "timeout" not in terminal.shown
        terminal.type("3\r")
        assert terminal.end() == 5


def test_a_question_of_the_client_names_accord_and_shows_the_change(harness: RunHarness) -> None:
    (harness.cwd / "a.txt").write_text("old\n")
    write = {
        "method": "fs/write_text_file",
        "params": {"path": str(harness.cwd / "a.txt"), "content": "new\n"},
    }
    with run(harness, *odd_agent("requests", json.dumps(write))) as terminal:
        terminal.expect("Accord asks: may odd write a file?")
        terminal.expect(f"  | change {harness.cwd / 'a.txt'}")
        terminal.expect("  | -old")
        terminal.expect("  | +new")
        terminal.expect("Choose 1-4: ")
        terminal.type("1\r")
        assert terminal.end() == 0
    assert (harness.cwd / "a.txt").read_text() == "new\n"


def test_a_question_about_a_file_outside_names_it_in_title_and_details_only(
    harness: RunHarness, tmp_path: Path
) -> None:
    file = tmp_path / "outside.txt"
    file.write_text("x")
    words = ("run", "--cwd", str(harness.cwd), f"read {file}")
    with in_terminal(*words, env=harness.env(TERM="xterm", ACCORD_MODEL="rehearsal")) as terminal:
        terminal.expect("Choose 1-6: ")
        question = terminal.shown[terminal.shown.index("Accord asks: ") :]
        terminal.type("3\r")
        assert terminal.end() == 5
    assert "Asked because it lies outside the session's folders." in question
    assert "Always allow read_file on this path in this session" in question
    assert question.count("outside.txt") == 2


def test_a_rejection_and_ctrl_d_exit_with_5(harness: RunHarness) -> None:
    for typed, outcome in (("3\r", '"optionId": "no"'), (CTRL_D, '"optionId": "no"')):
        with run(harness, *odd_agent("permission", "{}")) as terminal:
            terminal.expect("Choose 1-3: ")
            terminal.type(typed)
            terminal.expect(outcome)
            assert terminal.end() == 5


def test_an_always_answer_is_remembered_for_the_session(harness: RunHarness) -> None:
    calls = [
        {"kind": "edit", "title": "first"},
        {"kind": "edit", "title": "second"},
        {"kind": "delete", "title": "third"},
    ]
    for _ in range(2):  # the second run does not know the answers of the first
        with run(harness, *odd_agent("permissions", *map(json.dumps, calls))) as terminal:
            terminal.expect("odd asks: first")
            terminal.expect("Choose 1-3: ")
            terminal.type("2\r")
            terminal.expect("odd asks: third")
            terminal.expect("Choose 1-3: ")
            terminal.type("3\r")
            terminal.expect('"optionId": "ever"')
            terminal.expect('"optionId": "yes"')
            terminal.expect('"optionId": "no"')
            assert terminal.end() == 5
            assert "odd asks: second" not in terminal.shown


def test_text_typed_before_a_question_does_not_answer_it(harness: RunHarness) -> None:
    with run(harness, *odd_agent("permissions", '{"title": "first"}', '{"title": "second"}')) as terminal:
        terminal.expect("Choose 1-3: ")
        terminal.type("3\r1\r")  # the second line was typed before the second question
        terminal.expect("odd asks: second")
        terminal.expect("Choose 1-3: ")
        terminal.type("3\r")
        assert terminal.end() == 5
        assert '"optionId": "yes"' not in terminal.shown


def test_escape_sequences_in_a_question_are_removed(harness: RunHarness) -> None:
    call = {
        "title": "harmless\x1b[2K\x1b]0;owned\x07 \u202egnp.exe",
        "rawInput": {"command": "rm \x1b[8mhidden"},
    }
    options = [{"optionId": "x", "name": "No\x1b[1A\rYes", "kind": "reject_once"}]
    with run(harness, *odd_agent("permission", json.dumps(call), json.dumps(options))) as terminal:
        terminal.expect("Ctrl-D: ")
        terminal.type("1\r")
        assert terminal.end() == 5
        for trick in ("\x1b]0;", "\x1b[8m", "\u202e", "\x1b[1A\rYes"):
            assert trick not in terminal.shown


def test_a_write_without_a_permission_request_is_asked_for(harness: RunHarness) -> None:
    target = harness.cwd / "new.txt"
    request = json.dumps({"method": "fs/write_text_file", "params": {"path": str(target), "content": "x"}})
    with run(harness, *odd_agent("requests", request, request)) as terminal:
        terminal.expect("Accord asks: may odd write a file?")
        terminal.expect("1  Allow")
        terminal.expect("2  Always allow edit in this session")
        terminal.expect("Choose 1-4: ")
        terminal.type("2\r")
        assert terminal.end() == 0
        assert terminal.shown.count("Accord asks: ") == 1
    assert target.read_text() == "x"


def test_an_approval_covers_only_the_approved_command(harness: RunHarness) -> None:
    call = {"kind": "execute", "title": "Greet", "rawInput": {"command": "echo hello"}}
    commands = [["sh", "-c", "echo hello"], ["echo", "other"]]
    with run(harness, *odd_agent("agreed-to-run", json.dumps(call), *map(json.dumps, commands))) as terminal:
        terminal.expect("odd asks: Greet [execute]")
        terminal.expect("$ echo hello")
        terminal.type("1\r")
        terminal.expect("Accord asks: may odd run a command?")
        terminal.expect("$ echo other")
        terminal.expect("2  Always allow exactly this in this session")
        terminal.expect("Choose 1-3: ")
        terminal.type("3\r")
        terminal.expect("result error")
        assert terminal.end() == 5


# -- Ctrl-C ----------------------------------------------------------------------------------------------


@pytest.mark.rule("cancel.notification", "cancel.waits-before-next-prompt")
def test_ctrl_c_cancels_and_waits_for_the_agent(harness: RunHarness, tmp_path: Path) -> None:
    log, pid = tmp_path / "log", tmp_path / "pid"
    with run(harness, *odd_agent("busy"), HEARD=str(log), PID_FILE=str(pid)) as terminal:
        terminal.expect("working")
        terminal.type(CTRL_C)
        terminal.expect("stopping; press Ctrl-C again to end the agent")
        assert terminal.end() == 130
    assert json.loads(log.read_text().splitlines()[-1])["method"] == "session/cancel"
    assert not alive(int(pid.read_text()))


def test_a_second_ctrl_c_ends_an_agent_that_does_not_stop(harness: RunHarness, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with run(harness, *odd_agent("deaf"), PID_FILE=str(pid)) as terminal:
        terminal.expect("working")
        terminal.type(CTRL_C)
        terminal.expect("stopping")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown
    assert not alive(int(pid.read_text()))


@pytest.mark.rule("cancel.pending-permissions")
def test_ctrl_c_answers_a_permission_question_as_cancelled(harness: RunHarness, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with run(harness, *odd_agent("permission", "{}"), HEARD=str(log)) as terminal:
        terminal.expect("Choose 1-3: ")
        terminal.type(CTRL_C)
        terminal.expect("stopping")
        assert terminal.end() == 130
    answers = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"outcome": {"outcome": "cancelled"}} in [answer.get("result") for answer in answers]


def test_ctrl_c_answers_a_form_and_a_file_question_as_cancelled(harness: RunHarness, tmp_path: Path) -> None:
    """The agent waits for the response before it reads anything else, so it must get one."""
    write = {"method": "fs/write_text_file", "params": {"path": str(harness.cwd / "x"), "content": "x"}}
    for number, agent in enumerate(
        [odd_agent("elicits", json.dumps(FORM)), odd_agent("requests", json.dumps(write))]
    ):
        log = tmp_path / f"log-{number}"
        with run(harness, *agent, HEARD=str(log)) as terminal:
            terminal.expect(" asks: ")
            terminal.expect(": ")
            terminal.type(CTRL_C)
            terminal.expect("stopping")
            assert terminal.end() == 130
        answers = [json.loads(line) for line in log.read_text().splitlines()]
        (answer,) = [answer for answer in answers if str(answer.get("id")).startswith("q-")]
        assert answer.get("result") == {"action": "cancel"} or answer["error"]["code"] == -32800
    assert not (harness.cwd / "x").exists()


def test_ctrl_c_in_a_question_of_the_client_runs_and_writes_nothing(
    harness: RunHarness, tmp_path: Path
) -> None:
    """An answer that is typed after Ctrl-C does not count, although the agent takes its time to stop."""
    for request in (
        {"method": "terminal/create", "params": {"command": "touch", "args": ["x"]}},
        {"method": "fs/write_text_file", "params": {"path": str(harness.cwd / "x"), "content": "x"}},
    ):
        log = tmp_path / str(request["method"]).replace("/", "-")
        with run(harness, *odd_agent("requests", json.dumps(request)), HEARD=str(log)) as terminal:
            terminal.expect("Choose 1-")
            terminal.type(CTRL_C)
            terminal.type("1\r")
            assert terminal.end() == 130
        answers = [json.loads(line) for line in log.read_text().splitlines()]
        (answer,) = [answer for answer in answers if str(answer.get("id")).startswith("q-")]
        assert answer["error"]["code"] == -32800
        assert not (harness.cwd / "x").exists()


def test_ctrl_c_during_the_start_ends_the_agent(harness: RunHarness, tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    with run(harness, "--", "sh", "-c", f"echo $$ > {started}; exec tail -f /dev/null") as terminal:
        pid = int(started.read_text())
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert not alive(pid)


# -- forms -----------------------------------------------------------------------------------------------


FORM: dict[str, Any] = {
    "mode": "form",
    "message": "How shall it be?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "minLength": 2},
            "colour": {"type": "string", "title": "Colour",
                       "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
            "size": {"type": "integer", "title": "Size", "minimum": 1, "default": 3},
            "sure": {"type": "boolean", "title": "Sure"},
            "tags": {"type": "array", "title": "Tags", "minItems": 1,
                     "items": {"type": "string", "enum": ["a", "b", "c"]}},
            "note": {"type": "string", "title": "Note"},
        },
        "required": ["name", "colour", "sure", "tags"],
    },
}  # fmt: skip


def test_a_form_is_filled_in_validated_and_confirmed(harness: RunHarness) -> None:
    with run(harness, "--format", "quiet", *odd_agent("elicits", json.dumps(FORM))) as terminal:
        terminal.expect("odd asks: How shall it be?")
        for prompt, typed in [
            ("Name: ", "x"),
            ("Name must have at least 2 characters", None),
            ("Name: ", "xy"),
            ("2  Green", None),
            ("Colour (a number): ", "2"),
            ("Size (a number; Enter for 3): ", "0"),
            ("Size must be at least 1", None),
            ("Size (a number; Enter for 3): ", ""),
            ("Sure (y or n): ", "perhaps"),
            ("Sure must be true or false", None),
            ("Sure (y or n): ", "y"),
            ("Tags (numbers, separated by commas): ", "1, 3"),
            ("Note (Enter for none): ", ""),
            ("Colour: g", None),
            ("Send this? [y/N] ", "y"),
        ]:
            terminal.expect(prompt)
            if typed is not None:
                terminal.type(f"{typed}\r")
        content = {"name": "xy", "colour": "g", "size": 3, "sure": True, "tags": ["a", "c"]}
        terminal.expect(json.dumps({"action": "accept", "content": content}))
        assert terminal.end() == 0


def test_a_form_can_be_declined_or_cancelled(harness: RunHarness) -> None:
    form = {**FORM, "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    with run(harness, "--format", "quiet", *odd_agent("elicits", json.dumps(form))) as terminal:
        terminal.expect("name (Enter for none): ")
        terminal.type("\r")
        terminal.expect("Send this? [y/N] ")
        terminal.type("\r")
        terminal.expect('"action": "decline"')
        assert terminal.end() == 0
    with run(harness, "--format", "quiet", *odd_agent("elicits", json.dumps(form))) as terminal:
        terminal.expect("name (Enter for none): ")
        terminal.type(CTRL_D)
        terminal.expect('"action": "cancel"')
        assert terminal.end() == 0


def test_a_url_is_shown_in_full_with_its_host(harness: RunHarness) -> None:
    request = {
        "mode": "url",
        "message": "Sign in there",
        "elicitationId": "e1",
        "url": "https://xn--80ak6aa92e.com/login?x=1",
    }
    with run(harness, "--format", "quiet", *odd_agent("elicits", json.dumps(request))) as terminal:
        terminal.expect("odd asks you to open an address: Sign in there")
        terminal.expect("https://xn--80ak6aa92e.com/login?x=1")
        terminal.expect("at xn--80ak6aa92e.com; the host name contains characters that can look like others")
        terminal.expect("[y/N] ")
        terminal.type("y\r")
        terminal.expect('"action": "accept"')
        assert terminal.end() == 0


def test_an_ask_user_question_is_answered_by_number_or_text(harness: RunHarness) -> None:
    request = json.dumps({"question": "Which one?", "options": ["this", "that"]})
    for typed, answer in (("2", "that"), ("neither", "neither")):
        with run(harness, "--format", "quiet", *odd_agent("asks-user", request)) as terminal:
            terminal.expect("Which one?")
            terminal.expect("2  that")
            terminal.expect("A number, or your own answer: ")
            terminal.type(f"{typed}\r")
            terminal.expect("\r\n")
            terminal.expect(f"{answer}\r\n")
            assert terminal.end() == 0


def test_without_a_terminal_forms_are_declined_with_a_note(harness: RunHarness) -> None:
    ran = harness.run("go", "--format", "quiet", *odd_agent("elicits", json.dumps(FORM)))
    assert json.loads(ran.out) == {"action": "decline"}
    assert "declined, because there is no terminal to ask on: How shall it be?" in ran.err
    request = json.dumps({"question": "Which one?", "options": ["this", "that"]})
    ran = harness.run("go", "--format", "quiet", *odd_agent("asks-user", request))
    assert "declined, because there is no terminal to ask on: Which one?" in ran.err
    ran = harness.run("go", "--format", "quiet", *odd_agent("asks-user", '{"question": "Which?"}'))
    assert ran.out == "(user unavailable)\n"


def test_a_question_of_the_coding_agent_is_shown(harness: RunHarness) -> None:
    with in_terminal(
        "run", "--cwd", str(harness.cwd), "ask: which colour?", env=harness.env(TERM="xterm")
    ) as terminal:
        terminal.expect("Accord asks: which colour?")
        terminal.expect("Answer: ")
        terminal.type("blue\r")
        terminal.expect("Send this? [y/N] ")
        terminal.type("y\r")
        terminal.expect("which colour?: blue")
        assert terminal.end() == 0
