from pathlib import Path

import pytest
from tests.coder.agent.harness import AgentHarness


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentHarness:
    """Give a test its own home, an empty project and no credentials."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setenv("ACCORD_HOME", str(home))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "ACCORD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return AgentHarness(home, project)
