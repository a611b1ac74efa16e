"""What `accord agent` advertises and accepts before any model is asked."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest
from tests.agent.agent_client import EVERYTHING
from tests.cli.terminal import in_terminal
from tests.coder.process.editor import AGENT, environment, started

from accord import __version__

KEY = "sk-typed-0123456789"


def full_environment(home: Path) -> dict[str, str]:
    """Return the whole environment for a program started without the editor."""
    return {name: value for name, value in {**os.environ, **environment(home)}.items() if value is not None}


@pytest.mark.rule(
    "initialize.version-returned", "initialize.agent-info", "initialize.minimal-client", "auth.method-ids"
)
async def test_advertised_capabilities(home: Path, project: Path) -> None:
    async with started(home, project) as editor:
        agent_info = editor.agent
    meta = agent_info["agentCapabilities"].pop("_meta")
    assert agent_info["agentCapabilities"] == {
        "loadSession": True,
        "promptCapabilities": {"image": False, "audio": False, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": True, "acp": True},
        "sessionCapabilities": {
            "list": {},
            "delete": {},
            "resume": {},
            "close": {},
            "fork": {},
            "archive": {},
            "status": {},
            "title": {},
            "additionalDirectories": {},
            "systemPrompt": {"mode": {"override": {}}},
        },
        "auth": {"logout": {}},
    }
    assert [entry["method"] for entry in meta["_agentao.cn/extensions"]] == [
        "_agentao.cn/set_model",
        "_agentao.cn/ask_user",
    ]
    assert agent_info["protocolVersion"] == 1
    assert agent_info["agentInfo"] == {"name": "accord", "title": "Accord", "version": __version__}
    assert [method["id"] for method in agent_info["authMethods"]] == ["accord-login"]


async def test_image_capability_is_advertised_for_vision_models(home: Path, project: Path) -> None:
    words = ("--model", "anthropic:claude-sonnet-5-5")
    async with started(home, project, *words, variables={"ANTHROPIC_API_KEY": KEY}) as editor:
        assert editor.agent["agentCapabilities"]["promptCapabilities"]["image"] is True


@pytest.mark.rule("auth.terminal-login-exits")
async def test_terminal_login_method_stores_the_key(home: Path, project: Path) -> None:
    async with started(home, project, capabilities=EVERYTHING) as editor:
        agent_login, terminal_login = editor.agent["authMethods"]
    assert agent_login.get("type", "agent") == "agent"
    assert terminal_login["type"] == "terminal"
    with in_terminal("agent", *terminal_login["args"], env=full_environment(home)) as terminal:
        terminal.expect("Number or name: ")
        terminal.type("anthropic\n")
        terminal.expect("Key for anthropic")
        terminal.type(f"{KEY}\n")
        assert terminal.end() == 0
    assert KEY not in terminal.shown
    assert KEY in (home / "config" / "credentials.json").read_text()


async def test_agent_works_without_setup(home: Path, project: Path) -> None:
    async with started(home, project) as editor:
        chat = await editor.new()
        assert chat.opened["modes"]["currentModeId"] == "ask"
        options = {option["id"]: option for option in chat.opened["configOptions"]}
        assert options["model"]["currentValue"] == "rehearsal"
        assert options["mode"]["currentValue"] == "ask"
        commands = await chat.update("available_commands_update")
        names = {command["name"] for command in commands["availableCommands"]}
        assert names >= {"help", "model", "mode", "plan", "compact", "usage", "init", "tools", "mcp"}
        record = await chat.turn("What is this?")
    assert "no AI" in record.text
    assert "a.py" in record.text
    assert (record.stop, record.call["kind"]) == ("end_turn", "read")


async def test_closed_stdin_exits_silently(home: Path) -> None:
    agent = await asyncio.create_subprocess_exec(
        *AGENT, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=full_environment(home)
    )
    assert await agent.communicate() == (b"", b"")
    assert agent.returncode == 0
