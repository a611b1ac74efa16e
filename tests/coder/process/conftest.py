"""Where the agents of these tests live and work."""

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's: config, keys and session logs."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What is worked on."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("alpha = 1  # TODO\n")
    (folder / "src").mkdir()
    (folder / "src" / "b.py").write_text("beta = 2\n")
    return folder
