"""`accord run`: how a turn can end, and the exit code for each."""

import json
import os
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.run.running import ODD_AGENT, Place, alive, odd


def test_a_finished_turn_is_0(place: Place) -> None:
    ran = place.run("hello", "--format", "quiet", *odd("polite"))
    assert (ran.code, ran.out, ran.err) == (0, "polite: hello\n", "")


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("refusal", 1),
        ("max_tokens", 1),
        ("max_turn_requests", 1),
        ("cancelled", 1),
        ("tool_use", 0),
        ("end_turn", 0),
    ],
)
@pytest.mark.rule(153, 154)
def test_the_stop_reason_decides(place: Place, reason: str, code: int) -> None:
    ran = place.run("hello", "--format", "json", *odd("stops", reason))
    assert (ran.code, ran.result["exitCode"], ran.result["rawReason"]) == (code, code, reason)


def test_an_error_answer_is_1(place: Place) -> None:
    ran = place.run("hello", *odd("fails"))
    assert ran.code == 1
    assert "no such luck" in ran.err


def test_an_agent_that_breaks_the_protocol_is_3(place: Place) -> None:
    assert place.run("hello", *odd("wrong-answer")).code == 3


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program-here"], "is not on PATH"),
        ([sys.executable, "-c", "import sys; sys.exit('broken configuration')"], "broken configuration"),
        ([sys.executable, "-c", "print('Welcome!'); input()"], "Welcome!"),
    ],
)
def test_an_agent_that_does_not_start_is_3_with_its_words(
    place: Place, command: list[str], said: str
) -> None:
    ran = place.run("hello", "--", *command)
    assert ran.code == 3
    assert said in ran.err


@pytest.mark.rule(22)
def test_noise_on_stdout_is_told_and_costs_nothing(place: Place) -> None:
    ran = place.run("hello", "--format", "quiet", *odd("noisy"))
    assert (ran.code, ran.out) == (0, "after the noise\n")
    assert ran.err.splitlines() == [
        "accord run: the agent printed what is no message: loading...",
        "accord run: the agent printed what is no message: loading more...",
        "accord run: the agent printed what is no message: still",
        "accord run: it prints more of that, which is not shown",
    ]


# -- death ------------------------------------------------------------------------------------------------------


@pytest.mark.rule(37)
def test_an_agent_that_dies_is_3_with_its_exit_and_last_words(place: Place) -> None:
    ran = place.run("hello", *odd("dies"))
    assert ran.code == 3
    assert "half an answ" in ran.out
    assert "exited with code 7" in ran.err
    assert "out of memory" in ran.err


def test_an_agent_that_died_is_started_again_to_see_whether_its_session_lives(place: Place) -> None:
    ran = place.run("hello", *odd("dies"), CAPABILITIES='{"loadSession": true}')
    assert ran.code == 3
    assert "it runs again; its session s1 goes on" in ran.err
    ran = place.run("hello", *odd("dies"))
    assert "it runs again, but its session is lost" in ran.err


def test_it_is_started_again_as_often_as_its_file_says(place: Place, tmp_path: Path) -> None:
    _, command, *args = odd("dies-first-two", str(tmp_path / "count"))
    for most, told in ((2, "it runs again; its session s1 goes on"), (1, "it could not be started again")):
        (tmp_path / "count").unlink(missing_ok=True)
        env = {"CAPABILITIES": '{"loadSession": true}'}
        place.settings(servers={"mine": {"command": command, "args": args, "env": env, "maxRestarts": most}})
        ran = place.run("hello", "-a", "mine")
        assert ran.code == 3
        assert told in ran.err
        assert "back again" not in ran.out


