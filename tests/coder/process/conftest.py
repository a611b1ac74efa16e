"""Folders for the agents of these tests."""

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Create the user's home, for config, keys and session logs."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a small project."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("alpha = 1  # TODO\n")
    (folder / "src").mkdir()
    (folder / "src" / "b.py").write_text("beta = 2\n")
    return folder
