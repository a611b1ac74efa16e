"""`accord run` in a folder whose `acp.json` the user has not agreed to: asked on a terminal, and a no is a no."""

import json

import pytest
from tests.cli.run.running import Place, odd
from tests.cli.terminal import in_terminal


def entry() -> dict[str, object]:
    _, command, *args = odd("theirs")
    return {"command": command, "args": args}


def answered(place: Place, file: object, answer: str, *words: str) -> tuple[int, str]:
    """The exit code, and what was shown behind the answer."""
    (place.cwd / "acp.json").write_text(json.dumps(file))
    with in_terminal(
        "run", "--cwd", str(place.cwd), "--format", "quiet", "hello", *words, env=place.env(TERM="xterm")
    ) as terminal:
        terminal.expect("Let it count? Only a yes does. [y/N] ")
        terminal.type(answer)
        code = terminal.end()
    shown = terminal.shown.replace("\r\n", "\n").partition("[y/N] ")[2]
    return code, shown.partition("\n")[2]


def test_a_yes_runs_the_projects_agent(place: Place) -> None:
    file = {"servers": {"helper": entry()}, "defaultServer": "helper"}
    assert answered(place, file, "y\r") == (0, "theirs: hello\n")


@pytest.mark.parametrize(
    ("default", "words", "which"),
    [
        ({"defaultServer": "helper"}, (), "by default, 'helper',"),
        ({"defaultServer": "accord"}, (), "by default, 'accord',"),
        ({}, ("-a", "Helper"), "by this name, 'Helper',"),
    ],
)
def test_a_no_does_not_run_another_agent_than_the_folder_means(
    place: Place, default: dict[str, str], words: tuple[str, ...], which: str
) -> None:
    place.settings(servers={"helper": entry()})
    code, shown = answered(place, {"servers": {"helper": {"command": "x"}}, **default}, "n\r", *words)
    assert code == 2
    assert shown.splitlines()[-1] == (
        f"accord run: the agent that runs here {which} is set up by {place.cwd / 'acp.json'}, which does not count: "
        "agree to it, or name another agent"
    )


def test_a_no_leaves_agents_that_the_file_does_not_speak_of(place: Place) -> None:
    place.settings(servers={"mine": entry()}, defaultServer="mine")
    file = {"servers": {"helper": {"command": "x"}}}
    assert answered(place, file, "n\r") == (0, "It does not count.\ntheirs: hello\n")
    assert answered(place, file | {"defaultServer": "helper"}, "n\r", "-a", "mine")[0] == 0
