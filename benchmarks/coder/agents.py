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
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def missing(self) -> str | None:
        """Return why it cannot be measured, or None."""
        if shutil.which(self.command[0]):
            return None
        return f"{self.command[0]} is not installed; run `make bench-coder`"

    def env(self, server: ModelServer, home: Path) -> dict[str, str]:
        """Return its environment: a separate home folder and the address of the model server."""
        base = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        base.pop("PYTHONDONTWRITEBYTECODE", None)
        address = server.environment("openai-chat")
        ours = {"HOME": str(home), "ACCORD_HOME": str(home / "accord"), "ACCORD_MODEL": "openai:scripted"}
        return {**base, **address, **ours, **self.environment}


ACCORD = CodingAgent("accord", "Accord", (sys.executable, "-m", "accord.cli", "agent"), "bash")
AGENTAO = CodingAgent(
    "agentao",
    "Agentao 0.5.17",
    (str(ENVIRONMENTS / "agentao/bin/python"), "-m", "agentao.acp"),
    "run_shell_command",
    {"LLM_PROVIDER": "OPENAI", "OPENAI_MODEL": "scripted"},
)
AGENTS = (ACCORD, AGENTAO)
