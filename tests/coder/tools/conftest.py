from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.harness import ToolHarness


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def harness(project: Path) -> ToolHarness:
    return ToolHarness(project)


@pytest.fixture
def write(project: Path) -> Callable[[str, str | bytes], Path]:
    def make(name: str, content: str | bytes = "") -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make
