"""`accord run` in a folder with an untrusted `acp.json`: it asks on a terminal, and a no is respected."""

import json

import pytest
from tests.cli.run.run_harness import RunHarness, odd_agent
from tests.cli.terminal import in_terminal


def entry() -> dict[str, object]:
    _, command, *args = odd_agent("theirs")
    return {"command": command, "args": args}


def run_and_answer(harness: RunHarness, file: object, answer: str, *words: str) -> tuple[int, str]:
    """Return the exit code, and the text shown after the answer."""
    (harness.cwd / "acp.json").write_text(json.dumps(file))
    env = harness.env(TERM="xterm", PYTHONUNBUFFERED="")  # the question appears without it
    with in_terminal(
        "run", "--cwd", str(harness.cwd), "--format", "quiet", "hello", *words, env=env
    ) as terminal:
        terminal.expect("Trust this folder's acp.json? [y/N] ")
        terminal.type(answer)
        code = terminal.end()
    output = terminal.shown.replace("\r\n", "\n").partition("[y/N] ")[2]
    return code, output.partition("\n")[2]


def test_trusting_the_file_runs_its_agent(harness: RunHarness) -> None:
    file = {"servers": {"helper": entry()}, "defaultServer": "helper"}
    assert run_and_answer(harness, file, "y\r") == (0, "theirs: hello\n")


@pytest.mark.parametrize(
    ("default", "words", "agent"),
    [
        ({"defaultServer": "helper"}, (), "helper"),
        ({"defaultServer": "accord"}, (), "accord"),
        ({}, ("-a", "Helper"), "Helper"),
    ],
)
def test_refusing_the_file_does_not_run_another_agent_of_that_name(
    harness: RunHarness, default: dict[str, str], words: tuple[str, ...], agent: str
) -> None:
    harness.settings(servers={"helper": entry()})
    code, output = run_and_answer(
        harness, {"servers": {"helper": {"command": "x"}}, **default}, "n\r", *words
    )
    assert code == 2
    assert output.splitlines()[-1] == (
        f"accord run: {agent!r} comes from an untrusted file ({harness.cwd / 'acp.json'}); "
        "run `accord agents trust` to allow it, or name another agent"
    )


def test_refusing_the_file_does_not_affect_other_agents(harness: RunHarness) -> None:
    harness.settings(servers={"mine": entry()}, defaultServer="mine")
    file = {"servers": {"helper": {"command": "x"}}}
    assert run_and_answer(harness, file, "n\r") == (0, "Not trusted; acp.json is ignored.\ntheirs: hello\n")
    assert run_and_answer(harness, file | {"defaultServer": "helper"}, "n\r", "-a", "mine")[0] == 0
