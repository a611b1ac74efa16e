"""Agent configuration in the formats of other tools, and the errors of invalid files."""

import pytest
from tests.frontend.agent_config.config_folders import ConfigFolders

from accord.frontend.agent_config import BadAgentConfig, load, once


def test_simse_list_with_default_server(folders: ConfigFolders) -> None:
    folders.write_user_file(
        {
            "servers": [
                {
                    "name": "ollama",
                    "command": "ollama-acp",
                    "args": ["--x"],
                    "cwd": "/srv",
                    "env": {"A": "1"},
                    "timeoutMs": 30000,
                },
                {"name": "second", "command": "other", "defaultAgent": "coder"},
            ],
            "defaultServer": "second",
            "defaultAgent": "coder",
        }
    )
    servers = load(folders.project)
    first = servers["ollama"]
    assert first.launch().command == ("ollama-acp", "--x")
    assert (first.cwd, first.env, first.timeout) == ("/srv", {"A": "1"}, 30.0)
    assert servers.default.name == "second"
    assert [note.rpartition(": ")[0].rpartition(": ")[2] for note in servers.notes] == [
        "servers[1].defaultAgent"
    ]


def test_simse_default_agent_is_used_if_it_names_a_server(folders: ConfigFolders) -> None:
    folders.write_user_file({"servers": [{"name": "a", "command": "x"}], "defaultAgent": "a"})
    assert load(folders.project).default.name == "a"
    folders.write_user_file({"servers": [{"name": "a", "command": "x"}], "defaultAgent": "inside"})
    servers = load(folders.project)
    assert servers.default.name == "accord"
    assert "'inside' is not an agent of this file" in servers.notes[0]


