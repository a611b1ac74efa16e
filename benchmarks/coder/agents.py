"""The coding agents that are measured: how each is started so that it thinks with the scripted model server."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from accord.testing.models import ModelServer

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-contenders"


@dataclass(frozen=True)
class CodingAgent:
    """One of them."""

    name: str
    title: str
    command: tuple[str, ...]
    shell: str
    """What its tool for commands is called."""
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def missing(self) -> str | None:
        """Why it cannot take part."""
        if shutil.which(self.command[0]):
            return None
        return f"{self.command[0]} is not there; `make bench-coder` installs it"

    def env(self, server: ModelServer, home: Path) -> dict[str, str]:
        """What it is started with: a home of its own, and the way to the model."""
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
