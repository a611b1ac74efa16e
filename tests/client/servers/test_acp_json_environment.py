"""What an agent finds in its environment: what it needs, the keys that are its business, and nothing of the others."""

import json
import sys
from pathlib import Path

import pytest
from tests.client.servers.stage import Stage

from accord.client.login import run_in_terminal
from accord.client.servers import load, once
from accord.client.servers.environment import expand, literal
from accord.errors import UsageError

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


def environment(stage: Stage, name: str) -> dict[str, str]:
    """What the child would see, worked out from the change that is laid over ours."""
    env = load(stage.project, trust=once)[name].launch(environ=OURS).env or {}
    return {key: value for key, value in {**OURS, **env}.items() if value is not None}


def test_a_stranger_gets_no_key(stage: Stage) -> None:
    stage.user({"servers": {"stranger": {"command": "agent"}}})
    assert set(environment(stage, "stranger")) == PLAIN


def test_a_well_known_agent_gets_its_own_keys_whoever_launches_it(stage: Stage) -> None:
    stage.user(
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
    assert set(environment(stage, "by-program")) == PLAIN | {"OPENAI_API_KEY"}
    assert set(environment(stage, "by-npx")) == PLAIN | {"ANTHROPIC_API_KEY"}
    assert set(environment(stage, "by-uvx")) == PLAIN
    assert set(environment(stage, "claude")) == PLAIN | {"ANTHROPIC_API_KEY"}
    models = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MY_SERVER_API_KEY"}
    assert set(environment(stage, "own")) == set(environment(stage, "accord")) == PLAIN | models


def test_an_agent_of_a_project_gets_only_the_keys_its_env_names(stage: Stage) -> None:
    stage.of_project(
        {
            "servers": {
                "codex": {"command": "codex-acp"},
                "named": {"command": "x", "env": {"KEY": "${OPENAI_API_KEY}"}},
            }
        }
    )
    assert set(environment(stage, "codex")) == PLAIN
    assert environment(stage, "named") == {name: OURS[name] for name in PLAIN} | {"KEY": "o"}


def test_a_project_may_tune_a_known_agent_but_not_set_it_up_and_have_its_keys(stage: Stage) -> None:
    stage.of_project({"servers": {"accord": {"permissions": "reads"}, "x": {"command": "y"}}})
    assert "OPENAI_API_KEY" in environment(stage, "accord"), "only its rules are the project's"
    stage.of_project({"servers": {"accord": {"env": {"OPENAI_BASE_URL": "https://elsewhere.example"}}}})
    assert "OPENAI_API_KEY" not in environment(stage, "accord")


def test_what_the_child_really_sees(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    for name, value in OURS.items():
        if name not in ("PATH", "HOME"):
            monkeypatch.setenv(name, value)
    seen = stage.project / "seen.json"
    program = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    stage.user(
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
    launch = load(stage.project)["x"].launch(stage.project)
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
def test_references(text: str, value: str) -> None:
    assert expand(text, OURS, "env.X") == value


def test_a_value_is_not_expanded_twice() -> None:
    assert expand("${A}", {"A": "${B}", "B": "no"}, "env.X") == "${B}"


@pytest.mark.parametrize("text", ["${HOME}", "$HOME", "$$HOME", "a$${b", "plain", "$", "x ${A:-b} y"])
def test_a_text_can_be_written_so_that_it_stays_itself(text: str) -> None:
    assert expand(literal(text), OURS, "env.X") == text


def test_a_variable_that_is_not_set_is_told_when_the_agent_is_launched(stage: Stage) -> None:
    path = stage.user(
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
    server = load(stage.project)["x"]
    with pytest.raises(UsageError) as caught:
        server.launch(environ={})
    assert (
        str(caught.value)
        == f"{path}: servers.x.env.KEY: NOT_SET is not set; set it, or write ${{NOT_SET:-}} where it may be missing"
    )
    with pytest.raises(UsageError, match=r"servers\.x\.mcpServers\.m\.env\.T: NOT_SET is not set"):
        server.mcp_servers({})
