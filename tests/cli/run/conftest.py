from pathlib import Path

import pytest
from tests.cli.run.run_harness import RunHarness


@pytest.fixture
def harness(tmp_path: Path) -> RunHarness:
    return RunHarness(tmp_path)
