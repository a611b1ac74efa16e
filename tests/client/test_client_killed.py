"""A client that is terminated or killed leaves no process of its agent behind."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from accord.testing import hostile_command

CLIENT = """
import asyncio, sys
from accord.client import connect

async def main():
    async with connect(*sys.argv[2:]) as agent:
        session = await agent.new_session(sys.argv[1])
        print((await session.ask("go")).text, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
LONG = 120.0
"""Seconds after which a process counts as one that never ends."""


def processes_with(text: bytes) -> set[int]:
    """The processes that have this text in their environment."""
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if text in Path(f"/proc/{name}/environ").read_bytes():
                    found.add(int(name))
            except OSError:
                continue
    return found


def child_of(parent: int, word: bytes) -> int:
    """The child of a process whose command line contains a word."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b") ")[2].split()
                if int(fields[1]) == parent and word in Path(f"/proc/{name}/cmdline").read_bytes():
                    return int(name)
            except OSError:
                continue
    raise AssertionError(f"no child {word!r}")


async def wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    loop.add_reader(descriptor, ended.set_result, None)
    try:
        await asyncio.wait_for(ended, LONG)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_grandchild_in_its_own_session_ends_with_the_client(
    tmp_path: Path, how: signal.Signals
) -> None:
    """The agent exits by itself when its client is gone, so its descendants have no parent to be found by."""
    mark = f"TEST_MARK={os.urandom(8).hex()}"
    name, _, value = mark.partition("=")
    env = {**os.environ, name: value, "ACCORD_HOME": str(tmp_path / "home")}
    client = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CLIENT,
        str(tmp_path),
        *hostile_command("leaves-children"),
        env=env,
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    assert client.stdout
    try:
        assert await client.stdout.readline() == b"Two children.\n"
        members = processes_with(mark.encode()) - {client.pid}
        assert len(members) == 3, "the agent and its two children run"
        agent, watchdog = child_of(client.pid, b"hostile"), child_of(client.pid, b"accord-watchdog")
        os.kill(watchdog, signal.SIGSTOP)  # so that the agent certainly ends before its children are searched
        client.send_signal(how)
        await client.wait()
        await wait_for_end(agent)
        os.kill(watchdog, signal.SIGCONT)
        for pid in members:
            await wait_for_end(pid)
        assert processes_with(mark.encode()) == set()
    finally:
        for pid in processes_with(mark.encode()):
            os.kill(pid, signal.SIGKILL)
        await client.communicate()