def test_with_retry_the_prompt_is_sent_again_if_nothing_was_done(place: Place, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    words = ("hello", "--retry", "--format", "quiet", *odd("dies-first", str(tmp_path / "count")))
    ran = place.run(*words, CAPABILITIES='{"loadSession": true}', HEARD=str(heard))
    assert (ran.code, ran.out) == (0, "back again\n")
    methods = [json.loads(line).get("method") for line in heard.read_text().splitlines()]
    assert methods == [
        *("initialize", "session/new", "session/prompt"),
        *("initialize", "session/load", "session/prompt"),
    ]


def test_with_retry_a_lost_new_session_is_replaced(place: Place, tmp_path: Path) -> None:
    ran = place.run("hello", "--retry", "--format", "quiet", *odd("dies-first", str(tmp_path / "count")))
    assert (ran.code, ran.out) == (0, "back again\n")


def test_without_retry_nothing_is_sent_twice(place: Place, tmp_path: Path) -> None:
    ran = place.run(
        "hello", *odd("dies-first", str(tmp_path / "count")), CAPABILITIES='{"loadSession": true}'
    )
    assert ran.code == 3
    assert "back again" not in ran.out


def test_with_retry_nothing_is_sent_twice_that_was_begun(place: Place, tmp_path: Path) -> None:
    words = ("hello", "--retry", *odd("dies-first-working", str(tmp_path / "count")))
    ran = place.run(*words, CAPABILITIES='{"loadSession": true}')
    assert ran.code == 3
    assert "the prompt is not sent again: the agent had begun to work on it" in ran.err
    assert "done twice" not in ran.out


def test_retries_have_an_end(place: Place) -> None:
    _, command, *args = odd("dies-always")
    place.settings(servers={"mine": {"command": command, "args": args, "maxRestarts": 2}})
    ran = place.run("hello", "-a", "mine", "--retry", CAPABILITIES='{"loadSession": true}')
    assert ran.code == 3
    assert ran.err.count("the prompt is sent again") == 2
    place.settings(servers={"mine": {"command": command, "args": args, "maxRestarts": 0}})
    ran = place.run("hello", "-a", "mine", "--retry", CAPABILITIES='{"loadSession": true}')
    assert (ran.code, ran.err.count("sent again")) == (3, 0)


# -- time -------------------------------------------------------------------------------------------------------


def test_silence_is_4(place: Place) -> None:
    ran = place.run("hello", "--timeout", "0.3", *odd("silent"))
    assert ran.code == 4
    assert "no sign of life for 0.3 s" in ran.err


def test_the_deadline_is_4(place: Place) -> None:
    ran = place.run("hello", "--deadline", "0.3", "--format", "json", *odd("busy"))
    assert (ran.code, ran.result["exitCode"]) == (4, 4)
    assert ran.events[-2]["type"] == "turn_ended"
    assert ran.events[-2]["stopReason"] == "cancelled"
    assert "not over within 0.3 s (--deadline)" in ran.err


def test_a_start_that_takes_too_long_is_4(place: Place) -> None:
    wait = [sys.executable, "-c", "input(); input()"]
    place.settings(servers={"mine": {"command": wait[0], "args": wait[1:], "startupTimeoutMs": 500}})
    ran = place.run("hello", "-a", "mine")
    assert ran.code == 4
    assert "initialize was not answered within 0.5 s" in ran.err


def test_a_request_that_is_not_answered_is_4(place: Place) -> None:
    _, command, *args = odd("opens-nothing")
    place.settings(servers={"mine": {"command": command, "args": args, "timeoutMs": 300}})
    ran = place.run("hello", "--agent", "mine")
    assert ran.code == 4
    assert "session/new was not answered within 0.3 s" in ran.err


# -- what is started --------------------------------------------------------------------------------------------


def test_a_command_is_found_from_where_it_was_typed_and_gets_no_keys(place: Place, tmp_path: Path) -> None:
    agent = place.cwd / "agent.sh"
    agent.write_text(f"#!/bin/sh\nexec {sys.executable} {ODD_AGENT} environment OPENAI_API_KEY LANG\n")
    agent.chmod(0o755)
    words = ("hello", "--format", "quiet", "--cwd", str(tmp_path), "--", "./agent.sh")
    ran = place.run(*words, OPENAI_API_KEY="sk-123456789", LANG="C.UTF-8")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {"cwd": str(place.cwd), "env": {"OPENAI_API_KEY": None, "LANG": "C.UTF-8"}}


def test_a_strict_run_repairs_nothing(place: Place) -> None:
    assert place.run("hello", *odd("stops", "endTurn")).code == 0
    ran = place.run("hello", "--strict", *odd("stops", "endTurn"))
    assert ran.code != 0


# -- signing in -------------------------------------------------------------------------------------------------


METHODS = json.dumps(
    [{"id": "web", "name": "By browser", "description": "opens a page"}, {"id": "key", "name": "By key"}]
)


@pytest.mark.rule(84)
def test_an_agent_that_wants_a_sign_in_is_6_with_its_methods(place: Place) -> None:
    _, command, *args = odd("wants-auth")
    place.settings(servers={"mine": {"command": command, "args": args}})
    ran = place.run("hello", "-a", "mine", AUTH_METHODS=METHODS)
    assert ran.code == 6
    assert "Authentication required ({'reason': 'no key'})" in ran.err
    assert "sign in by 'By browser' (opens a page): accord agents login mine web" in ran.err
    assert "sign in by 'By key': accord agents login mine key" in ran.err


def test_of_a_command_its_terminal_method_is_shown_as_what_to_type(place: Place) -> None:
    method = {
        "type": "terminal",
        "id": "t",
        "name": "In a terminal",
        "args": ["--login"],
        "env": {"STEP": "1"},
    }
    ran = place.run("hello", *odd("wants-auth"), AUTH_METHODS=json.dumps([method]))
    assert ran.code == 6
    assert f"sign in by 'In a terminal': STEP=1 {sys.executable} {ODD_AGENT} wants-auth --login" in ran.err


def test_also_in_the_middle_of_a_turn_and_without_any_method(place: Place) -> None:
    ran = place.run("hello", *odd("wants-auth-later"))
    assert ran.code == 6
    assert "it offers no way to sign in over ACP" in ran.err


# -- interrupted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_asked_to_go_takes_its_agent_with_it(
    place: Place, tmp_path: Path, number: signal.Signals
) -> None:
    pid = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "hello", *odd("deaf")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place.cwd,
        env=place.env(PID_FILE=str(pid)), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(7) == b"working"
        process.send_signal(number)
        process.communicate(timeout=50)
    assert process.returncode == 130
    assert not alive(int(pid.read_text()))


