from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.certificates import Certificate, new_certificate
from tests.gateway.notifications.receiver import Receiver, running_receiver


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return new_certificate(tmp_path_factory.mktemp("receiver"))


@pytest.fixture
async def receiver(certificate: Certificate) -> AsyncGenerator[Receiver]:
    async with running_receiver(certificate) as receiver:
        yield receiver
