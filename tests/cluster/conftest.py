from collections.abc import Generator

import pytest
from tests.cluster.nats_servers import RunningServer, nats_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunningServer]:
    """One server for all tests of a test process. Each test uses its own prefix."""
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running
