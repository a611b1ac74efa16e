"""`accord run`: how a turn can end, and the exit code of each outcome."""

import json
import os
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.run.run_harness import ODD_AGENT, RunHarness, alive, odd_agent
from tests.patience import PATIENCE

from accord.session import TurnEnded
from accord.store import open_store


def test_a_finished_turn_exits_with_0(harness: RunHarness) -> None:
    ran = harness.run("hello", "--format", "quiet", *odd_agent("polite"))
    assert (ran.code, ran.out, ran.err) == (0, "polite: hello\n", "")


@pytest.mark.parametrize("protocol", ["2", "auto"])
def test_version_2_gives_the_same_answer(harness: RunHarness, protocol: str, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    accord = [sys.executable, "-m", "accord.cli"]
    agent = [*accord, "trace", "record", "-o", str(trace), "--", *accord, "agent", "--model", "rehearsal"]
    ran = harness.run("say: hello", "--protocol", protocol, "--format", "quiet", "--", *agent)
    assert (ran.code, ran.out.strip(), ran.err) == (0, "hello", "")
    assert "state_update" in trace.read_text()


def test_version_2_only_refuses_an_agent_of_version_1(harness: RunHarness) -> None:
    ran = harness.run("hello", "--protocol", "2", *odd_agent("polite"))
    assert ran.code == 3
    assert "protocol version 1; this client speaks only 2" in ran.err


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
@pytest.mark.rule("prompt.refusal-shown", "prompt.unknown-stop-reason")
def test_the_stop_reason_sets_the_exit_code(harness: RunHarness, reason: str, code: int) -> None:
    ran = harness.run("hello", "--format", "json", *odd_agent("stops", reason))
    assert (ran.code, ran.result["exitCode"], ran.result["rawReason"]) == (code, code, reason)


def test_a_turn_over_its_budget_exits_with_1_and_names_the_limit(harness: RunHarness) -> None:
    words = ["list . then list .", "--model", "rehearsal", "--format", "quiet"]
    ran = harness.run(*words, "--max-requests", "1", "--max-tokens", "12345678")
    assert ran.code == 1
    assert ran.err == "accord run: Stopped at a limit: 1 model request made (--max-requests)\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--max-cost", "free"], "--max-cost 'free' is not an amount in US dollars above 0"),
        (["--max-session-cost", "-1"], "--max-session-cost '-1' is not an amount in US dollars above 0"),
        (["--max-session-tokens", "1.5"], "--max-session-tokens '1.5' is not a whole number above 0"),
        (["--max-tokens", "0"], "--max-tokens '0' is not a whole number above 0"),
        (["--max-session-requests", "x"], "--max-session-requests 'x' is not a whole number above 0"),
        (["--max-cost", "1", *odd_agent("polite")], "--max-cost limits only Accord's own agent, not "),
    ],
)
def test_a_budget_that_cannot_be_kept_exits_with_2(
    harness: RunHarness, words: list[str], problem: str
) -> None:
    ran = harness.run("hello", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"accord run: {problem}")


def test_an_error_response_exits_with_1(harness: RunHarness) -> None:
    ran = harness.run("hello", *odd_agent("fails"))
    assert ran.code == 1
    assert ran.err == "accord run: no such luck (why: testing) [-32603]\n"


def test_a_protocol_violation_exits_with_3(harness: RunHarness) -> None:
    assert harness.run("hello", *odd_agent("wrong-answer")).code == 3


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["no-such-program-here"], "is not on PATH"),
        ([sys.executable, "-c", "import sys; sys.exit('broken configuration')"], "broken configuration"),
        ([sys.executable, "-c", "print('Welcome!'); input()"], "Welcome!"),
    ],
)
def test_an_agent_that_does_not_start_exits_with_3_and_shows_its_output(
    harness: RunHarness, command: list[str], expected: str
) -> None:
    ran = harness.run("hello", "--", *command)
    assert ran.code == 3
    assert expected in ran.err


