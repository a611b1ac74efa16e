"""A project's file counts only once the user agreed to its content: asked on a real terminal, refused without one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminal import in_terminal, program_in_terminal
from tests.client.servers.stage import Stage

from accord.client.servers import NotTrusted, UnknownAgent, ask, leave_out, load, once
from accord.policy.trust import Trust

THEIRS = {
    "servers": {
        "helper": {
            "command": "./tools/helper",
            "args": ["--acp", "two words"],
            "env": {"KEY": "${OPENAI_API_KEY}", "MODE": "fast"},
            "mcpServers": {"docs": {"command": "docs-server", "env": {"T": "${DOCS_TOKEN}"}}},
        }
    },
    "mcpServers": {"web": {"url": "https://web.example"}},
    "defaultServer": "helper",
}


def env(stage: Stage) -> dict[str, str]:
    return {**os.environ, "ACCORD_HOME": str(stage.home)}


def test_it_is_refused_until_somebody_agreed(stage: Stage) -> None:
    path = stage.of_project(THEIRS)
    with pytest.raises(NotTrusted) as caught:
        load(stage.project)
    assert str(caught.value) == (
        f"{path}: you have not agreed to this file, which can start programs: "
        "look at it and run this once in a terminal, or pass --trust"
    )
    Trust().trust(path, path.read_bytes())
    assert load(stage.project).default.name == "helper"


def test_any_change_needs_a_new_agreement(stage: Stage) -> None:
    path = stage.of_project(THEIRS)
    Trust().trust(path, path.read_bytes())
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(NotTrusted):
        load(stage.project)


def test_trust_for_one_run_is_not_kept(stage: Stage) -> None:
    stage.of_project(THEIRS)
    assert load(stage.project, trust=once).default.name == "helper"
    with pytest.raises(NotTrusted):
        load(stage.project)


def test_left_out_it_counts_for_nothing_and_is_named_when_it_is_missed(stage: Stage) -> None:
    path = stage.of_project(THEIRS)
    servers = load(stage.project, trust=leave_out)
    assert servers.default.name == "accord"
    assert servers["accord"].mcp == ()
    with pytest.raises(UnknownAgent, match=f"the agent 'helper' stands in {path}, which does not count"):
        servers["helper"]


def test_the_users_own_file_needs_no_agreement_wherever_one_stands(stage: Stage) -> None:
    path = stage.user({"servers": {"mine": {"command": "x"}}})
    assert load(path.parent)["mine"].origin == "user"


def test_without_a_terminal_nobody_is_asked(stage: Stage) -> None:
    stage.of_project(THEIRS)
    code = "import sys; from accord.client.servers import ask, load; load(sys.argv[1], trust=ask)"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(stage.project)],
        env=env(stage), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "NotTrusted" in ran.stderr
    assert ask is not None


def test_a_yes_on_the_terminal_is_kept(stage: Stage) -> None:
    path = stage.of_project(THEIRS)
    with in_terminal("agents", "trust", "--cwd", str(stage.project), env=env(stage)) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        assert terminal.end() == 0
    told = terminal.shown.replace("\r\n", "\n")
    assert f"{path} is new or has changed since you agreed to it." in told
    assert f"Agent helper runs {stage.project}/tools/helper --acp 'two words'" in told
    assert "with KEY=${OPENAI_API_KEY}" in told
    assert "and so gets your OPENAI_API_KEY" in told
    assert "MCP server docs runs docs-server with " in told
    assert "=${DOCS_TOKEN} and gets your DOCS_TOKEN" in told
    assert "MCP server web for every agent is at https://web.example" in told
    assert "The agent that runs by default becomes helper" in told
    assert load(stage.project).default.name == "helper"


@pytest.mark.parametrize("typed", ["\n", "n\n", "yeah\n", "\x04"])
def test_anything_else_is_a_no(stage: Stage, typed: str) -> None:
    stage.of_project(THEIRS)
    with in_terminal("agents", "trust", "--cwd", str(stage.project), env=env(stage)) as terminal:
        terminal.expect("[y/N] ")
        terminal.type(typed)
        assert terminal.end() == 1
    assert "It does not count." in terminal.shown
    with pytest.raises(NotTrusted):
        load(stage.project)


def test_ctrl_c_at_the_question_is_no_agreement(stage: Stage) -> None:
    stage.of_project(THEIRS)
    with in_terminal("agents", "trust", "--cwd", str(stage.project), env=env(stage)) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("\x03")
        assert terminal.end() == 130
    with pytest.raises(NotTrusted):
        load(stage.project)


def test_a_file_cannot_hide_what_it_runs(stage: Stage) -> None:
    stage.of_project(
        {"servers": {"a": {"command": "evil\x1b[2K\rnice", "args": ["\u202egpj.exe", "\x9b31m"]}}}
    )
    with in_terminal("agents", "trust", "--cwd", str(stage.project), env=env(stage)) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("n\n")
        terminal.end()
    assert "\\x1b[2K\\rnice" in terminal.shown
    assert "\\u202egpj.exe" in terminal.shown
    assert not {"\x1b", "\x9b", "\u202e"} & set(terminal.shown)


def test_the_same_content_elsewhere_is_another_file(stage: Stage, tmp_path: Path) -> None:
    path = stage.of_project(THEIRS)
    Trust().trust(path, path.read_bytes())
    other = tmp_path / "other"
    other.mkdir()
    (other / "acp.json").write_bytes(path.read_bytes())
    with pytest.raises(NotTrusted):
        load(other)


def test_what_was_typed_before_the_question_does_not_answer_it(stage: Stage) -> None:
    stage.of_project(THEIRS)
    # Only when the keys lie in the terminal does the question come.
    code = (
        "import sys; print('ready', flush=True); "
        "import select; select.select([sys.stdin], [], []); "
        "from accord.client.servers import ask, load; print(load(sys.argv[1], trust=ask).default.name)"
    )
    with program_in_terminal(sys.executable, "-c", code, str(stage.project), env=env(stage)) as terminal:
        terminal.expect("ready")
        terminal.type("y\n")
        terminal.expect("[y/N] ")
        terminal.type("n\n")
        assert terminal.end() == 0
    assert "It does not count." in terminal.shown
    assert terminal.shown.rstrip().endswith("accord")
