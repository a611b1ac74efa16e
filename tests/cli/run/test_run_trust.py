"""`accord run` in a folder with an untrusted `acp.json`: it asks on a terminal, and a no is respected."""

import json

import pytest
from tests.cli.run.run_harness import RunHarness, odd_agent
from tests.cli.terminal import in_terminal


def entry() -> dict[str, object]:
    _, command, *args = odd_agent("theirs")
    return {"command": command, "args": args}


def answered(harness: RunHarness, file: object, answer: str, *words: str) -> tuple[int, str]:
    """Return the exit code, and the text shown after the answer."""
    (harness.cwd / "acp.json").write_text(json.dumps(file))
    with in_terminal(
        "run", "--cwd", str(harness.cwd), "--format", "quiet", "hello", *words, env=harness.env(TERM="xterm")
    ) as terminal:
        terminal.expect("Trust this folder's acp.json? [y/N] ")
        terminal.type(answer)
        code = terminal.end()
    shown = terminal.shown.replace("\r\n", "\n").partition("[y/N] ")[2]
    return code, shown.partition("\n")[2]


def test_a_yes_runs_the_agent_of_the_project(harness: RunHarness) -> None:
    file = {"servers": {"helper": entry()}, "defaultServer": "helper"}
    assert answered(harness, file, "y\r") == (0, "theirs: hello\n")


@pytest.mark.parametrize(
    ("default", "words", "agent"),
    [
        ({"defaultServer": "helper"}, (), "helper"),
        ({"defaultServer": "accord"}, (), "accord"),
        ({}, ("-a", "Helper"), "Helper"),
    ],
)
def test_a_no_does_not_run_another_agent_in_its_place(
    harness: RunHarness, default: dict[str, str], words: tuple[str, ...], agent: str
) -> None:
    harness.settings(servers={"helper": entry()})
    code, shown = answered(harness, {"servers": {"helper": {"command": "x"}}, **default}, "n\r", *words)
    assert code == 2
    assert shown.splitlines()[-1] == (
        f"accord run: {agent!r} comes from an untrusted file ({harness.cwd / 'acp.json'}); "
        "run `accord agents trust` to allow it, or name another agent"
    )


def test_a_no_does_not_affect_agents_outside_the_file(harness: RunHarness) -> None:
    harness.settings(servers={"mine": entry()}, defaultServer="mine")
    file = {"servers": {"helper": {"command": "x"}}}
    assert answered(harness, file, "n\r") == (0, "Not trusted; acp.json is ignored.\ntheirs: hello\n")
    assert answered(harness, file | {"defaultServer": "helper"}, "n\r", "-a", "mine")[0] == 0