def test_a_run_that_is_killed_leaves_no_agent(place: Place, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "hello", *odd("stuck")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=place.cwd,
        env=place.env(PID_FILE=str(pid)), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(7) == b"working"
        agent = os.pidfd_open(int(pid.read_text()))
        try:
            process.kill()
            process.wait()
            select.select([agent], [], [])  # readable when it has ended
        finally:
            os.close(agent)


def test_a_run_under_nohup_does_not_mind_a_hang_up(place: Place) -> None:
    command = shlex.join([sys.executable, "-m", "accord.cli", "run", "hello", *odd("busy")])
    with subprocess.Popen(
        ["sh", "-c", f"trap '' HUP; exec {command}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place.cwd,
        env=place.env(), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(7) == b"working"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=50)
    assert process.returncode == 130
    assert b"stopping; Ctrl-C again ends the agent" in said, "the interrupt was the first thing it heard of"


def test_an_agent_that_does_not_go_is_not_waited_for_with_the_answer(place: Place, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "--format", "quiet", "hello", *odd("hangs-around")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=place.cwd,
        env=place.env(PID_FILE=str(pid)), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(5) == b"done\n"
        assert alive(int(pid.read_text())), "the answer was there while the agent still was"
        assert process.wait(timeout=50) == 0
    assert not alive(int(pid.read_text()))


def test_a_run_whose_streams_are_closed_works_all_the_same(place: Place) -> None:
    command = shlex.join([sys.executable, "-m", "accord.cli", "run", "hello", *odd("polite")])
    closed = subprocess.run(
        ["sh", "-c", f"{command} <&- >&-; echo $?"],
        cwd=place.cwd, env=place.env(), capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert (closed.stdout, closed.stderr) == ("0\n", "")


def test_a_reader_that_goes_early_ends_the_agent(place: Place, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "hello", *odd("chatters")],
        stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE, cwd=place.cwd,
        env=place.env(PID_FILE=str(pid)), start_new_session=True,
    )  # fmt: skip
    os.close(write)
    assert os.read(read, 1)
    os.close(read)
    _, said = process.communicate(timeout=50)
    assert b"Traceback" not in said
    assert not alive(int(pid.read_text()))
