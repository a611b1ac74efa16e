import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.coder.agent.harness import AgentHarness

MEMORY = Path("/dev/shm")


@pytest.fixture
def home(tmp_path: Path) -> Generator[Path]:
    """A home folder in memory where there is one: a new session store waits for the disk several times."""
    in_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK)
    with tempfile.TemporaryDirectory(prefix="accord-home-", dir=MEMORY if in_memory else tmp_path) as folder:
        yield Path(folder).resolve()


@pytest.fixture
def harness(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentHarness:
    """Give a test its own home, an empty project and no credentials."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("ACCORD_HOME", str(home))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "ACCORD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return AgentHarness(home, project)