@pytest.mark.rule("framing.client-survives-invalid-json")
def test_non_json_output_of_the_agent_is_reported_and_ignored(harness: RunHarness) -> None:
    ran = harness.run("hello", "--format", "quiet", *odd_agent("noisy"))
    assert (ran.code, ran.out) == (0, "after the noise\n")
    assert ran.err.splitlines() == [
        "accord run: ignored non-JSON output from the agent: loading...",
        "accord run: ignored non-JSON output from the agent: loading more...",
        "accord run: ignored non-JSON output from the agent: still",
        "accord run: further non-JSON output is not shown",
    ]


def test_a_notice_before_the_prompt_is_shown_once(harness: RunHarness) -> None:
    ran = harness.run("hello", *odd_agent("warns-early"))
    assert ran.out.splitlines().count("! warning: MCP server not used: a typo") == 1
    words = ("--session", "s1", *odd_agent("warns-early"))
    ran = harness.run("hello", *words, CAPABILITIES='{"loadSession": true}')
    assert ran.err == "accord run: Waiting for the lease of node b2\n"  # at once, while the session is opened
    assert "Waiting" not in ran.out


# -- crashes ---------------------------------------------------------------------------------------------


@pytest.mark.rule("framing.agent-dies")
def test_a_crashed_agent_exits_with_3_and_shows_its_stderr(harness: RunHarness) -> None:
    ran = harness.run("hello", *odd_agent("dies"))
    assert ran.code == 3
    assert "half an answ" in ran.out
    assert "exited with code 7" in ran.err
    assert "out of memory" in ran.err


def test_a_crashed_agent_is_restarted_to_check_its_session(harness: RunHarness) -> None:
    ran = harness.run("hello", *odd_agent("dies"), CAPABILITIES='{"loadSession": true}')
    assert ran.code == 3
    assert "the agent was restarted; session s1 continues" in ran.err
    ran = harness.run("hello", *odd_agent("dies"))
    assert "the agent was restarted, but its session is lost" in ran.err


def test_restarts_are_limited_by_max_restarts(harness: RunHarness, tmp_path: Path) -> None:
    _, command, *args = odd_agent("dies-first-two", str(tmp_path / "count"))
    for most, expected in (
        (2, "the agent was restarted; session s1 continues"),
        (1, "the restart failed"),
    ):
        (tmp_path / "count").unlink(missing_ok=True)
        env = {"CAPABILITIES": '{"loadSession": true}'}
        harness.settings(
            servers={"mine": {"command": command, "args": args, "env": env, "maxRestarts": most}}
        )
        ran = harness.run("hello", "-a", "mine")
        assert ran.code == 3
        assert expected in ran.err
        assert "back again" not in ran.out


def test_retry_sends_the_prompt_again_when_nothing_was_done(harness: RunHarness, tmp_path: Path) -> None:
    log = tmp_path / "heard"
    words = ("hello", "--retry", "--format", "quiet", *odd_agent("dies-first", str(tmp_path / "count")))
    ran = harness.run(*words, CAPABILITIES='{"loadSession": true}', HEARD=str(log))
    assert (ran.code, ran.out) == (0, "back again\n")
    methods = [json.loads(line).get("method") for line in log.read_text().splitlines()]
    assert methods == [
        *("initialize", "session/new", "session/prompt"),
        *("initialize", "session/load", "session/prompt"),
    ]


def test_retry_replaces_a_lost_new_session(harness: RunHarness, tmp_path: Path) -> None:
    ran = harness.run(
        "hello", "--retry", "--format", "quiet", *odd_agent("dies-first", str(tmp_path / "count"))
    )
    assert (ran.code, ran.out) == (0, "back again\n")


def test_without_retry_the_prompt_is_sent_once(harness: RunHarness, tmp_path: Path) -> None:
    ran = harness.run(
        "hello", *odd_agent("dies-first", str(tmp_path / "count")), CAPABILITIES='{"loadSession": true}'
    )
    assert ran.code == 3
    assert "back again" not in ran.out


