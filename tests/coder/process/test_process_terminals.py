"""Commands in the client's terminals run exactly as they were approved, or on the agent's side.

The clients here start real processes, some of them through a shell with missing or wrong quotes.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.coder.process.editor import Chat, TurnRecord, started
from tests.coder.process.terminals import (
    Terminals,
    elsewhere,
    in_double_quotes,
    in_escaped_quotes,
    in_single_quotes,
    joined,
)

TERMINAL = {"terminal": True}
NOTICES = {"terminal": True, "session": {"notices": {}}}
Start = Callable[[str, list[str]], list[str]]
changes_arguments = pytest.mark.parametrize(
    "start",
    [joined, in_double_quotes, in_escaped_quotes, in_single_quotes, elsewhere],
    ids=lambda start: start.__name__,
)


async def run(chat: Chat, line: str) -> TurnRecord:
    """Let the model run one shell line."""
    return await chat.turn(f"run {line}")


def heading(params: Any) -> str:
    """Return what an editor shows above a terminal."""
    return " ".join((params["command"], *params["args"]))


@pytest.fixture
def build(project: Path) -> Path:
    """Create a folder whose content may be deleted, beside files that must stay."""
    folder = project / "build"
    folder.mkdir()
    (folder / "old.o").write_text("old")
    return folder


@changes_arguments
async def test_approved_command_deletes_only_what_it_names(
    home: Path, project: Path, build: Path, start: Start
) -> None:
    """`cd build && rm -rf *` never runs in another folder, however the client quotes arguments."""
    before = sorted(path.name for path in project.iterdir())
    async with started(home, project, capabilities=TERMINAL) as editor:
        terminals = Terminals(editor, start)
        chat = await editor.new()
        record = await run(chat, "cd build && rm -rf *")
        await terminals.aclose()
    assert sorted(path.name for path in project.iterdir()) == before
    assert list(build.iterdir()) == []
    assert record.call["status"] == "completed"


@changes_arguments
@pytest.mark.parametrize(
    "line",
    [
        'echo a ; d=.. ; touch "$d/escaped"',
        'echo "$(d=..; touch $d/escaped; echo b)"',
        "echo it's \\' && d=.. && touch $d/escaped",
        "echo `d=..; touch $d/escaped`",
        "echo c\nd=..\ntouch $d/escaped",
    ],
)
async def test_sandboxed_command_writes_nothing_outside(
    home: Path, project: Path, start: Start, line: str
) -> None:
    """In `workspace-write`, no client lets a command write outside the roots without a question."""
    async with started(home, project, capabilities=TERMINAL) as editor:
        terminals = Terminals(editor, start)
        chat = await editor.new()
        await chat.do("session/set_mode", modeId="workspace-write")
        await run(chat, "echo first")
        await run(chat, line)
        await terminals.aclose()
        assert editor.asked_for("session/request_permission") == []
    assert not (project.parent / "escaped").exists()


@changes_arguments
async def test_client_that_changes_arguments_gets_no_further_commands(
    home: Path, project: Path, start: Start
) -> None:
    """The commands run on the agent's side instead, and the session says so once."""
    async with started(home, project, capabilities=NOTICES) as editor:
        terminals = Terminals(editor, start)
        chat = await editor.new()
        since = len(editor.wire.heard)
        for line in ("echo one > one.txt", "echo two && echo two > two.txt", "pwd"):
            assert (await run(chat, line)).call["rawOutput"]["exit_code"] == 0
        await terminals.aclose()
        assert len(terminals.opened) == 1
        [notice] = [
            update["params"]["update"]
            for update in editor.wire.heard[since:]
            if update.get("method") == "session/update"
            and update["params"]["update"]["sessionUpdate"] == "notice"
            and update["params"]["update"]["title"] == "Terminals"
        ]
        assert "commands run on the agent's side" in notice["description"]
        listed = await chat.turn("/tools")
        assert "commands do not run in the client's terminals" in listed.text
    assert (project / "one.txt").read_text() == "one\n"
    assert (project / "two.txt").read_text() == "two\n"


