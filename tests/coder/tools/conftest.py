import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.coder.tools.harness import ToolHarness
from tests.coder.tools.web_site import Site


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


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    server = await asyncio.start_server(site, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    yield site
    await site.close()
    server.close()
    await server.wait_closed()
