from pathlib import Path

import pytest

from accord.gateway.access.audit import Audit


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(tmp_path / "audit.jsonl")
