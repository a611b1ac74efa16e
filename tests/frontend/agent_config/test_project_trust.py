"""A project file is used only after the user trusted it: asked on a terminal, refused without one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminal import in_terminal, program_in_terminal
from tests.frontend.agent_config.config_folders import ConfigFolders

from accord.frontend.agent_config import NotTrusted, UnknownAgent, ask, leave_out, load, once
from accord.policy.trust_store import TrustStore

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


def env(folders: ConfigFolders) -> dict[str, str]:
    return {**os.environ, "ACCORD_HOME": str(folders.home)}


def test_a_project_file_is_refused_until_it_is_trusted(folders: ConfigFolders) -> None:
    path = folders.write_project_file(THEIRS)
    with pytest.raises(NotTrusted) as caught:
        load(folders.project)
    assert str(caught.value) == (
        f"{path} is not trusted, and it can start programs; "
        "check it and run `accord agents trust`, or pass --trust"
    )
    TrustStore().trust(path, path.read_bytes())
    assert load(folders.project).default.name == "helper"


def test_a_changed_file_must_be_trusted_again(folders: ConfigFolders) -> None:
    path = folders.write_project_file(THEIRS)
    TrustStore().trust(path, path.read_bytes())
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(NotTrusted):
        load(folders.project)


def test_trust_for_one_run_is_not_stored(folders: ConfigFolders) -> None:
    folders.write_project_file(THEIRS)
    assert load(folders.project, trust=once).default.name == "helper"
    with pytest.raises(NotTrusted):
        load(folders.project)


def test_an_ignored_file_has_no_effect_and_is_named_for_its_agents(folders: ConfigFolders) -> None:
    path = folders.write_project_file(THEIRS)
    servers = load(folders.project, trust=leave_out)
    assert servers.default.name == "accord"
    assert servers["accord"].mcp == ()
    with pytest.raises(UnknownAgent, match=f"the agent 'helper' is in {path}, which is not trusted"):
        servers["helper"]


def test_the_users_file_needs_no_trust_in_any_folder(folders: ConfigFolders) -> None:
    path = folders.write_user_file({"servers": {"mine": {"command": "x"}}})
    assert load(path.parent)["mine"].origin == "user"


def test_without_a_terminal_the_file_is_refused(folders: ConfigFolders) -> None:
    folders.write_project_file(THEIRS)
    code = "import sys; from accord.frontend.agent_config import ask, load; load(sys.argv[1], trust=ask)"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(folders.project)],
        env=env(folders), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "NotTrusted" in ran.stderr
    assert ask is not None


def test_trust_given_on_the_terminal_is_stored(folders: ConfigFolders) -> None:
    path = folders.write_project_file(THEIRS)
    with in_terminal("agents", "trust", "--cwd", str(folders.project), env=env(folders)) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("y\n")
        assert terminal.end() == 0
    shown = terminal.shown.replace("\r\n", "\n")
    assert f"{path} is new or has changed since you trusted it." in shown
    assert f"Agent helper runs {folders.project}/tools/helper --acp 'two words'" in shown
    assert "with KEY=${OPENAI_API_KEY}" in shown
    assert "and so gets your OPENAI_API_KEY" in shown
    assert "MCP server docs runs docs-server with " in shown
    assert "=${DOCS_TOKEN} and gets your DOCS_TOKEN" in shown
    assert "MCP server web for every agent is at https://web.example" in shown
    assert "The agent that runs by default becomes helper" in shown
    assert load(folders.project).default.name == "helper"


@pytest.mark.parametrize("typed", ["\n", "n\n", "yeah\n", "\x04"])
def test_any_other_input_refuses_the_file(folders: ConfigFolders, typed: str) -> None:
    folders.write_project_file(THEIRS)
    with in_terminal("agents", "trust", "--cwd", str(folders.project), env=env(folders)) as terminal:
        terminal.expect("[y/N] ")
        terminal.type(typed)
        assert terminal.end() == 1
    assert "Not trusted; acp.json is ignored." in terminal.shown
    with pytest.raises(NotTrusted):
        load(folders.project)


def test_ctrl_c_refuses_the_file(folders: ConfigFolders) -> None:
    folders.write_project_file(THEIRS)
    with in_terminal("agents", "trust", "--cwd", str(folders.project), env=env(folders)) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("\x03")
        assert terminal.end() == 130
    with pytest.raises(NotTrusted):
        load(folders.project)


def test_control_characters_in_a_file_are_escaped(folders: ConfigFolders) -> None:
    folders.write_project_file(
        {"servers": {"a": {"command": "evil\x1b[2K\rnice", "args": ["\u202egpj.exe", "\x9b31m"]}}}
    )
    with in_terminal("agents", "trust", "--cwd", str(folders.project), env=env(folders)) as terminal:
        terminal.expect("[y/N] ")
        terminal.type("n\n")
        terminal.end()
    assert "\\x1b[2K\\rnice" in terminal.shown
    assert "\\u202egpj.exe" in terminal.shown
    assert not {"\x1b", "\x9b", "\u202e"} & set(terminal.shown)


def test_trust_applies_to_one_path_only(folders: ConfigFolders, tmp_path: Path) -> None:
    path = folders.write_project_file(THEIRS)
    TrustStore().trust(path, path.read_bytes())
    other = tmp_path / "other"
    other.mkdir()
    (other / "acp.json").write_bytes(path.read_bytes())
    with pytest.raises(NotTrusted):
        load(other)


def test_keys_typed_before_the_question_are_ignored(folders: ConfigFolders) -> None:
    folders.write_project_file(THEIRS)
    # The question is asked only after the keys have arrived in the terminal.
    code = (
        "import sys; print('ready', flush=True); "
        "import select; select.select([sys.stdin], [], []); "
        "from accord.frontend.agent_config import ask, load; print(load(sys.argv[1], trust=ask).default.name)"
    )
    with program_in_terminal(sys.executable, "-c", code, str(folders.project), env=env(folders)) as terminal:
        terminal.expect("ready")
        terminal.type("y\n")
        terminal.expect("[y/N] ")
        terminal.type("n\n")
        assert terminal.end() == 0
    assert "Not trusted; acp.json is ignored." in terminal.shown
    assert terminal.shown.rstrip().endswith("accord")
