"""The measured coding agents, and how to start each with the scripted model server."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from accord.testing.model_server import ModelServer

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-contenders"


@dataclass(frozen=True)
class CodingAgent:
    """A coding agent and its command."""

    name: str
    title: str
    command: tuple[str, ...]
    shell: str
    """The name of its tool that runs commands."""
    search: str
    """The name of its tool that searches files."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Its settings, by path in its home; `{openai}` is the address of the model server."""

    def missing(self) -> str | None:
        """Return why it cannot be measured, or None."""
        if shutil.which(self.command[0]):
            return None
        return f"{self.command[0]} is not installed; run `make bench-coder`"

    def write_files(self, server: ModelServer, home: Path) -> None:
        """Write its settings."""
        for name, text in self.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            address = server.environment("openai-chat")["OPENAI_BASE_URL"]
            (home / name).write_text(text.replace("{openai}", address))

    def env(self, server: ModelServer, home: Path) -> dict[str, str]:
        """Return its environment: a separate home folder and the address of the model server."""
        base = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        base.pop("PYTHONDONTWRITEBYTECODE", None)
        base["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{base.get('PATH', '')}"  # has ripgrep
        address = server.environment("openai-chat")
        ours = {"HOME": str(home), "ACCORD_HOME": str(home / "accord"), "ACCORD_MODEL": "openai:scripted"}
        return {**base, **address, **ours, **self.environment}


ACCORD = CodingAgent("accord", "Accord", (sys.executable, "-m", "accord.cli", "agent"), "bash", "grep")
AGENTAO = CodingAgent(
    "agentao",
    "Agentao 0.5.17",
    (str(ENVIRONMENTS / "agentao/bin/python"), "-m", "agentao.acp"),
    "run_shell_command",
    "search_file_content",
    {"LLM_PROVIDER": "OPENAI", "OPENAI_MODEL": "scripted"},
)
OPENCODE = CodingAgent(
    "opencode",
    "OpenCode 1.18.33",
    (str(ENVIRONMENTS / "opencode/node_modules/.bin/opencode"), "acp"),
    "bash",
    "grep",
    {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
    {
        ".config/opencode/opencode.json": """
{"model": "scripted/scripted", "permission": {"bash": "ask"},
 "provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "name": "Scripted",
  "options": {"baseURL": "{openai}", "apiKey": "test-key"}, "models": {"scripted": {"name": "Scripted"}}}}}
"""
    },
)
AGENTS = (ACCORD, AGENTAO, OPENCODE)