def test_retry_does_not_repeat_a_prompt_that_was_started(harness: RunHarness, tmp_path: Path) -> None:
    words = ("hello", "--retry", *odd_agent("dies-first-working", str(tmp_path / "count")))
    ran = harness.run(*words, CAPABILITIES='{"loadSession": true}')
    assert ran.code == 3
    assert "not sending the prompt again: the agent had begun to work on it" in ran.err
    assert "done twice" not in ran.out


def test_the_number_of_retries_is_limited(harness: RunHarness) -> None:
    _, command, *args = odd_agent("dies-always")
    harness.settings(servers={"mine": {"command": command, "args": args, "maxRestarts": 2}})
    ran = harness.run("hello", "-a", "mine", "--retry", CAPABILITIES='{"loadSession": true}')
    assert ran.code == 3
    assert ran.err.count("sending the prompt again") == 2
    harness.settings(servers={"mine": {"command": command, "args": args, "maxRestarts": 0}})
    ran = harness.run("hello", "-a", "mine", "--retry", CAPABILITIES='{"loadSession": true}')
    assert (ran.code, ran.err.count("sent again")) == (3, 0)


# -- timeouts --------------------------------------------------------------------------------------------


def test_a_silent_agent_exits_with_4(harness: RunHarness) -> None:
    ran = harness.run("hello", "--timeout", "0.3", *odd_agent("silent"))
    assert ran.code == 4
    assert "the agent sent nothing for 0.3 s" in ran.err


def test_the_deadline_exits_with_4(harness: RunHarness) -> None:
    ran = harness.run("hello", "--deadline", "0.3", "--format", "json", *odd_agent("busy"))
    assert (ran.code, ran.result["exitCode"]) == (4, 4)
    assert ran.events[-2]["type"] == "turn_ended"
    assert ran.events[-2]["stopReason"] == "cancelled"
    assert "did not end within 0.3 s (--deadline)" in ran.err


def test_a_slow_start_exits_with_4(harness: RunHarness) -> None:
    wait = [sys.executable, "-c", "input(); input()"]
    harness.settings(servers={"mine": {"command": wait[0], "args": wait[1:], "startupTimeoutMs": 500}})
    ran = harness.run("hello", "-a", "mine")
    assert ran.code == 4
    assert "initialize was not answered within 0.5 s" in ran.err


def test_an_unanswered_request_exits_with_4(harness: RunHarness) -> None:
    _, command, *args = odd_agent("opens-nothing")
    harness.settings(servers={"mine": {"command": command, "args": args, "timeoutMs": 300}})
    ran = harness.run("hello", "--agent", "mine")
    assert ran.code == 4
    assert "session/new was not answered within 0.3 s" in ran.err


# -- the agent command -----------------------------------------------------------------------------------


def test_a_relative_command_is_resolved_and_gets_no_api_keys(harness: RunHarness, tmp_path: Path) -> None:
    agent = harness.cwd / "agent.sh"
    agent.write_text(f"#!/bin/sh\nexec {sys.executable} {ODD_AGENT} environment OPENAI_API_KEY LANG\n")
    agent.chmod(0o755)
    words = ("hello", "--format", "quiet", "--cwd", str(tmp_path), "--", "./agent.sh")
    ran = harness.run(*words, OPENAI_API_KEY="sk-123456789", LANG="C.UTF-8")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {
        "cwd": str(harness.cwd),
        "env": {"OPENAI_API_KEY": None, "LANG": "C.UTF-8"},
    }


