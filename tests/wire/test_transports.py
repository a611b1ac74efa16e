"""Every transport, on every event loop, held to the one contract."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from links import ECHO, listening, memory_link, process_link
from loops import LOOPS
from transport_contract import CHECKS, Inbox, MakeLink

from accord.wire.memory import memory_pair
from accord.wire.transport import Oversized

CHECK = str(Path(__file__).with_name("stdio_check.py"))
LINKS: dict[str, MakeLink] = {"memory": memory_link, "process": process_link}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("loop", LOOPS)
def test_contract(loop: str, link: str, check: str):
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run(check, LINKS[link]))


async def run(check: str, make_link: MakeLink) -> None:
    await CHECKS[check](make_link)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("loop", LOOPS)
def test_contract_over_own_stdio(loop: str, check: str, tmp_path: Path):
    """The check runs in a program of its own, whose stdin and stdout are joined crosswise with the echo's."""
    with listening(str(tmp_path)) as listener:
        echo = subprocess.Popen(
            [sys.executable, "-SE", ECHO, listener.getsockname()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with echo:
            checked = subprocess.run(
                [sys.executable, "-W", "error", CHECK, check, loop, str(listener.fileno())],
                stdin=echo.stdout,
                stdout=echo.stdin,
                stderr=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                text=True,
                check=False,
            )
            echo.kill()
    assert (checked.returncode, checked.stderr) == (0, "")


async def test_a_frame_over_the_limit_of_a_memory_pair_arrives_as_oversized():
    left, right = memory_pair(limit=10)
    inbox = Inbox()
    right.start(inbox)
    left.send(b"0123456789")
    left.send(b"0123456789x")
    left.send(b"next")
    assert await inbox.count(3) == [b"0123456789", Oversized(11, b"0123456789x", b"0123456789x"), b"next"]


async def test_what_was_sent_before_the_close_of_a_memory_pair_still_arrives():
    left, right = memory_pair()
    inbox = Inbox()
    right.start(inbox)
    right.pause()
    left.start(Inbox())
    left.send(b"last words")
    await left.aclose()
    assert inbox.ends == []
    right.resume()
    assert (await inbox.end()).reason == "the other side closed the connection"
    assert inbox.received == [b"last words"]