def test_agentao_keys(folders: ConfigFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_MODEL", "big")
    folders.write_user_file(
        {
            "servers": {
                "helper": {
                    "command": "agentao",
                    "args": ["--acp"],
                    "env": {"MODEL": "$TEAM_MODEL", "PRICE": "5$ a month"},
                    "cwd": ".",
                    "autoStart": False,
                    "startupTimeoutMs": 10000,
                    "requestTimeoutMs": 45000,
                    "capabilities": {"web": True},
                    "description": "helps",
                    "nonInteractivePolicy": "reject_all",
                    "maxRecoverableRestarts": 2,
                },
                "bold": {"command": "x", "nonInteractivePolicy": {"mode": "accept_all"}},
            }
        }
    )
    servers = load(folders.project)
    helper = servers["helper"]
    assert (helper.timeout, helper.startup, helper.max_restarts) == (45.0, 10.0, 2)
    assert helper.launch().env is not None
    assert (helper.launch().env or {})["MODEL"] == "big"
    assert (helper.launch().env or {})["PRICE"] == "5$ a month"
    assert (helper.permissions, helper.unattended) == (None, "none"), "an attended run still asks"
    assert (servers["bold"].permissions, servers["bold"].unattended) == (None, "all")
    assert len(servers.notes) == 2


def test_a_project_agent_cannot_approve_itself_in_unattended_runs(folders: ConfigFolders) -> None:
    folders.write_user_file({"servers": {"mine": {"command": "x", "nonInteractivePolicy": "accept_all"}}})
    folders.write_project_file(
        {
            "servers": {
                "theirs": {"command": "x", "nonInteractivePolicy": "accept_all"},
                "mine": {"command": "x", "nonInteractivePolicy": "reject_all"},
            }
        }
    )
    servers = load(folders.project, trust=once)
    assert (servers["theirs"].unattended, servers["mine"].unattended) == (None, "none")


def test_zed_settings_with_unrelated_keys(folders: ConfigFolders) -> None:
    folders.write_user_file(
        """// Zed settings
        {
          "theme": "One Dark",
          "agent_servers": {
            "My Agent": {
              "type": "custom", "command": "my-agent", "args": ["--acp"], "env": {"A": "b"},
              "default_mode": "ask", "default_config_options": {"model": "x"}, // mine
            },
            "claude-acp": {"type": "registry", "env": {"LOUD": "1"}},
          },
        }
        """
    )
    servers = load(folders.project)
    assert servers["my agent"].launch().command == ("my-agent", "--acp")
    assert servers["claude-acp"].env == {"LOUD": "1"}
    assert servers["claude-acp"].known is servers["claude"].known
    assert len(servers.notes) == 2


def test_jetbrains_format(folders: ConfigFolders) -> None:
    folders.write_user_file(
        {
            "default_mcp_settings": {"use_idea_mcp": True},
            "agent_servers": {"Kimi": {"command": "/opt/kimi", "args": ["acp"], "use_idea_mcp": True}},
        }
    )
    assert load(folders.project)["kimi"].launch().command == ("/opt/kimi", "acp")


def test_acpx_agents(folders: ConfigFolders) -> None:
    folders.write_user_file(
        {
            "defaultAgent": "Line",
            "defaultPermissions": "approve-reads",
            "ttl": 300,
            "auth": {"x": "y"},
            "agents": {
                "line": {"command": "my-agent --flag 'two words'"},
                "list": {"argv": ["prog", "acp"]},
                "both": {"command": "prog", "args": ["a b"]},
                "own": {"command": "prog", "permissions": "none"},
            },
            "mcpServers": [{"name": "docs", "type": "http", "url": "https://x.example", "headers": []}],
        }
    )
    servers = load(folders.project)
    assert servers["line"].command == ("my-agent", "--flag", "two words")
    assert servers["list"].command == ("prog", "acp")
    assert servers["both"].command == ("prog", "a b")
    words = [
        (rules.permission_default if (rules := servers[name].permissions) else None)
        for name in ("line", "own")
    ]
    assert words == ["reads", "none"]
    assert servers.default.name == "line"
    assert [entry.name for entry in servers["line"].mcp] == ["docs"]


def test_acpx_default_may_be_a_known_agent(folders: ConfigFolders) -> None:
    folders.write_user_file({"agents": {}, "defaultAgent": "codex"})
    assert load(folders.project).default.name == "codex"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it is not JSON: line 1, column 1: the file is empty"),
        ("{", "it is not JSON: line 1, column 2: it ends too early"),
        (
            '{"servers": {"a": {"command": "x"}},\n "servers": {}}',
            "it is not JSON: line 2, column 2: duplicate key 'servers'",
        ),
        ("[]", 'it must be an object, such as {"servers": {...}}'),
        ({"server": {}}, "server: unknown key; known keys: $schema, agent_servers, agents, "),
        ({"servers": 3}, "servers: it must be an object with the names of the agents as keys"),
        ({"servers": {}, "agents": {}}, "agents: the file also has agents under `servers`; keep one of them"),
        ({"servers": {"a": "x"}}, "servers.a: it must be an object with `command`"),
        ({"servers": [{"command": "x"}]}, "servers[0].name: it is missing or not a string"),
        ({"agents": []}, "agents: it must be an object with the names"),
        ({"servers": {" a": {"command": "x"}}}, "servers. a: ' a' is not a valid name"),
        ({"servers": {"-a": {"command": "x"}}}, "servers.-a: '-a' is not a valid name"),
        ({"servers": {"a": {"command": "x"}, "A": {"command": "y"}}}, "servers.A: 'a' already exists"),
        (
            {"servers": {"a": {}}},
            "servers.a.command: it is missing; only a known agent (`accord agents list`) needs no command",
        ),
        ({"servers": {"a": {"command": ""}}}, "servers.a.command: it is empty; it must name the program"),
        ({"servers": {"a": {"command": 7}}}, "servers.a.command: it must be a string"),
        ({"servers": {"claude": {"args": ["x"]}}}, "servers.claude.args: arguments need a `command`"),
        ({"servers": {"a": {"command": "x", "args": "y"}}}, "servers.a.args: it must be a list of strings"),
        ({"servers": {"a": {"command": "x", "args": ["y", 3]}}}, "servers.a.args[1]: it must be a string"),
        (
            {"servers": {"a": {"command": "x", "arg": []}}},
            "servers.a.arg: unknown key; known keys: args, cancelTimeoutMs, command,",
        ),
        ({"servers": {"a": {"command": "x", "env": []}}, "x": 1}, "x: unknown key"),
        (
            {"servers": {"a": {"command": "x", "env": ["A=b"]}}},
            "servers.a.env[0]: it must have `name` and `value`",
        ),
        (
            {"servers": {"a": {"command": "x", "env": {"A": 1}}}},
            "servers.a.env.A: it must be a string or null",
        ),
        (
            {"servers": {"a": {"command": "x", "env": {"A=": "1"}}}},
            "servers.a.env: 'A=' cannot be the name of a variable",
        ),
        (
            {"servers": {"a": {"command": "x", "env": {"A": "${9}"}}}},
            "servers.a.env.A: '${9}' is not a variable reference",
        ),
        ({"servers": {"a": {"command": "x", "cwd": 3}}}, "servers.a.cwd: it must be a string"),
        (
            {"servers": {"a": {"command": "x", "timeoutMs": 0}}},
            "servers.a.timeoutMs: it must be a whole number from 1 to 86400000",
        ),
        (
            {"servers": {"a": {"command": "x", "timeoutMs": True}}},
            "servers.a.timeoutMs: it must be a whole number",
        ),
        (
            {"servers": {"a": {"command": "x", "timeoutMs": "60"}}},
            "servers.a.timeoutMs: it must be a whole number",
        ),
        (
            '{"servers": {"a": {"command": "x", "timeoutMs": 1e999}}}',
            "servers.a.timeoutMs: it must be a whole number",
        ),
        (
            {"servers": {"a": {"command": "x", "maxRestarts": -1}}},
            "servers.a.maxRestarts: it must be a whole number from 0 to 100",
        ),
        (
            {"servers": {"a": {"command": "x", "timeoutMs": 1, "requestTimeoutMs": 1}}},
            "servers.a.requestTimeoutMs: it means the same as `timeoutMs`",
        ),
        (
            {"servers": {"a": {"command": "x", "permissions": "some"}}},
            "servers.a.permissions: 'some' is none of ask, reads, all, none",
        ),
        (
            {"servers": {"a": {"command": "x", "permissions": {"alow": []}}}},
            "servers.a.permissions: Object contains unknown field `alow`",
        ),
        (
            {"servers": {"a": {"command": "x", "permissions": {"allow": ["raed"]}}}},
            "servers.a.permissions.allow[0].kind: 'raed' is no kind of tool call",
        ),
        (
            {"servers": {"a": {"command": "x", "nonInteractivePolicy": "yes"}}},
            "servers.a.nonInteractivePolicy: 'yes' is not one of reject_all, accept_all",
        ),
        (
            {"servers": {"a": {"command": "x", "mcpServers": 1}}},
            "servers.a.mcpServers: it must be an object with server names as keys, or a list",
        ),
        (
            {"servers": {"a": {"command": "x", "mcpServers": {"m": {}}}}},
            "servers.a.mcpServers.m.command: it is missing",
        ),
        ({"mcpServers": {"m": {"url": "ftp://x"}}}, "mcpServers.m.url: 'ftp://x' is not an address"),
        (
            {"mcpServers": {"m": {"url": "http://x", "env": {}}}},
            "mcpServers.m.env: unknown key; an MCP server of type http has",
        ),
        (
            {"mcpServers": {"m": {"type": "pipe", "url": "http://x"}}},
            "mcpServers.m.type: 'pipe' is not one of stdio, http, sse",
        ),
        ({"mcpServers": [{"command": "x"}]}, "mcpServers[0]: an MCP server needs a unique, printable name"),
        ({"defaultServer": "nobody"}, "defaultServer: unknown agent 'nobody'"),
        ({"defaultServer": 3}, "defaultServer: it must be the name of an agent"),
        ({"agents": {"a": {"argv": []}}}, "agents.a.argv: it must be a list of strings, the program first"),
        ({"agents": {"a": {"argv": ["x"], "command": "x"}}}, "agents.a.argv: it cannot be combined"),
        (
            {"agents": {"a": {"command": "x 'y"}}},
            "agents.a.command: it is not a valid command line: no closing quotation",
        ),
        (
            {"agents": {"a": {"command": "x"}}, "defaultPermissions": "all"},
            "defaultPermissions: 'all' is not one of approve-all,",
        ),
        (
            {"agent_servers": {"a": {"type": "registry", "command": "x"}}},
            "agent_servers.a.command: an agent of type registry has no command",
        ),
        (
            {"agent_servers": {"a": {"type": "odd"}}},
            "agent_servers.a.type: 'odd' is not one of custom, registry, extension",
        ),
    ],
)
def test_a_bad_file_is_refused_with_file_key_and_reason(
    folders: ConfigFolders, content: object, reason: str
) -> None:
    path = folders.write_user_file(content)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the exact text is checked below
        load(folders.project)
    assert str(caught.value).startswith(f"{path}: {reason}")
    assert "\n" not in str(caught.value)
    assert type(caught.value).__name__ in ("BadAgentConfig", "BadRules")


def test_unreadable_and_invalid_files_are_refused(folders: ConfigFolders) -> None:
    import os

    path = folders.write_user_file("x")
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(BadAgentConfig, match="it is not UTF-8 text"):
        load(folders.project)
    path.write_bytes(b" " * (1024 * 1024 + 1))
    with pytest.raises(BadAgentConfig, match="it is larger than 1024 KiB"):
        load(folders.project)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BadAgentConfig, match="it is not a regular file"):
        load(folders.project)
    path.unlink()
    path.mkdir()
    with pytest.raises(BadAgentConfig, match=r"cannot be read|not a regular file"):
        load(folders.project)
    path.rmdir()
    path.symlink_to("nowhere")
    with pytest.raises(BadAgentConfig, match="it is a link to a file that does not exist"):
        load(folders.project)
