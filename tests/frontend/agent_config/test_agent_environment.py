"""The environment of a started agent: what it needs, its own API keys, and no other credentials."""

import json
import sys
from pathlib import Path

import pytest
from tests.frontend.agent_config.config_folders import ConfigFolders

from accord.client.handlers import run_in_terminal
from accord.errors import UsageError
from accord.frontend.agent_config import load, once
from accord.frontend.agent_config.agent_environment import escape_references, expand_references

OURS = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "SSH_AUTH_SOCK": "/run/agent",
    "CLAUDECODE": "1",
    "ANTHROPIC_API_KEY": "a",
    "OPENAI_API_KEY": "o",
    "GITHUB_TOKEN": "g",
    "MY_SERVER_API_KEY": "m",
    "DATABASE_URL": "postgres://me:pw@db/x",
    "INNOCENT": "sk-abcdefghijklmnopqrstuvwx",
}
PLAIN = {"PATH", "HOME", "SSH_AUTH_SOCK"}


def environment(folders: ConfigFolders, name: str) -> dict[str, str]:
    """The variables that the child would see."""
    env = load(folders.project, trust=once)[name].launch(environ=OURS).env or {}
    return {key: value for key, value in {**OURS, **env}.items() if value is not None}


def test_an_unknown_agent_gets_no_api_keys(folders: ConfigFolders) -> None:
    folders.write_user_file({"servers": {"unknown": {"command": "agent"}}})
    assert set(environment(folders, "unknown")) == PLAIN


def test_a_known_agent_gets_its_own_keys_with_any_launcher(folders: ConfigFolders) -> None:
    folders.write_user_file(
        {
            "servers": {
                "by-program": {"command": "/opt/bin/codex-acp"},
                "by-npx": {"command": "npx", "args": ["-y", "@agentclientprotocol/claude-agent-acp@1.2.3"]},
                "by-uvx": {"command": "uvx", "args": ["other-thing"]},
                "claude": {"command": "my-wrapper"},
                "own": {"command": "accord", "args": ["agent"]},
            }
        }
    )
    assert set(environment(folders, "by-program")) == PLAIN | {"OPENAI_API_KEY"}
    assert set(environment(folders, "by-npx")) == PLAIN | {"ANTHROPIC_API_KEY"}
    assert set(environment(folders, "by-uvx")) == PLAIN
    assert set(environment(folders, "claude")) == PLAIN | {"ANTHROPIC_API_KEY"}
    models = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MY_SERVER_API_KEY"}
    assert set(environment(folders, "own")) == set(environment(folders, "accord")) == PLAIN | models


def test_a_project_agent_gets_only_the_keys_that_its_env_names(folders: ConfigFolders) -> None:
    folders.write_project_file(
        {
            "servers": {
                "codex": {"command": "codex-acp"},
                "named": {"command": "x", "env": {"KEY": "${OPENAI_API_KEY}"}},
            }
        }
    )
    assert set(environment(folders, "codex")) == PLAIN
    assert environment(folders, "named") == {name: OURS[name] for name in PLAIN} | {"KEY": "o"}


def test_a_project_entry_that_changes_env_of_a_known_agent_gets_no_keys(folders: ConfigFolders) -> None:
    folders.write_project_file({"servers": {"accord": {"permissions": "reads"}, "x": {"command": "y"}}})
    assert "OPENAI_API_KEY" in environment(folders, "accord"), "the project changed only the rules"
    folders.write_project_file(
        {"servers": {"accord": {"env": {"OPENAI_BASE_URL": "https://elsewhere.example"}}}}
    )
    assert "OPENAI_API_KEY" not in environment(folders, "accord")


def test_the_environment_of_a_real_child_process(
    folders: ConfigFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    for name, value in OURS.items():
        if name not in ("PATH", "HOME"):
            monkeypatch.setenv(name, value)
    seen = folders.project / "seen.json"
    program = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    folders.write_user_file(
        {
            "servers": {
                "x": {
                    "command": sys.executable,
                    "args": ["-c", program, str(seen)],
                    "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "HOME": None},
                }
            }
        }
    )
    launch = load(folders.project)["x"].launch(folders.project)
    assert asyncio.run(run_in_terminal(launch)) == 0
    child = json.loads(Path(seen).read_text())
    assert child["GITHUB_TOKEN"] == "g"
    assert not {
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "DATABASE_URL",
        "INNOCENT",
        "CLAUDECODE",
        "HOME",
    } & set(child)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${HOME}", "/home/me"),
        ("$HOME", "/home/me"),
        ("a ${HOME} b ${NOT_SET:-c} d", "a /home/me b c d"),
        ("${NOT_SET:-}", ""),
        ("$${HOME}", "${HOME}"),
        ("$$HOME", "$HOME"),
        ("pa$$word $5", "pa$$word $5"),
        ("$HOME/bin", "$HOME/bin"),
        ("${HOME", "${HOME"),
        ("", ""),
    ],
)
def test_variable_references_are_expanded(text: str, value: str) -> None:
    assert expand_references(text, OURS, "env.X") == value


def test_a_value_is_not_expanded_twice() -> None:
    assert expand_references("${A}", {"A": "${B}", "B": "no"}, "env.X") == "${B}"


@pytest.mark.parametrize("text", ["${HOME}", "$HOME", "$$HOME", "a$${b", "plain", "$", "x ${A:-b} y"])
def test_an_escaped_text_expands_to_itself(text: str) -> None:
    assert expand_references(escape_references(text), OURS, "env.X") == text


def test_an_unset_variable_raises_when_the_agent_is_launched(folders: ConfigFolders) -> None:
    path = folders.write_user_file(
        {
            "servers": {
                "x": {
                    "command": "y",
                    "env": {"KEY": "${NOT_SET}"},
                    "mcpServers": {"m": {"command": "z", "env": {"T": "${NOT_SET}"}}},
                }
            }
        }
    )
    server = load(folders.project)["x"]
    with pytest.raises(UsageError) as caught:
        server.launch(environ={})
    assert str(caught.value) == (
        f"{path}: servers.x.env.KEY: NOT_SET is not set; set it, or write ${{NOT_SET:-}} if it is optional"
    )
    with pytest.raises(UsageError, match=r"servers\.x\.mcpServers\.m\.env\.T: NOT_SET is not set"):
        server.mcp_servers({})


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("accord", {"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "MY_SERVER_BASE_URL"}),
        ("claude", {"ANTHROPIC_BASE_URL"}),
        ("unknown", set[str]()),
    ],
)
def test_an_address_with_a_password_comes_with_its_key(
    folders: ConfigFolders, name: str, variables: set[str]
) -> None:
    folders.write_user_file({"servers": {"unknown": {"command": "agent"}, "claude": {"command": "wrapper"}}})
    names = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "MY_SERVER_BASE_URL")
    ours = dict.fromkeys(names, "https://me:word@proxy.example/v1") | {"PATH": "/usr/bin"}
    env = load(folders.project, trust=once)[name].launch(environ=ours).env or {}
    assert {key for key in names if key not in env} == variables
