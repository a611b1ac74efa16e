"""Agents configured in `acp.json`: every key takes effect, project entries override those of the user."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.frontend.agent_config.config_folders import ConfigFolders

from accord.client import ClientOptions, RestartPolicy, TimeLimits
from accord.errors import NeverStarted
from accord.frontend.agent_config import UnknownAgent, load, once
from accord.policy import ActionRequest, PermissionDefault, SessionDirectories, category_of
from accord.schema import EnvVariable, HttpHeader, McpServerHttp, McpServerSse, McpServerStdio, ToolKind

SCRIPTED = Path(__file__).parents[2] / "client" / "agents" / "scripted.py"


def test_without_a_file_the_built_in_agent_is_the_default(folders: ConfigFolders) -> None:
    servers = load(folders.project)
    assert servers.default.name == "accord"
    assert servers.default.launch().command == (sys.executable, "-P", "-m", "accord.cli", "agent")
    assert [server.name for server in servers.configured] == ["accord"]
    assert {"claude", "codex", "gemini"} <= {server.name for server in servers.known_only}


def test_a_project_folder_cannot_replace_the_built_in_agent(folders: ConfigFolders) -> None:
    planted = folders.project / "accord"
    planted.mkdir()
    (planted / "__init__.py").write_text("raise SystemExit('planted')")
    launch = load(folders.project).default.launch(folders.project)
    ran = subprocess.run(
        [*launch.command, "--help"], cwd=launch.cwd, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_every_key_takes_effect(folders: ConfigFolders) -> None:
    folders.write_user_file(
        {
            "servers": {
                "mine": {
                    "command": "agent",
                    "args": ["--acp", "-v"],
                    "env": {"LEVEL": "3", "AWAY": None},
                    "cwd": "work",
                    "timeoutMs": 1500,
                    "startupTimeoutMs": 2000,
                    "cancelTimeoutMs": 500,
                    "permissions": "reads",
                    "mcpServers": {"docs": {"command": "docs-server", "args": ["x"], "env": {"A": "b"}}},
                    "maxRestarts": 5,
                    "description": "my own",
                }
            },
            "defaultServer": "mine",
        }
    )
    server = load(folders.project).default
    assert (server.name, server.origin, server.description) == ("mine", "user", "my own")
    launch = server.launch(folders.project, {"PATH": "/bin", "AWAY": "1"})
    assert launch.command == ("agent", "--acp", "-v")
    assert launch.cwd == str(folders.user_file.parent / "work")
    assert launch.env == {"LEVEL": "3", "AWAY": None}
    options = server.options()
    limits = options.limits
    assert (limits.request, limits.startup, limits.cancel) == (1.5, 2.0, 0.5)
    assert options.limits.silence == TimeLimits().silence, "timeoutMs does not limit a prompt"
    assert options.restart == RestartPolicy(max_restarts=5)
    assert server.permissions is not None
    assert server.permissions.permission_default == "reads"
    assert server.mcp_servers() == [McpServerStdio("docs", "docs-server", ["x"], [EnvVariable("A", "b")])]


def test_omitted_keys_have_their_defaults(folders: ConfigFolders) -> None:
    folders.write_user_file(
        {"servers": {"mine": {"command": "agent"}, "once": {"command": "agent", "maxRestarts": 0}}}
    )
    servers = load(folders.project)
    server = servers["mine"]
    assert server.launch(folders.project).cwd == str(folders.project)
    assert server.options().limits == TimeLimits()
    assert server.options().restart == RestartPolicy()
    assert servers["once"].options(ClientOptions(restart=RestartPolicy())).restart is None
    assert (server.permissions, server.mcp_servers(), server.unattended) == (None, [], None)


def test_a_project_entry_replaces_the_users_entry_completely(folders: ConfigFolders) -> None:
    folders.write_user_file(
        {
            "servers": {"a": {"command": "mine", "env": {"K": "${HOME}"}}, "b": {"command": "b"}},
            "defaultServer": "b",
        }
    )
    folders.write_project_file({"servers": {"A": {"command": "theirs"}}, "defaultServer": "a"})
    servers = load(folders.project, trust=once)
    assert [server.name for server in servers.configured] == ["accord", "A", "b"]
    assert servers["a"].launch().command == ("theirs",)
    assert servers["a"].env == {}, "the user's variables are not passed to the project's program"
    assert servers.default.name == "A"


def test_the_project_file_is_searched_up_to_the_repository_root(folders: ConfigFolders) -> None:
    below = folders.project / "src" / "deep"
    below.mkdir(parents=True)
    folders.write_project_file({"servers": {"theirs": {"command": "x"}}})
    assert "theirs" in load(below, trust=once)
    outside = folders.project.parent / "outside" / "deep"
    outside.mkdir(parents=True)
    (folders.project.parent / "acp.json").write_text('{"servers": {"stray": {"command": "x"}}}')
    assert "stray" not in load(outside, trust=once), "without a repository only the folder itself is searched"
    assert "stray" not in load(below, trust=once)


def test_relative_programs_are_resolved_from_the_folder_of_the_file(folders: ConfigFolders) -> None:
    folders.write_project_file(
        {"servers": {"tool": {"command": "./tools/agent", "cwd": ".."}, "home": {"command": "~/agent"}}}
    )
    servers = load(folders.project / ".git", trust=once)
    assert servers["tool"].launch().command == (str(folders.project / "tools" / "agent"),)
    assert servers["tool"].launch("/elsewhere").cwd == str(folders.project.parent)
    assert servers["home"].launch().command == (str(Path.home() / "agent"),)


def test_agent_names_ignore_case_and_known_agents_have_aliases(folders: ConfigFolders) -> None:
    folders.write_user_file({"servers": {"Mine": {"command": "x"}, "claude": {"timeoutMs": 10}}})
    servers = load(folders.project)
    assert servers["MINE"].name == "Mine"
    assert servers["claude-code"].timeout == 0.01
    assert servers["Gemini-CLI"].name == "gemini"
    with pytest.raises(UnknownAgent, match="unknown agent 'gemin'; did you mean gemini"):
        servers["gemin"]
    with pytest.raises(UnknownAgent, match="unknown agent 'zzz'; `accord agents list` shows all"):
        servers["zzz"]


def test_a_known_agent_runs_only_if_it_is_installed(folders: ConfigFolders) -> None:
    server = load(folders.project)["codex"]
    with pytest.raises(
        NeverStarted, match=r"codex is not installed: `npm install -g .*accord agents add codex"
    ):
        server.launch(environ={"PATH": str(folders.project)})
    program = folders.project / "codex-acp"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environ = {"PATH": str(folders.project), "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    assert server.installed(environ) == str(program)
    assert server.launch(environ=environ).command == ("codex-acp",)


def test_arguments_inside_the_command_raise_a_hint(folders: ConfigFolders) -> None:
    folders.write_user_file({"servers": {"bad": {"command": "npx -y thing"}}})
    with pytest.raises(
        NeverStarted,
        match=r"servers\.bad\.command: program 'npx -y thing' not found; put each argument into `args`",
    ):
        load(folders.project)["bad"].launch()


def test_mcp_servers_of_the_file_apply_to_every_agent_and_its_own_take_precedence(
    folders: ConfigFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "secret")
    folders.write_user_file(
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
    servers = load(folders.project)
    docs = McpServerHttp("docs", "https://docs.example", [HttpHeader("Authorization", "Bearer secret")])
    special = str(folders.user_file.parent / "special")
    assert servers["accord"].mcp_servers() == [docs, McpServerStdio("both", "general", [], [])]
    assert servers["mine"].mcp_servers() == [
        docs,
        McpServerStdio("both", special, [], [EnvVariable("A", "b")]),
        McpServerSse("old", "http://old.example", []),
    ]


def test_project_permissions_can_only_restrict(folders: ConfigFolders) -> None:
    folders.write_user_file(
        {"servers": {"a": {"command": "x", "permissions": {"deny": ["delete"], "default": "all"}}}}
    )
    folders.write_project_file(
        {
            "servers": {
                "a": {"command": "y", "permissions": {"deny": [{"path": "secret/**"}], "default": "all"}},
                "b": {"command": "z", "permissions": "all"},
            }
        }
    )
    servers = load(folders.project, trust=once)
    directories = SessionDirectories.of(folders.project)

    def effect_of(name: str, kind: ToolKind, path: str, word: PermissionDefault | None = None) -> str:
        request = ActionRequest(kind=kind, category=category_of(kind), directories=directories, paths=(path,))
        return servers[name].policy(word).decide(request).effect

    assert effect_of("a", "edit", "notes.txt") == "allow"
    assert effect_of("a", "delete", "notes.txt") == "deny", "the user's rule applies to the project's entry"
    assert effect_of("a", "edit", "secret/x") == "deny", "the project's rule"
    assert effect_of("b", "edit", "notes.txt") == "ask", "a project cannot allow everything"
    assert effect_of("b", "edit", "notes.txt", "all") == "allow"
    assert effect_of("a", "delete", "notes.txt", "all") == "deny", (
        "a permission word does not override a rule"
    )
    assert effect_of("a", "edit", "notes.txt", "none") == "deny"


async def test_a_configured_agent_is_started_and_prompted(
    folders: ConfigFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_CAPABILITIES", "{}")
    folders.write_user_file(
        {"servers": {"mine": {"command": sys.executable, "args": [str(SCRIPTED)]}}, "defaultServer": "mine"}
    )
    server = load(folders.project).default
    async with server.connect(folders.project) as agent:
        session = await agent.new_session(folders.project, mcp_servers=server.mcp_servers())
        answer = await session.ask("hello")
    assert answer.text == "heard hello; done"
