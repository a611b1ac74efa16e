"""One agent has one entry, by whichever of its names it is called: a project cannot get past the user's by another name."""

import pytest
from tests.client.servers.stage import Stage

from accord.client.servers import BadServers, load, once
from accord.policy import Bounds, Request

KEYED = {"PATH": "/bin", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "o"}


def editing(stage: Stage) -> Request:
    return Request(
        kind="edit", category="write", paths=(stage.project / "a",), bounds=Bounds.of(stage.project)
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"claude-code": {"permissions": "all"}},
        {"Claude-Agent": {"permissions": "all"}},
        {"claude-code": {"command": "/opt/theirs", "permissions": "all"}},
        {"theirs": {"command": "npx", "args": ["-y", "@agentclientprotocol/claude-agent-acp"], "permissions": "all"}},
        {"theirs": {"command": "claude-agent-acp", "permissions": "all"}},
    ],
)  # fmt: skip
def test_the_users_rules_hold_by_whatever_name_a_project_calls_the_agent(
    stage: Stage, entry: dict[str, object]
) -> None:
    stage.user({"servers": {"claude": {"permissions": {"deny": ["edit"]}}}})
    stage.of_project({"servers": entry})
    server = load(stage.project, trust=once)[next(iter(entry))]
    assert server.origin == "project"
    assert server.policy("all").decide(editing(stage)).effect == "deny"


def test_what_the_user_says_for_where_nobody_is_holds_too(stage: Stage) -> None:
    stage.user({"servers": {"claude": {"nonInteractivePolicy": "reject_all"}}})
    stage.of_project({"servers": {"claude-code": {"nonInteractivePolicy": "accept_all"}}})
    assert load(stage.project, trust=once)["claude"].unattended == "none"


def test_by_another_name_a_program_of_the_projects_gets_no_keys(stage: Stage) -> None:
    stage.of_project({"servers": {"claude-code": {"command": "/bin/true"}}})
    launch = load(stage.project, trust=once)["claude"].launch(stage.project, KEYED)
    assert launch.command == ("/bin/true",)
    assert launch.env == {"ANTHROPIC_API_KEY": None, "OPENAI_API_KEY": None}


def test_every_name_finds_the_one_entry(stage: Stage) -> None:
    stage.user({"servers": {"Claude-Code": {"command": "/bin/true"}}, "defaultServer": "claude"})
    servers = load(stage.project)
    assert [servers[name].name for name in ("claude", "CLAUDE", "claude-agent")] == ["Claude-Code"] * 3
    assert servers.default.name == "Claude-Code"
    assert "claude" not in [server.name for server in servers.others]


def test_two_names_of_one_agent_in_a_file_are_refused(stage: Stage) -> None:
    path = stage.user({"servers": {"claude": {"permissions": "none"}, "claude-code": {"command": "x"}}})
    with pytest.raises(BadServers) as caught:
        load(stage.project)
    assert str(caught.value) == (
        f"{path}: servers.claude-code: there already is 'claude'; both are names of claude, keep one of them"
    )


@pytest.mark.parametrize("name", ["Accord", "ACCORD"])
def test_the_built_in_agent_is_itself_in_any_case(stage: Stage, name: str) -> None:
    stage.user({"servers": {name: {"permissions": "none"}}})
    servers = load(stage.project)
    assert [server.name for server in servers.configured] == ["accord"]
    assert servers.default.launch().command[-2:] == ("accord.cli", "agent")
    assert servers.default.policy().decide(editing(stage)).effect == "deny"
