"""`accord proxy` with real programs: the official SDK on both sides, exit codes, and wrong usage."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from accord.cli import main

ROOT = Path(__file__).parents[2]
OFFICIAL = Path(__file__).parents[1] / "compat"
EXAMPLE = ROOT / "examples/proxy.py"
PROXY = (sys.executable, "-m", "accord.cli", "proxy")
COUNTING = """
from accord.proxy import Middleware

class Counting(Middleware):
    def update(self, notification):
        notification.update.content.text = notification.update.content.text.upper()
        return notification

    async def prompt(self, request, call_next):
        return await call_next(request)

    async def permission(self, request, call_next):
        return await call_next(request)
"""


def run(*command: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_an_official_client_and_agent_talk_through_a_proxy(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    client, agent = str(OFFICIAL / "official_client.py"), str(OFFICIAL / "official_agent.py")
    use = ("--use", f"{tmp_path}/counting.py:Counting")
    # The order of the client's own output is that of `accord.compat`; its messages are the SDK's.
    done = run(sys.executable, "-m", "accord.compat", client, *PROXY, *use, "--", sys.executable, agent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [
        *(f"UPDATE {number}" for number in range(20)),
        "FILE: HELLO FROM THE CLIENT",
        "stop: end_turn",
        "error: -32602 Invalid params",
        "extension: {'echo': {'a': 1}}",
        "stop: cancelled",
    ]


def test_the_example_is_short_and_runs_as_a_program_and_as_a_middleware() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 40
    agent = (sys.executable, "-c", "import sys; print(sys.stdin.read(), end=''); sys.exit(7)")
    line = '{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}\n'
    for command in (
        (sys.executable, str(EXAMPLE), *agent),
        (*PROXY, "--use", f"{EXAMPLE}:HouseRules", "--", *agent),
    ):
        done = run(*command, text=line)
        assert (done.returncode, done.stderr) == (7, "")
        assert done.stdout.startswith(line[:-5] + '[{"type":"text","text":"Answer in one sentence."}]}}\n')


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "agent"], "missing middleware; use `accord proxy --use MODULE:NAME -- COMMAND ...`, or"),
        (["--use", "shout", "--", "x"], "--use shout: write MODULE:NAME or FILE.py:NAME"),
        (
            ["--use", "no_such:Shout", "--", "x"],
            "No module named 'no_such'; write a file as `./FILE.py:NAME`",
        ),
        (["--use", "./no.py:Shout", "--", "x"], "there is no file "),
        (["--use", "json:nothing", "--", "x"], "module 'json' has no attribute 'nothing'"),
        (["--use", "json:JSONDecoder", "--", "x"], "JSONDecoder is no subclass of accord.proxy.Middleware"),
        (["--use", "accord.proxy:Middleware", "no-such-agent"], "put the agent's command after `--`"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proxy", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("accord proxy: ")
    assert message in said
    assert said.count("\n") == 1


def test_a_program_that_does_not_exist_is_one_line() -> None:
    done = run(*PROXY, "--use", "accord.proxy:Middleware", "--", "no-such-agent")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("accord proxy: ")
    assert done.stderr.count("\n") == 1
