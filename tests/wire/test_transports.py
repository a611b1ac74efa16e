"""Every transport, on every event loop, held to the one contract."""

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
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
@pytest.mark.parametrize("wiring", ["pipes", "one socket"])
@pytest.mark.parametrize("loop", LOOPS)
def test_contract_over_own_stdio(loop: str, wiring: str, check: str, tmp_path: Path):
    """The check runs in a program of its own, whose stdin and stdout are joined crosswise with the echo's.

    One socket for everything, stderr too, cannot be made non-blocking and is served by threads.
    """
    report = tmp_path / "report"
    with listening(str(tmp_path)) as listener, ExitStack() as wires:
        if wiring == "pipes":
            (echo_in, our_out), (our_in, echo_out) = fds = [os.pipe() for _ in range(2)]
            our_err = wires.enter_context(report.open("wb")).fileno()
        else:
            ours, echos = (end.detach() for end in socket.socketpair())
            fds = [(ours, echos)]
            our_in = our_out = our_err = ours
            echo_in = echo_out = echos
        for pair in fds:
            for fd in pair:
                wires.callback(os.close, fd)
        with (
            subprocess.Popen(
                [sys.executable, "-SE", ECHO, listener.getsockname()], stdin=echo_in, stdout=echo_out
            ) as echo,
            subprocess.Popen(
                [sys.executable, "-W", "error", CHECK, check, loop, str(listener.fileno()), str(report)],
                stdin=our_in,
                stdout=our_out,
                stderr=our_err,
                pass_fds=[listener.fileno()],
            ) as checked,
        ):
            wires.close()
            assert (checked.wait(40), report.read_text()) == (0, "")
            echo.kill()


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


async def test_nobody_waits_for_an_end_of_a_memory_pair_that_was_closed_before_it_was_started():
    left, right = memory_pair()
    left.start(Inbox())
    left.send(b"x" * 1_000_000)
    draining = asyncio.ensure_future(left.drain())
    await asyncio.wait([draining], timeout=0)
    assert not draining.done()
    await right.aclose()
    async with asyncio.timeout(30):
        await draining
