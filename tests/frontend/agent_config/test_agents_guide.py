"""The agents guide: its example file works, its commands exist, its names can be imported."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

from tests.frontend.agent_config.config_folders import ConfigFolders

import accord.frontend.agent_config
from accord.frontend.agent_config import load
from accord.frontend.agent_config.agent_list_formats import ENTRY_KEYS
from accord.schema import McpServerHttp

GUIDE = (Path(__file__).parents[3] / "docs" / "agents.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\b[^\n]*\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_file_works_and_every_key_is_documented(folders: ConfigFolders) -> None:
    folders.write_user_file(block("json"))
    server = load(folders.project).default
    environ = {"TEAM_KEY": "t", "TICKETS_TOKEN": "x", "PATH": "/bin"}
    assert server.launch(environ=environ).command == ("helper-agent", "--acp")
    assert (server.launch(environ=environ).env or {})["LEVEL"] == "3"
    tickets = server.mcp_servers(environ)[1]
    assert isinstance(tickets, McpServerHttp)
    assert tickets.headers[0].value == "Bearer x"
    entry = json.loads(block("json"))["servers"]["helper"]
    assert set(entry) | {"cwd"} == ENTRY_KEYS
    table = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", GUIDE, re.MULTILINE)
    assert {key for cell in table for key in re.findall(r"`(\w+)`", cell)} >= ENTRY_KEYS


def test_the_commands_and_names_of_the_guide_exist() -> None:
    commands = set(re.findall(r"accord agents (\w+)", GUIDE))
    help_text = subprocess.run(
        [sys.executable, "-m", "accord.cli", "agents", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert commands <= set(re.findall(r"^  (\w+) ", help_text, re.MULTILINE))
    code = "async def _():\n" + "\n".join(f"    {line}" for line in block("python").splitlines())
    ast.parse(code)
    for name in ("ask", "load", "once", "leave_out", "NotTrusted"):
        assert name in accord.frontend.agent_config.__all__