def test_strict_repairs_nothing(harness: RunHarness) -> None:
    assert harness.run("hello", *odd_agent("stops", "endTurn")).code == 0
    ran = harness.run("hello", "--strict", *odd_agent("stops", "endTurn"))
    assert ran.code != 0


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('mode = "yolo"', "config.toml: mode: 'yolo' is not one of read-only, ask, workspace-write"),
        (
            '[endpoints.x]\nkind = "foo"',
            "endpoints.x.kind: 'foo' is not one of anthropic, google, openai-chat, openai-responses",
        ),
        ('effort = "huge"', "config.toml: effort: 'huge' is not one of "),
        (
            '[permissions]\ndefault = "sometimes"',
            "permissions.default: 'sometimes' is not one of all, allow, ask, deny, none, reads",
        ),
        ('modl = "x"', "config.toml: modl: there is no such setting; there are: model, effort"),
        ("model = [", "config.toml: not valid TOML"),
        ("[turn]\nrequests = 0", "config.toml: turn.requests: "),
        ("[turn]\ncost = 1e400", "config.toml: turn.cost: "),
        ('model = "nope:x"', "'nope:x' names no known provider (anthropic, openai, google, openrouter, "),
    ],
)
def test_a_broken_configuration_exits_with_2_and_lists_the_choices(
    harness: RunHarness, config: str, expected: str
) -> None:
    file = harness.home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(config)
    ran = harness.run("hello", ACCORD_MODEL="")
    assert ran.code == 2, ran.err
    assert expected in ran.err
    assert len(ran.err.splitlines()) == 1
    assert "initialize" not in ran.err


def test_without_a_model_nothing_runs_and_the_exit_code_is_6(harness: RunHarness) -> None:
    ran = harness.run("write notes.txt: hello", "--permissions", "all", ACCORD_MODEL="")
    assert (ran.code, ran.out.strip()) == (6, "")
    assert ran.err.startswith("accord run: no model is set up; set a key such as ANTHROPIC_API_KEY, run ")
    assert "`--model rehearsal` runs the built-in script" in ran.err
    assert ran.err.count("\n") == 1
    assert not (harness.cwd / "notes.txt").exists()
    named = harness.run("--model", "rehearsal", "--permissions", "all", "write notes.txt: x", ACCORD_MODEL="")
    assert (named.code, (harness.cwd / "notes.txt").exists()) == (0, True)
    again = harness.run("--continue", "write more.txt: x", "--permissions", "all", ACCORD_MODEL="")
    assert (again.code, (harness.cwd / "more.txt").exists()) == (6, False)
    key = harness.run("hello", MISTRAL_API_KEY="k")
    assert (key.code, "there is a key for mistral" in key.err) == (6, True)


def test_a_command_that_no_model_answers_needs_none(harness: RunHarness) -> None:
    ran = harness.run("/usage", ACCORD_MODEL="")
    assert (ran.code, ran.err) == (0, "")


def test_a_missing_key_is_one_clear_line(harness: RunHarness) -> None:
    ran = harness.run("hello", "--model", "openai:gpt-5")
    assert ran.code == 6
    expected = "openai: no key found; set OPENAI_API_KEY or run `accord agent --login openai` [-32000]"
    assert ran.err.startswith(f"accord run: {expected}; sign in with 'accord-login'")
    assert ran.err.count("\n") == 1


def test_a_refused_call_shows_no_text_for_the_model(harness: RunHarness) -> None:
    ran = harness.run("--model", "rehearsal", "write notes.txt: hello")
    assert ran.code == 5
    shown = ran.out.partition("Done, 1 of 1 failed.")[0]  # then comes what the model says
    assert "Permission denied. This call was rejected." in shown
    assert "Do not repeat it" not in shown
    (harness.cwd / "notes.txt").write_text("old")
    ran = harness.run("--model", "rehearsal", "--permissions", "all", "write notes.txt: hello")
    shown = ran.out.partition("Done, 1 of 1 failed.")[0]
    assert "exists but was not read" in shown
    assert "read_file" not in shown


