"""Where the tests of `accord run` take place."""

from pathlib import Path

import pytest
from tests.cli.run.running import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
