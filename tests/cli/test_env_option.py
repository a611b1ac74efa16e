"""`--env` passes variables to an agent; a failed turn names the credentials that the agent did not get."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.accord_command import run_accord
from tests.cli.agent_process import environment
from tests.cli.run.run_harness import ODD_AGENT, RunHarness, odd_agent
from tests.cli.serve.gateway_process import running_gateway

from accord.client import connect
from accord.errors import RpcError

KEYS = {"DEMO_API_KEY": "demo-value", "TEAM_TOKEN": "team-value"}
HINT = (
    "not passed to the agent, because they look like credentials: DEMO_API_KEY, TEAM_TOKEN; "
    "if it needs one, add --env NAME (for example --env DEMO_API_KEY)"
)


@pytest.fixture
def harness(tmp_path: Path) -> RunHarness:
    return RunHarness(tmp_path)


def accord(
    harness: RunHarness, *words: str, stdin: str = "", **env: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command of Accord without a terminal."""
    return run_accord(*words, stdin=stdin, cwd=harness.cwd, env=environment(harness.home, **env))


@pytest.mark.parametrize("behavior", ["fails", "wants-auth", "wants-auth-later", "dies", "wrong-answer"])
def test_a_failed_run_names_the_withheld_variables(harness: RunHarness, behavior: str) -> None:
    ran = harness.run("hello", *odd_agent(behavior), **KEYS)
    assert ran.code != 0
    assert HINT in ran.err
    assert not [value for value in KEYS.values() if value in ran.err + ran.out]


def test_a_named_agent_gets_a_hint_for_its_file_too(harness: RunHarness) -> None:
    _, command, *args = odd_agent("fails")
    harness.settings(servers={"mine": {"command": command, "args": args, "env": {"TEAM_TOKEN": None}}})
    ran = harness.run("hello", "-a", "mine", **KEYS)
    line = next(line for line in ran.err.splitlines() if "not passed to the agent" in line)
    assert "credentials: DEMO_API_KEY; " in line  # TEAM_TOKEN is removed on purpose
    assert line.endswith(', or write "env": {"DEMO_API_KEY": "${DEMO_API_KEY}"} into its acp.json entry')


def test_the_hint_is_a_note_of_the_json_events(harness: RunHarness) -> None:
    ran = harness.run("hello", "--format", "json", *odd_agent("fails"), **KEYS)
    assert HINT in [event["text"] for event in ran.events if event["type"] == "note"]


@pytest.mark.parametrize("behavior", ["wants-auth", "fails"])
async def test_the_gateway_logs_the_variables_that_it_withheld(harness: RunHarness, behavior: str) -> None:
    token = accord(harness, "serve", "token", "new", "--plain").stdout.strip()
    with running_gateway(harness.home, *odd_agent(behavior), **KEYS) as gateway:
        async with connect(gateway.websocket, token=token) as agent:
            for _ in range(2):
                with pytest.raises(RpcError):
                    await (await agent.new_session(harness.cwd)).ask("hello")
        gateway.signal()
        _, output = gateway.end()
    lines = [line for line in output.splitlines() if "not passed to the agent" in line]
    assert len(lines) == 1, output
    assert "credentials: DEMO_API_KEY, TEAM_TOKEN; if it needs one, write" in lines[0]
    assert "accord agents add NAME --env DEMO_API_KEY -- COMMAND" in lines[0]
    assert not [value for value in KEYS.values() if value in output]


@pytest.mark.parametrize("words", [["hello", *odd_agent("echo")], ["hello", "--", "no-such-program"]])
def test_no_variables_are_named_without_a_reason(harness: RunHarness, words: list[str]) -> None:
    assert "not passed" not in harness.run(*words, **KEYS).err


def test_a_failed_turn_of_a_plain_chat_names_the_withheld_variables(harness: RunHarness) -> None:
    done = accord(harness, "chat", *odd_agent("fails"), stdin="hello\n", **KEYS)
    assert done.returncode == 1
    assert f"accord chat: {HINT}\n" in done.stderr
    refused = accord(harness, "chat", *odd_agent("wants-auth"), stdin="hello\n", **KEYS)
    assert f"accord chat: {HINT}\n" in refused.stderr


OPTIONS = ["--env", "DEMO_API_KEY", "--env", "TEAM_TOKEN=other=1", "--env", "EMPTY="]
SEEN = {"DEMO_API_KEY": "demo-value", "TEAM_TOKEN": "other=1", "EMPTY": "", "THIRD_TOKEN": None}


def test_run_and_chat_pass_variables_on(harness: RunHarness) -> None:
    agent = odd_agent("environment", *SEEN)
    keys = {**KEYS, "THIRD_TOKEN": "third"}
    ran = harness.run("hello", "--format", "quiet", *OPTIONS, *agent, **keys)
    assert json.loads(ran.out)["env"] == SEEN, ran.err
    chatted = accord(harness, "chat", *OPTIONS, *agent, stdin="hello\n", **keys)
    assert json.dumps(SEEN) in chatted.stdout, chatted.stderr


