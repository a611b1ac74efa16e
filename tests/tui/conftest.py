from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own: nothing of the user's is read or written."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("ACCORD_HOME", str(folder))
    return folder
