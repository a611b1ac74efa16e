from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate Accord home, so that no files of the user are read or written."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("ACCORD_HOME", str(folder))
    return folder
