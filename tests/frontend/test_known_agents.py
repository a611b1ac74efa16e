"""The catalog of known agents is consistent."""

import json
import shlex
from pathlib import Path

import pytest

from accord.frontend.known_agents import (
    BUILT_IN,
    catalog,
    find_known_agent,
    known_agent_of,
    starts_built_in,
    starts_coding_agent,
)
from accord.policy.sandbox.command_environment import is_credential


def test_every_agent_has_unique_names_and_a_command() -> None:
    names = [name for agent in catalog() for name in (agent.id, *agent.aliases)]
    assert len(names) == len(set(names))
    assert BUILT_IN not in names
    assert len(catalog()) > 30
    for agent in catalog():
        assert agent.command
        assert agent.install_hint
        assert find_known_agent(agent.id.upper()) is agent
        assert known_agent_of(agent.command) is agent, agent.id
        assert known_agent_of(("/usr/bin/" + agent.command[0], *agent.command[1:])) is agent
        if agent.runner_command is not None:
            runner, *words = agent.runner_command
            package = next(word for word in words if word != "-y")
            pinned = f"{package}@1.0.0" if runner == "npx" else f"{package}==1.0.0"
            assert known_agent_of([runner, pinned]) is agent


def test_only_credentials_are_listed_as_keys() -> None:
    for agent in catalog():
        assert [key for key in agent.keys if not is_credential(key, "x")] == [], agent.id


@pytest.mark.parametrize(
    "command",
    [
        "docker run x",
        "npx",
        "npx other",
        "npx -p other claude-agent-acp",
        "python3 claude",
        "python3 -m",
        "python3 -m claude",
        "uvx -q",
        "uvx --from other kimi",
        "node",
        "node -r",
        "node /srv/agent/index.js --name claude-agent-acp",
        "env ANTHROPIC_API_KEY=x",
        "env -S",
        "accord trace record -o claude-agent-acp",
    ],
)
def test_similar_commands_are_not_known_agents(command: str) -> None:
    assert known_agent_of(command.split()) is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("node /x/node_modules/.bin/claude-agent-acp", "claude"),
        ("/usr/bin/node --enable-source-maps -r hook.js /opt/claude-agent-acp --verbose", "claude"),
        ("node /x/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js", "claude"),
        ("node.exe C:/x/node_modules/@zed-industries/codex-acp/bin/codex.js", "codex"),
        ("bun /x/claude-agent-acp.js", "claude"),
        ("bun run ./claude-agent-acp.mjs", "claude"),
        ("bunx @agentclientprotocol/codex-acp", "codex"),
        ("bun x @agentclientprotocol/codex-acp@1.2.3", "codex"),
        ("deno run -A npm:@agentclientprotocol/claude-agent-acp@1", "claude"),
        ("deno run --allow-all /x/claude-agent-acp.ts", "claude"),
        ("npm exec -- @agentclientprotocol/codex-acp", "codex"),
        ("npx -y -p @agentclientprotocol/codex-acp codex-acp", "codex"),
        ("npx --yes --package=@agentclientprotocol/codex-acp@2 codex-acp", "codex"),
        ("pnpm dlx @google/gemini-cli --acp", "gemini"),
        ("python -m kimi_cli acp", "kimi"),
        ("python -mkimi_cli acp", "kimi"),
        ("python -Ximporttime /x/kimi acp", "kimi"),
        ("bun --bun run /x/claude-agent-acp.js", "claude"),
        ("setsid claude-agent-acp", "claude"),
        ("/usr/bin/python3.13 -P -m vibe.acp.entrypoint", "mistral-vibe"),
        ("python3 -Im agentao --acp", "agentao"),
        ("python3 /venv/bin/kimi acp", "kimi"),
        ("uv run kimi acp", "kimi"),
        ("uv run --project /src python -m kimi_cli acp", "kimi"),
        ("uv tool run --from mistral-vibe==1.0 vibe-acp", "mistral-vibe"),
        ("uvx --python 3.13 fast-agent-acp[all]>=1 -x", "fast-agent"),
        ("pipx run openhands acp", "openhands"),
        ("env claude-agent-acp", "claude"),
        ("/usr/bin/env -u LANG LEVEL=3 node /x/claude-agent-acp", "claude"),
        ("env -S 'A=1 node /x/claude-agent-acp'", "claude"),
        ("env '-SA=1 node /x/claude-agent-acp'", "claude"),
        ("env A=1 env B=2 codex-acp", "codex"),
        ("nice -n 5 nohup codex-acp", "codex"),
        ("accord trace record -o out.jsonl --no-redact -- npx -y @agentclientprotocol/codex-acp", "codex"),
    ],
)
def test_known_agents_are_found_behind_interpreters_and_runners(command: str, expected: str) -> None:
    agent = known_agent_of(shlex.split(command))
    assert agent is not None
    assert agent.id == expected


def test_links_lead_to_the_known_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        tmp_path / "lib" / "node_modules" / "@agentclientprotocol" / "claude-agent-acp" / "dist" / "index.js"
    )
    script.parent.mkdir(parents=True)
    script.write_text("#!/usr/bin/env node\n")
    script.chmod(0o755)
    link = tmp_path / "bin" / "my-agent"
    link.parent.mkdir()
    link.symlink_to(script)
    monkeypatch.setenv("PATH", str(link.parent), prepend=":")
    for command in ([str(link)], ["my-agent"], ["node", str(link)], ["env", "A=1", "my-agent"]):
        assert known_agent_of(command) is find_known_agent("claude"), command


def test_a_checked_out_package_is_found_by_its_package_file(tmp_path: Path) -> None:
    script = tmp_path / "checkout" / "dist" / "index.js"
    script.parent.mkdir(parents=True)
    script.write_text("")
    assert known_agent_of(["node", str(script)]) is None
    package = tmp_path / "checkout" / "package.json"
    package.write_text(json.dumps({"name": "@agentclientprotocol/claude-agent-acp"}))
    assert known_agent_of(["node", str(script)]) is find_known_agent("claude")
    package.write_text("[" * 100_000)
    assert known_agent_of(["node", str(script)]) is None


def test_the_built_in_agent_is_found_behind_python_but_not_behind_a_recorder() -> None:
    assert starts_built_in(["accord", "agent"])
    assert starts_built_in(["/venv/bin/python3", "-P", "-m", "accord.cli", "agent"])
    assert starts_built_in(["python", "-m", "accord", "agent"])
    assert starts_built_in(["uvx", "accord[agent]", "agent"])
    assert not starts_built_in(["accord", "trace", "record", "--", "other-agent"])
    assert starts_coding_agent(["env", "A=b", "/venv/bin/accord", "agent", "--model", "rehearsal"])
    assert starts_coding_agent(["python", "-m", "accord", "agent"])
    assert starts_coding_agent(["uvx", "accord-agent"])
    assert not starts_coding_agent(["accord", "trace", "replay", "other.trace"])
    assert not starts_coding_agent(["goose", "agent"])
    assert not starts_built_in(["python", "-m", "accord.testing", "script.json"])
