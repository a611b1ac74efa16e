"""`accord run` with somebody at the terminal: questions, "always", forms, Ctrl-C."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.run.running import Place, alive, odd
from tests.cli.terminal import Terminal, in_terminal

CTRL_C, CTRL_D = "\x03", "\x04"


@contextmanager
def run(place: Place, *words: str, **env: str) -> Generator[Terminal]:
    before = words.index("--") if "--" in words else len(words)
    with in_terminal(
        "run",
        "--cwd",
        str(place.cwd),
        *words[:before],
        "go",
        *words[before:],
        env=place.env(TERM="xterm", **env),
    ) as terminal:
        yield terminal


# -- permissions ------------------------------------------------------------------------------------------------


def test_every_option_is_shown_by_its_name_and_none_is_preselected(place: Place) -> None:
    call = {"title": "Change a.txt", "kind": "edit", "content": [{"type": "diff", "path": "a.txt", "oldText": "one\n", "newText": "two\n"}]}  # fmt: skip
    with run(place, *odd("permission", json.dumps(call))) as terminal:
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


def test_a_no_of_the_person_and_going_away_are_5(place: Place) -> None:
    for typed, outcome in (("3\r", '"optionId": "no"'), (CTRL_D, '"optionId": "no"')):
        with run(place, *odd("permission", "{}")) as terminal:
            terminal.expect("Choose 1-3: ")
            terminal.type(typed)
            terminal.expect(outcome)
            assert terminal.end() == 5


def test_always_is_remembered_for_the_session_and_then_given_once_at_a_time(place: Place) -> None:
    calls = [{"kind": "edit", "title": "first"}, {"kind": "edit", "title": "second"}, {"kind": "delete", "title": "third"}]  # fmt: skip
    for _ in range(2):  # the second run knows nothing of the first
        with run(place, *odd("permissions", *map(json.dumps, calls))) as terminal:
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


def test_what_is_typed_before_a_question_does_not_answer_it(place: Place) -> None:
    with run(place, *odd("permissions", '{"title": "first"}', '{"title": "second"}')) as terminal:
        terminal.expect("Choose 1-3: ")
        terminal.type("3\r1\r")  # the second line is meant for nothing that was shown
        terminal.expect("odd asks: second")
        terminal.expect("Choose 1-3: ")
        terminal.type("3\r")
        assert terminal.end() == 5
        assert '"optionId": "yes"' not in terminal.shown


def test_what_an_agent_says_in_a_question_is_cleaned(place: Place) -> None:
    call = {
        "title": "harmless\x1b[2K\x1b]0;owned\x07 \u202egnp.exe",
        "rawInput": {"command": "rm \x1b[8mhidden"},
    }
    options = [{"optionId": "x", "name": "No\x1b[1A\rYes", "kind": "reject_once"}]
    with run(place, *odd("permission", json.dumps(call), json.dumps(options))) as terminal:
        terminal.expect("Ctrl-D: ")
        terminal.type("1\r")
        assert terminal.end() == 5
        for trick in ("\x1b]0;", "\x1b[8m", "\u202e", "\x1b[1A\rYes"):
            assert trick not in terminal.shown


def test_what_the_agent_does_without_asking_is_asked_about(place: Place) -> None:
    target = place.cwd / "new.txt"
    asked = json.dumps({"method": "fs/write_text_file", "params": {"path": str(target), "content": "x"}})
    with run(place, *odd("requests", asked, asked)) as terminal:
        terminal.expect("odd asks: write ")
        terminal.expect("1  Allow")
        terminal.expect("2  Always allow edit in this session")
        terminal.expect("Choose 1-4: ")
        terminal.type("2\r")
        assert terminal.end() == 0
        assert terminal.shown.count("odd asks: ") == 1
    assert target.read_text() == "x"


def test_what_was_agreed_to_is_done_and_nothing_besides(place: Place) -> None:
    call = {"kind": "execute", "title": "Greet", "rawInput": {"command": "echo hello"}}
    commands = [["sh", "-c", "echo hello"], ["echo", "hello"], ["echo", "other"]]
    with run(place, *odd("agreed-to-run", json.dumps(call), *map(json.dumps, commands))) as terminal:
        terminal.expect("odd asks: Greet [execute]")
        terminal.expect("$ echo hello")
        terminal.type("1\r")
        terminal.expect("odd asks: run echo other")
        terminal.expect("2  Reject")
        terminal.expect("Choose 1-2: ")
        terminal.type("2\r")
        terminal.expect("result result error")
        assert terminal.end() == 5


# -- Ctrl-C -----------------------------------------------------------------------------------------------------


@pytest.mark.rule(160, 171)
def test_ctrl_c_cancels_and_waits_for_the_agent(place: Place, tmp_path: Path) -> None:
    heard, pid = tmp_path / "heard", tmp_path / "pid"
    with run(place, *odd("busy"), HEARD=str(heard), PID_FILE=str(pid)) as terminal:
        terminal.expect("working")
        terminal.type(CTRL_C)
        terminal.expect("stopping; Ctrl-C again ends the agent")
        assert terminal.end() == 130
    assert json.loads(heard.read_text().splitlines()[-1])["method"] == "session/cancel"
    assert not alive(int(pid.read_text()))


def test_a_second_ctrl_c_ends_an_agent_that_does_not_stop(place: Place, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with run(place, *odd("deaf"), PID_FILE=str(pid)) as terminal:
        terminal.expect("working")
        terminal.type(CTRL_C)
        terminal.expect("stopping")
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown
    assert not alive(int(pid.read_text()))


@pytest.mark.rule(165)
def test_ctrl_c_in_a_question_answers_it_as_cancelled(place: Place, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    with run(place, *odd("permission", "{}"), HEARD=str(heard)) as terminal:
        terminal.expect("Choose 1-3: ")
        terminal.type(CTRL_C)
        terminal.expect("stopping")
        assert terminal.end() == 130
    answers = [json.loads(line) for line in heard.read_text().splitlines()]
    assert {"outcome": {"outcome": "cancelled"}} in [answer.get("result") for answer in answers]


def test_ctrl_c_in_any_other_question_leaves_it_unanswered(place: Place, tmp_path: Path) -> None:
    """The agent waits for the answer and looks at nothing else: it would never see that it was cancelled."""
    write = {"method": "fs/write_text_file", "params": {"path": str(place.cwd / "x"), "content": "x"}}
    for number, agent in enumerate([odd("elicits", json.dumps(FORM)), odd("requests", json.dumps(write))]):
        heard = tmp_path / f"heard-{number}"
        with run(place, *agent, HEARD=str(heard)) as terminal:
            terminal.expect("odd asks: ")
            terminal.expect(": ")
            terminal.type(CTRL_C)
            terminal.expect("stopping")
            assert terminal.end() == 130
        answers = [json.loads(line) for line in heard.read_text().splitlines()]
        (answer,) = [answer for answer in answers if str(answer.get("id")).startswith("q-")]
        assert (
            answer.get("result") == {"action": "cancel"} or "Permission denied" in answer["error"]["message"]
        )
    assert not (place.cwd / "x").exists()


def test_ctrl_c_while_the_agent_starts_ends_it(place: Place, tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    with run(place, "--", "sh", "-c", f"echo $$ > {started}; exec tail -f /dev/null") as terminal:
        pid = int(started.read_text())
        terminal.type(CTRL_C)
        assert terminal.end() == 130
    assert not alive(pid)


# -- forms ------------------------------------------------------------------------------------------------------


FORM: dict[str, Any] = {
    "mode": "form",
    "message": "How shall it be?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "minLength": 2},
            "colour": {"type": "string", "title": "Colour", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
            "size": {"type": "integer", "title": "Size", "minimum": 1, "default": 3},
            "sure": {"type": "boolean", "title": "Sure"},
            "tags": {"type": "array", "title": "Tags", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1},
            "note": {"type": "string", "title": "Note"},
        },
        "required": ["name", "colour", "sure", "tags"],
    },
}  # fmt: skip


def test_a_form_is_filled_in_checked_and_shown_before_it_goes_out(place: Place) -> None:
    with run(place, "--format", "quiet", *odd("elicits", json.dumps(FORM))) as terminal:
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
            ("Tags (numbers, with commas between): ", "1, 3"),
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


def test_a_form_can_be_declined_or_left(place: Place) -> None:
    form = {**FORM, "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    with run(place, "--format", "quiet", *odd("elicits", json.dumps(form))) as terminal:
        terminal.expect("name (Enter for none): ")
        terminal.type("\r")
        terminal.expect("Send this? [y/N] ")
        terminal.type("\r")
        terminal.expect('"action": "decline"')
        assert terminal.end() == 0
    with run(place, "--format", "quiet", *odd("elicits", json.dumps(form))) as terminal:
        terminal.expect("name (Enter for none): ")
        terminal.type(CTRL_D)
        terminal.expect('"action": "cancel"')
        assert terminal.end() == 0


def test_an_address_is_shown_in_full_with_its_host(place: Place) -> None:
    asked = {"mode": "url", "message": "Sign in there", "elicitationId": "e1", "url": "https://xn--80ak6aa92e.com/login?x=1"}  # fmt: skip
    with run(place, "--format", "quiet", *odd("elicits", json.dumps(asked))) as terminal:
        terminal.expect("odd asks you to open an address: Sign in there")
        terminal.expect("https://xn--80ak6aa92e.com/login?x=1")
        terminal.expect("at xn--80ak6aa92e.com; its name is in another script than it may look like")
        terminal.expect("[y/N] ")
        terminal.type("y\r")
        terminal.expect('"action": "accept"')
        assert terminal.end() == 0


def test_the_question_of_agentao_is_answered_by_number_or_in_words(place: Place) -> None:
    asked = json.dumps({"question": "Which one?", "options": ["this", "that"]})
    for typed, answer in (("2", "that"), ("neither", "neither")):
        with run(place, "--format", "quiet", *odd("asks-user", asked)) as terminal:
            terminal.expect("Which one?")
            terminal.expect("2  that")
            terminal.expect("A number, or your own words: ")
            terminal.type(f"{typed}\r")
            terminal.expect("\r\n")
            terminal.expect(f"{answer}\r\n")
            assert terminal.end() == 0


def test_without_a_terminal_questions_are_declined_and_told(place: Place) -> None:
    ran = place.run("go", "--format", "quiet", *odd("elicits", json.dumps(FORM)))
    assert json.loads(ran.out) == {"action": "decline"}
    assert "declined, for there is no terminal to ask on: How shall it be?" in ran.err
    ran = place.run("go", "--format", "quiet", *odd("asks-user", '{"question": "Which?"}'))
    assert ran.out == "(user unavailable)\n"


def test_the_coding_agents_question_reaches_the_terminal(place: Place) -> None:
    with in_terminal(
        "run", "--cwd", str(place.cwd), "ask: which colour?", env=place.env(TERM="xterm")
    ) as terminal:
        terminal.expect("Accord asks: which colour?")
        terminal.expect("Answer: ")
        terminal.type("blue\r")
        terminal.expect("Send this? [y/N] ")
        terminal.type("y\r")
        terminal.expect("which colour?: blue")
        assert terminal.end() == 0
