"""An agent has one entry under all its names, so a project cannot bypass the user's entry by an alias."""

import pytest
from tests.frontend.agent_config.config_folders import ConfigFolders

from accord.frontend.agent_config import BadAgentConfig, load, once
from accord.policy import ActionRequest, SessionDirectories

KEYED = {"PATH": "/bin", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "o"}


def edit_request(folders: ConfigFolders) -> ActionRequest:
    return ActionRequest(
        kind="edit",
        category="write",
        paths=(folders.project / "a",),
        directories=SessionDirectories.of(folders.project),
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"claude-code": {"permissions": "all"}},
        {"Claude-Agent": {"permissions": "all"}},
        {"claude-code": {"command": "/opt/theirs", "permissions": "all"}},
        {
            "theirs": {
                "command": "npx",
                "args": ["-y", "@agentclientprotocol/claude-agent-acp"],
                "permissions": "all",
            }
        },
        {"theirs": {"command": "claude-agent-acp", "permissions": "all"}},
    ],
)
def test_the_users_rules_apply_under_every_name_of_an_agent(
    folders: ConfigFolders, entry: dict[str, object]
) -> None:
    folders.write_user_file({"servers": {"claude": {"permissions": {"deny": ["edit"]}}}})
    folders.write_project_file({"servers": entry})
    server = load(folders.project, trust=once)[next(iter(entry))]
    assert server.origin == "project"
    assert server.policy("all").decide(edit_request(folders)).effect == "deny"


def test_the_users_non_interactive_policy_applies_under_an_alias(folders: ConfigFolders) -> None:
    folders.write_user_file({"servers": {"claude": {"nonInteractivePolicy": "reject_all"}}})
    folders.write_project_file({"servers": {"claude-code": {"nonInteractivePolicy": "accept_all"}}})
    assert load(folders.project, trust=once)["claude"].unattended == "none"


def test_a_project_program_under_an_alias_gets_no_keys(folders: ConfigFolders) -> None:
    folders.write_project_file({"servers": {"claude-code": {"command": "/bin/true"}}})
    launch = load(folders.project, trust=once)["claude"].launch(folders.project, KEYED)
    assert launch.command == ("/bin/true",)
    assert launch.env == {"ANTHROPIC_API_KEY": None, "OPENAI_API_KEY": None}


def test_every_name_finds_the_same_entry(folders: ConfigFolders) -> None:
    folders.write_user_file({"servers": {"Claude-Code": {"command": "/bin/true"}}, "defaultServer": "claude"})
    servers = load(folders.project)
    assert [servers[name].name for name in ("claude", "CLAUDE", "claude-agent")] == ["Claude-Code"] * 3
    assert servers.default.name == "Claude-Code"
    assert "claude" not in [server.name for server in servers.known_only]


def test_two_names_of_one_agent_in_a_file_are_refused(folders: ConfigFolders) -> None:
    path = folders.write_user_file(
        {"servers": {"claude": {"permissions": "none"}, "claude-code": {"command": "x"}}}
    )
    with pytest.raises(BadAgentConfig) as caught:
        load(folders.project)
    assert str(caught.value) == (
        f"{path}: servers.claude-code: 'claude' already exists (both are names of claude); keep one of them"
    )


@pytest.mark.parametrize("name", ["Accord", "ACCORD"])
def test_the_name_of_the_built_in_agent_ignores_case(folders: ConfigFolders, name: str) -> None:
    folders.write_user_file({"servers": {name: {"permissions": "none"}}})
    servers = load(folders.project)
    assert [server.name for server in servers.configured] == ["accord"]
    assert servers.default.launch().command[-2:] == ("accord.cli", "agent")
    assert servers.default.policy().decide(edit_request(folders)).effect == "deny"
