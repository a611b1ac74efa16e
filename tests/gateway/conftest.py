from pathlib import Path

import pytest

from accord.gateway.access.audit_log import AuditLog


@pytest.fixture
def audit(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "audit.jsonl")