def test_a_wrong_mode_lists_values_and_names(harness: RunHarness) -> None:
    modes = {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "yolo", "name": "Accept edits"}],
    }
    ran = harness.run("hello", "--mode", "nope", *odd_agent("echo"), SETTINGS=json.dumps({"modes": modes}))
    assert ran.code == 2
    assert "--mode 'nope': the agent does not list it; it lists ask, yolo (Accept edits)" in ran.err


def test_the_package_itself_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "accord", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("accord ")


@pytest.mark.parametrize(
    ("variable", "model"),
    [
        ("OPENAI_BASE_URL", "openai:gpt-5"),
        ("ANTHROPIC_BASE_URL", "anthropic:claude"),
        ("GOOGLE_BASE_URL", "google:gemini"),
        ("GOOGLE_GEMINI_BASE_URL", "google:gemini"),
        ("MY_SERVER_BASE_URL", "my-server:m"),
    ],
)
def test_an_address_with_a_password_is_refused(harness: RunHarness, variable: str, model: str) -> None:
    address = "http://me:hunter22@127.0.0.1:9/v1"
    ran = harness.run("hello", "--model", model, **{variable: address, "OPENAI_API_KEY": "x"})
    assert ran.code == 2, ran.err
    assert f"{variable}: an address must not have a name, password or query" in ran.err
    assert "hunter22" not in ran.err + ran.out


# -- sign-in ---------------------------------------------------------------------------------------------


METHODS = json.dumps(
    [{"id": "web", "name": "By browser", "description": "opens a page"}, {"id": "key", "name": "By key"}]
)


@pytest.mark.rule("auth.offers-login")
def test_an_agent_that_requires_sign_in_exits_with_6_and_lists_its_methods(harness: RunHarness) -> None:
    _, command, *args = odd_agent("wants-auth")
    harness.settings(servers={"mine": {"command": command, "args": args}})
    ran = harness.run("hello", "-a", "mine", AUTH_METHODS=METHODS)
    assert ran.code == 6
    assert "Authentication required (reason: no key) [-32000]" in ran.err
    assert "sign in with 'By browser' (opens a page): accord agents login mine web" in ran.err
    assert "sign in with 'By key': accord agents login mine key" in ran.err
    assert ran.err.count("By key") == 1


def test_a_terminal_method_is_shown_as_a_command_to_type(harness: RunHarness) -> None:
    method = {
        "type": "terminal",
        "id": "t",
        "name": "In a terminal",
        "args": ["--login"],
        "env": {"STEP": "1"},
    }
    ran = harness.run("hello", *odd_agent("wants-auth"), AUTH_METHODS=json.dumps([method]))
    assert ran.code == 6
    assert f"sign in with 'In a terminal': STEP=1 {sys.executable} {ODD_AGENT} wants-auth --login" in ran.err


def test_sign_in_required_during_a_turn_exits_with_6(harness: RunHarness) -> None:
    ran = harness.run("hello", *odd_agent("wants-auth-later"))
    assert ran.code == 6
    assert "the agent has no sign-in over ACP" in ran.err


