from pathlib import Path

import pytest
from tests.coder.agent.desk import Desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A home of its own, an empty project, no credentials."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setenv("ACCORD_HOME", str(home))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "ACCORD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return Desk(home, project)