async def test_clients_without_notices_are_told_in_a_message_of_its_own(home: Path, project: Path) -> None:
    async with started(home, project, capabilities=TERMINAL) as editor:
        terminals = Terminals(editor, joined)
        chat = await editor.new()
        record = await run(chat, "pwd")
        await terminals.aclose()
        [told] = [
            update
            for update in record.of("agent_message_chunk")
            if "commands run on the agent's side" in update["content"]["text"]
        ]
        others = {update["messageId"] for update in record.of("agent_message_chunk") if update is not told}
        assert told["messageId"] not in others


async def test_check_contains_every_critical_character(home: Path, project: Path) -> None:
    """A client has to pass on spaces, all quotes, `;`, `&&`, `$`, backslashes and a newline unchanged."""
    async with started(home, project, capabilities=TERMINAL) as editor:
        terminals = Terminals(editor)
        chat = await editor.new()
        await run(chat, "pwd")
        await run(chat, "pwd")
        await terminals.aclose()
        first, second = terminals.opened
    [flag, line, check] = first["args"]
    assert (flag, line) == ("-c", "pwd")
    assert all(part in check for part in (" ", "'", '"', "`", ";", "&&", "|", "$", "\\", "*", "\t", "\n"))
    assert second["args"] == ["-c", "pwd"], "the check is not repeated"


@pytest.mark.parametrize("config", ["", "[sandbox]\nenabled = false\n"])
async def test_terminal_shows_the_command_and_no_sandbox(home: Path, project: Path, config: str) -> None:
    """Editors head a terminal with its command: no launcher options, no extra terminal, no variables."""
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text(config)
    async with started(home, project, capabilities=TERMINAL, stderr=None) as editor:
        terminals = Terminals(editor)
        chat = await editor.new()
        for line in ("echo made > a.txt", "cat a.txt | tr a-z A-Z", "pwd"):
            record = await run(chat, line)
            assert record.call["status"] == "completed"
        await terminals.aclose()
        headings = [heading(params) for params in terminals.opened]
    assert all(params.get("env", []) == [] for params in terminals.opened)
    check, *commands = headings
    assert check.partition(" ")[2].startswith("-c : # checks that this terminal changes nothing:")
    assert [command.partition("/bash ")[2] for command in commands] == [
        "-c echo made > a.txt",
        "-c cat a.txt | tr a-z A-Z",
        "-c pwd",
    ]
    for text in headings:
        assert not any(word in text for word in ("python", "bwrap", "sandbox", "--args", "-I -S")), text
        assert len(text.partition(" ")[0]) < 60


async def test_plain_first_command_opens_no_other_terminal(home: Path, project: Path) -> None:
    async with started(home, project, capabilities=TERMINAL) as editor:
        terminals = Terminals(editor)
        chat = await editor.new()
        record = await run(chat, "ls -l a.py")
        await terminals.aclose()
        assert len(terminals.opened) == 1
        assert "a.py" in record.call["rawOutput"]["output"]
        assert [method for method, _ in terminals.asked][-1] == "release"


async def test_client_without_variables_and_with_its_own_folder_runs_commands_correctly(
    home: Path, project: Path, tmp_path: Path
) -> None:
    """Neither the environment nor the folder of a command depends on the client."""
    other = tmp_path / "other"
    other.mkdir()
    (project / "sub").mkdir()
    async with started(home, project, capabilities=TERMINAL) as editor:
        terminals = Terminals(editor, passes_env=False, cwd=other)
        chat = await editor.new()
        record = await run(chat, "pwd; echo $PAGER")
        await terminals.aclose()
        assert record.call["rawOutput"]["output"].split() == [str(project), "cat"]


async def test_launcher_runs_at_most_once_and_leaves_no_files(home: Path, project: Path) -> None:
    """A launcher that a client starts again, or after the turn, does nothing."""
    launchers: list[list[str]] = []

    def remember(command: str, args: list[str]) -> list[str]:
        launchers.append([command, *args])
        words = shlex.join([command, *args])
        return ["/bin/sh", "-c", f"{words}; {words}"]

    async with started(home, project, capabilities=TERMINAL) as editor:
        terminals = Terminals(editor, remember)
        chat = await editor.new()
        record = await run(chat, "echo more >> a.py")
        await terminals.aclose()
        assert record.call["rawOutput"]["exit_code"] == 125
        assert "has run already" in record.call["rawOutput"]["output"]
    assert (project / "a.py").read_text().count("more") == 1
    assert not any(Path(program).exists() for program, *_ in launchers)