def test_a_variable_on_the_command_line_wins_over_the_file(harness: RunHarness) -> None:
    _, command, *args = odd_agent("environment", "LEVEL", "TEAM_TOKEN")
    env = {"LEVEL": "1", "TEAM_TOKEN": None}
    harness.settings(servers={"mine": {"command": command, "args": args, "env": env}})
    words = ("hello", "--format", "quiet", "-a", "mine", "--env", "LEVEL=${HOME}", "--env", "TEAM_TOKEN")
    ran = harness.run(*words, **KEYS)
    assert json.loads(ran.out)["env"] == {"LEVEL": "${HOME}", "TEAM_TOKEN": "team-value"}


@pytest.mark.parametrize("command", [["run", "hello"], ["chat"], ["check", "agent"], ["trace", "record"]])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("MISSING_KEY", "--env MISSING_KEY: MISSING_KEY is not set in your environment; set it, or use"),
        ("sk-verysecret", "--env needs NAME or NAME=VALUE"),
        ("=x", "--env needs NAME or NAME=VALUE"),
    ],
)
def test_an_unusable_variable_is_one_clear_line(
    harness: RunHarness, command: list[str], value: str, expected: str
) -> None:
    done = accord(harness, *command, "--env", value, "--", "some-agent")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert expected in done.stderr
    assert "verysecret" not in done.stderr


def test_a_remote_agent_takes_no_variables(harness: RunHarness) -> None:
    ran = harness.run("hello", "--url", "ws://localhost:1", "--env", "DEMO_API_KEY", **KEYS)
    assert ran.code == 2
    assert "--env does not reach an agent at --url" in ran.err


def test_trace_record_passes_variables_on_and_does_not_record_them(
    harness: RunHarness, tmp_path: Path
) -> None:
    file = tmp_path / "trace.jsonl"
    code = "import os; print(os.environ['DEMO_API_KEY'][::-1], os.environ['TEAM_TOKEN'][::-1])"
    words = ("trace", "record", "-o", str(file), *OPTIONS, "--", sys.executable, "-c", code)
    done = accord(harness, *words, **KEYS)
    assert done.stdout == f"{'demo-value'[::-1]} {'other=1'[::-1]}\n", done.stderr
    assert "demo-value" not in file.read_text()
    assert "other=1" not in file.read_text()


def test_check_passes_variables_on(harness: RunHarness, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    code = (
        "import os, sys, json, runpy\n"
        f"open({str(seen)!r}, 'a').write(os.environ.get('LEVEL', '-') + os.environ['ACCORD_HOME'] + '\\n')\n"
        f"sys.argv = [{ODD_AGENT!r}, 'wants-auth']\n"
        f"runpy.run_path({ODD_AGENT!r}, run_name='__main__')\n"
    )
    options = ("--only", "92", "--env", "LEVEL=3", "--env", "ACCORD_HOME=/nowhere", "--verbose")
    done = accord(harness, "check", "agent", *options, "--", sys.executable, "-c", code)
    assert "pass a key with --env NAME" in done.stdout, done.stderr
    lines = seen.read_text().splitlines()
    assert lines
    assert all(line.startswith("3") and "/nowhere" not in line for line in lines)


def test_agents_add_stores_a_bare_name_as_a_reference(harness: RunHarness) -> None:
    agent = odd_agent("environment", "DEMO_API_KEY")
    done = accord(harness, "agents", "add", "mine", "--env", "DEMO_API_KEY", *agent, **KEYS)
    assert done.returncode == 0, done.stderr
    written = (harness.home / "config" / "acp.json").read_text()
    assert json.loads(written)["servers"]["mine"]["env"] == {"DEMO_API_KEY": "${DEMO_API_KEY}"}
    assert "demo-value" not in written
    ran = harness.run("hello", "--format", "quiet", "-a", "mine", **KEYS)
    assert json.loads(ran.out)["env"] == {"DEMO_API_KEY": "demo-value"}


def test_a_known_agent_behind_an_interpreter_gets_its_key(harness: RunHarness, tmp_path: Path) -> None:
    script = tmp_path / "claude-agent-acp.py"
    script.write_text(Path(ODD_AGENT).read_text())
    names = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
    env = {"ANTHROPIC_API_KEY": "a-value", "OPENAI_API_KEY": "o-value"}
    link = tmp_path / "my-agent"
    link.symlink_to(script)
    script.chmod(0o755)
    wrapped = ["env", "LEVEL=1", sys.executable, os.fspath(link)]
    for command in ([sys.executable, str(script)], wrapped):
        ran = harness.run("hello", "--format", "quiet", "--", *command, "environment", *names, **env)
        assert json.loads(ran.out)["env"] == {"ANTHROPIC_API_KEY": "a-value", "OPENAI_API_KEY": None}