# -- signals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_run_ends_its_agent(harness: RunHarness, tmp_path: Path, number: signal.Signals) -> None:
    pid = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "hello", *odd_agent("deaf")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=harness.cwd,
        env=harness.env(PID_FILE=str(pid)), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(7) == b"working"
        process.send_signal(number)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert not alive(int(pid.read_text()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_run_still_writes_the_end_of_its_turn(
    harness: RunHarness, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "accord.cli", "run", "hello", "--format", "json", *odd_agent("deaf")]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=harness.cwd,
        env=harness.env(), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while b"working" not in lines[-1]:
            lines.append(process.stdout.readline())
        process.send_signal(number)
        rest, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    *_, ended, result = [json.loads(line) for line in (*lines, *rest.splitlines())]
    assert (ended["type"], ended["stopReason"]) == ("turn_ended", "cancelled")
    assert (result["type"], result["stopReason"], result["exitCode"]) == ("result", "cancelled", 130)
    with open_store(harness.home / "data" / "client.db") as store:
        (summary,) = store.list(str(harness.cwd)).sessions
        assert isinstance(list(store.events(summary.session_id))[-1], TurnEnded)


def test_a_killed_run_leaves_no_agent(harness: RunHarness, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "hello", *odd_agent("stuck")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=harness.cwd,
        env=harness.env(PID_FILE=str(pid)), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(7) == b"working"
        agent = os.pidfd_open(int(pid.read_text()))
        try:
            process.kill()
            process.wait()
            select.select([agent], [], [])  # readable when the process has ended
        finally:
            os.close(agent)


def test_a_run_under_nohup_ignores_sighup(harness: RunHarness) -> None:
    command = shlex.join([sys.executable, "-m", "accord.cli", "run", "hello", *odd_agent("busy")])
    with subprocess.Popen(
        ["sh", "-c", f"trap '' HUP; exec {command}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=harness.cwd,
        env=harness.env(), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(7) == b"working"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"stopping; press Ctrl-C again to end the agent" in output, (
        "SIGHUP must be ignored, so that SIGINT is the first signal"
    )


def test_the_answer_is_written_before_the_agent_has_ended(harness: RunHarness, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "--format", "quiet", "hello", *odd_agent("hangs-around")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=harness.cwd,
        env=harness.env(PID_FILE=str(pid)), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(5) == b"done\n"
        assert alive(int(pid.read_text())), "the agent must still run when the answer is written"
        assert process.wait(PATIENCE) == 0
    assert not alive(int(pid.read_text()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_after_the_answer_lets_the_agent_end_by_itself(
    harness: RunHarness, tmp_path: Path, number: signal.Signals
) -> None:
    """A killed agent would leave its temporary files behind."""
    tidy = tmp_path / "tidy"
    agent = odd_agent("tidies", str(tidy))
    with subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "--format", "quiet", "hello", *agent],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=harness.cwd,
        env=harness.env(), start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.read(5) == b"done\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
    assert tidy.read_text() == "tidy"


def test_a_run_with_closed_streams_works(harness: RunHarness) -> None:
    command = shlex.join([sys.executable, "-m", "accord.cli", "run", "hello", *odd_agent("polite")])
    closed = subprocess.run(
        ["sh", "-c", f"{command} <&- >&-; echo $?"],
        cwd=harness.cwd, env=harness.env(), capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert (closed.stdout, closed.stderr) == ("0\n", "")


def test_a_reader_that_closes_early_ends_the_agent(harness: RunHarness, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "accord.cli", "run", "hello", *odd_agent("chatters")],
        stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE, cwd=harness.cwd,
        env=harness.env(PID_FILE=str(pid)), start_new_session=True,
    )  # fmt: skip
    os.close(write)
    assert os.read(read, 1)
    os.close(read)
    _, output = process.communicate(timeout=PATIENCE)
    assert b"Traceback" not in output
    assert not alive(int(pid.read_text()))


def test_stderr_of_the_agent_is_shown_on_request(harness: RunHarness, tmp_path: Path) -> None:
    program = tmp_path / "noisy.py"
    program.write_text(
        "import accord\n"
        "agent = accord.Agent('noisy')\n"
        "@agent.prompt\n"
        "async def reply(turn):\n"
        "    print('looking around')\n"
        "    await turn.say('Done.')\n"
        "agent.serve()\n"
    )
    shown = harness.run("hello", "--stderr", "--", sys.executable, str(program))
    assert (shown.code, "accord run: agent: looking around\n" in shown.err) == (0, True)
    hidden = harness.run("hello", "--", sys.executable, str(program))
    assert (hidden.code, "looking around" in hidden.err) == (0, False)
    refused = harness.run("hello", "--stderr", "--url", "ws://127.0.0.1:1/acp")
    assert refused.code == 2
    assert "--stderr needs an agent that is started here" in refused.err
