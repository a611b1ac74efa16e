"""`acp.json` as people write it: every key has its effect, the project's stands over the user's, the built-in agent is there."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.servers.stage import Stage

from accord.client import ClientOptions, RestartPolicy, TimeLimits
from accord.client.servers import UnknownAgent, load, once
from accord.errors import NeverStarted
from accord.policy import Bounds, Request, Word, category_of
from accord.schema import EnvVariable, HttpHeader, McpServerHttp, McpServerSse, McpServerStdio, ToolKind

SCRIPTED = Path(__file__).parents[1] / "agents" / "scripted.py"


def test_without_any_file_the_built_in_agent_is_the_default(stage: Stage) -> None:
    servers = load(stage.project)
    assert servers.default.name == "accord"
    assert servers.default.launch().command == (sys.executable, "-P", "-m", "accord.cli", "agent")
    assert [server.name for server in servers.configured] == ["accord"]
    assert {"claude", "codex", "gemini"} <= {server.name for server in servers.others}


def test_a_folder_cannot_put_itself_in_the_place_of_the_built_in_agent(stage: Stage) -> None:
    planted = stage.project / "accord"
    planted.mkdir()
    (planted / "__init__.py").write_text("raise SystemExit('planted')")
    launch = load(stage.project).default.launch(stage.project)
    ran = subprocess.run(
        [*launch.command, "--help"], cwd=launch.cwd, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_every_key_has_its_effect(stage: Stage) -> None:
    stage.user(
        {
            "servers": {
                "mine": {
                    "command": "agent",
                    "args": ["--acp", "-v"],
                    "env": {"LEVEL": "3", "AWAY": None},
                    "cwd": "work",
                    "timeoutMs": 1500,
                    "startupTimeoutMs": 2000,
                    "permissions": "reads",
                    "mcpServers": {"docs": {"command": "docs-server", "args": ["x"], "env": {"A": "b"}}},
                    "maxRestarts": 5,
                    "description": "my own",
                }
            },
            "defaultServer": "mine",
        }
    )
    server = load(stage.project).default
    assert (server.name, server.origin, server.description) == ("mine", "user", "my own")
    launch = server.launch(stage.project, {"PATH": "/bin", "AWAY": "1"})
    assert launch.command == ("agent", "--acp", "-v")
    assert launch.cwd == str(stage.user_file.parent / "work")
    assert launch.env == {"LEVEL": "3", "AWAY": None}
    options = server.options()
    assert (options.limits.request, options.limits.startup) == (1.5, 2.0)
    assert options.limits.silence == TimeLimits().silence, "a prompt is not bound by timeoutMs"
    assert options.restart == RestartPolicy(max_restarts=5)
    assert server.permissions is not None
    assert server.permissions.word == "reads"
    assert server.mcp_servers() == [McpServerStdio("docs", "docs-server", ["x"], [EnvVariable("A", "b")])]


def test_what_is_not_said_has_its_default(stage: Stage) -> None:
    stage.user({"servers": {"mine": {"command": "agent"}, "once": {"command": "agent", "maxRestarts": 0}}})
    servers = load(stage.project)
    server = servers["mine"]
    assert server.launch(stage.project).cwd == str(stage.project)
    assert server.options().limits == TimeLimits()
    assert server.options().restart == RestartPolicy()
    assert servers["once"].options(ClientOptions(restart=RestartPolicy())).restart is None
    assert (server.permissions, server.mcp_servers(), server.unattended) == (None, [], None)


def test_the_projects_agent_takes_the_whole_place_of_the_users(stage: Stage) -> None:
    stage.user(
        {
            "servers": {"a": {"command": "mine", "env": {"K": "${HOME}"}}, "b": {"command": "b"}},
            "defaultServer": "b",
        }
    )
    stage.of_project({"servers": {"A": {"command": "theirs"}}, "defaultServer": "a"})
    servers = load(stage.project, trust=once)
    assert [server.name for server in servers.configured] == ["accord", "A", "b"]
    assert servers["a"].launch().command == ("theirs",)
    assert servers["a"].env == {}, "the user's keys are not for the project's program"
    assert servers.default.name == "A"


def test_the_projects_file_is_found_up_to_the_root_of_its_repository(stage: Stage) -> None:
    below = stage.project / "src" / "deep"
    below.mkdir(parents=True)
    stage.of_project({"servers": {"theirs": {"command": "x"}}})
    assert "theirs" in load(below, trust=once)
    outside = stage.project.parent / "outside" / "deep"
    outside.mkdir(parents=True)
    (stage.project.parent / "acp.json").write_text('{"servers": {"stray": {"command": "x"}}}')
    assert "stray" not in load(outside, trust=once), "without a repository only the folder itself counts"
    assert "stray" not in load(below, trust=once)


def test_relative_programs_count_from_the_folder_of_the_file(stage: Stage) -> None:
    stage.of_project(
        {"servers": {"tool": {"command": "./tools/agent", "cwd": ".."}, "home": {"command": "~/agent"}}}
    )
    servers = load(stage.project / ".git", trust=once)
    assert servers["tool"].launch().command == (str(stage.project / "tools" / "agent"),)
    assert servers["tool"].launch("/elsewhere").cwd == str(stage.project.parent)
    assert servers["home"].launch().command == (str(Path.home() / "agent"),)


def test_names_count_in_any_case_and_well_known_ones_by_all_their_names(stage: Stage) -> None:
    stage.user({"servers": {"Mine": {"command": "x"}, "claude": {"timeoutMs": 10}}})
    servers = load(stage.project)
    assert servers["MINE"].name == "Mine"
    assert servers["claude-code"].timeout == 0.01
    assert servers["Gemini-CLI"].name == "gemini"
    with pytest.raises(UnknownAgent, match="no agent is called 'gemin'; did you mean gemini"):
        servers["gemin"]
    with pytest.raises(UnknownAgent, match="no agent is called 'zzz'; `accord agents list` shows all"):
        servers["zzz"]


def test_an_agent_of_the_catalogue_runs_only_where_it_is_installed(stage: Stage) -> None:
    server = load(stage.project)["codex"]
    with pytest.raises(
        NeverStarted, match=r"codex is not installed here: `npm install -g .*accord agents add codex"
    ):
        server.launch(environ={"PATH": str(stage.project)})
    program = stage.project / "codex-acp"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environ = {"PATH": str(stage.project), "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    assert server.installed(environ) == str(program)
    assert server.launch(environ=environ).command == ("codex-acp",)


def test_arguments_inside_the_command_are_told(stage: Stage) -> None:
    stage.user({"servers": {"bad": {"command": "npx -y thing"}}})
    with pytest.raises(
        NeverStarted,
        match=r"servers\.bad\.command: there is no program 'npx -y thing'; arguments belong in `args`",
    ):
        load(stage.project)["bad"].launch()


def test_mcp_servers_of_the_file_go_to_every_agent_and_an_agents_own_go_before(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "secret")
    stage.user(
        {
            "mcpServers": {
                "docs": {"url": "https://docs.example", "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"}},
                "both": {"command": "general"},
            },
            "servers": {
                "mine": {
                    "command": "x",
                    "mcpServers": [
                        {
                            "name": "both",
                            "command": "./special",
                            "args": [],
                            "env": [{"name": "A", "value": "b"}],
                        },
                        {"name": "old", "type": "sse", "url": "http://old.example", "headers": []},
                    ],
                }
            },
        }
    )
    servers = load(stage.project)
    docs = McpServerHttp("docs", "https://docs.example", [HttpHeader("Authorization", "Bearer secret")])
    special = str(stage.user_file.parent / "special")
    assert servers["accord"].mcp_servers() == [docs, McpServerStdio("both", "general", [], [])]
    assert servers["mine"].mcp_servers() == [
        docs,
        McpServerStdio("both", special, [], [EnvVariable("A", "b")]),
        McpServerSse("old", "http://old.example", []),
    ]


def test_a_projects_permissions_only_tighten(stage: Stage) -> None:
    stage.user({"servers": {"a": {"command": "x", "permissions": {"deny": ["delete"], "default": "all"}}}})
    stage.of_project(
        {
            "servers": {
                "a": {"command": "y", "permissions": {"deny": [{"path": "secret/**"}], "default": "all"}},
                "b": {"command": "z", "permissions": "all"},
            }
        }
    )
    servers = load(stage.project, trust=once)
    bounds = Bounds.of(stage.project)

    def decided(name: str, kind: ToolKind, path: str, word: Word | None = None) -> str:
        request = Request(kind=kind, category=category_of(kind), bounds=bounds, paths=(path,))
        return servers[name].policy(word).decide(request).effect

    assert decided("a", "edit", "notes.txt") == "allow"
    assert decided("a", "delete", "notes.txt") == "deny", "the user's rule, though the entry is the project's"
    assert decided("a", "edit", "secret/x") == "deny", "the project's rule"
    assert decided("b", "edit", "notes.txt") == "ask", "a project cannot say that everything is allowed"
    assert decided("b", "edit", "notes.txt", "all") == "allow"
    assert decided("a", "delete", "notes.txt", "all") == "deny", "a word does not lift a rule"
    assert decided("a", "edit", "notes.txt", "none") == "deny"


async def test_a_configured_agent_is_started_and_prompted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_CAPABILITIES", "{}")
    stage.user(
        {"servers": {"mine": {"command": sys.executable, "args": [str(SCRIPTED)]}}, "defaultServer": "mine"}
    )
    server = load(stage.project).default
    async with server.connect(stage.project) as agent:
        session = await agent.new_session(stage.project, mcp_servers=server.mcp_servers())
        answer = await session.ask("hello")
    assert answer.text == "heard hello; done"
