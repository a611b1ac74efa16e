"""A project folder, and a folder outside it with a secret file."""

from pathlib import Path

import pytest
from tests.workspace.helpers import SECRET, Write

from accord.workspace.roots import Roots


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def roots(project: Path) -> Roots:
    return Roots(project)


@pytest.fixture
def write(project: Path) -> Write:
    def make(name: str, content: str | bytes) -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make
