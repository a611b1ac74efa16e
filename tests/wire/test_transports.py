"""The transport contract, checked for every transport on every event loop."""

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from links import ECHO, listen_for_control, memory_link, process_link
from loops import LOOPS
from tests.patience import PATIENCE
from tests.wire.remote.remote_links import http_link, websocket_link
from transport_contract import CHECKS, Inbox, MakeLink

from accord.wire.memory_transport import memory_pair
from accord.wire.transport import OversizedFrame

CHECK = str(Path(__file__).with_name("stdio_contract_program.py"))
LINKS: dict[str, MakeLink] = {
    "memory": memory_link,
    "process": process_link,
    "websocket": websocket_link,
    "http": http_link,
}
NOT_OVER_HTTP = {"frames_sent_in_one_loop_iteration_arrive_in_few_batches"}
"""HTTP carries each message in a separate request."""


@pytest.mark.parametrize(
    ("link", "check"),
    [(link, check) for link in LINKS for check in CHECKS if link != "http" or check not in NOT_OVER_HTTP],
)
@pytest.mark.parametrize("loop", LOOPS)
def test_contract(loop: str, link: str, check: str):
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run(check, LINKS[link]))


async def run(check: str, make_link: MakeLink) -> None:
    await CHECKS[check](make_link)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("wiring", ["pipes", "one socket"])
@pytest.mark.parametrize("loop", LOOPS)
def test_contract_over_stdio(loop: str, wiring: str, check: str, tmp_path: Path):
    """The check runs in a separate program. Its stdin and stdout are connected to those of the echo program.

    A single socket for stdin, stdout and stderr cannot be non-blocking, so threads serve it.
    """
    report = tmp_path / "report"
    with listen_for_control(str(tmp_path)) as listener, ExitStack() as wires:
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
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
                pass_fds=[listener.fileno()],
            ) as checked,
        ):
            wires.close()
            assert (checked.wait(PATIENCE), report.read_text()) == (0, "")
            echo.kill()


async def test_a_frame_over_the_limit_of_a_memory_pair_arrives_as_oversized():
    left, right = memory_pair(limit=10)
    inbox = Inbox()
    right.start(inbox)
    left.send(b"0123456789")
    left.send(b"0123456789x")
    left.send(b"next")
    assert await inbox.count(3) == [
        b"0123456789",
        OversizedFrame(11, b"0123456789x", b"0123456789x"),
        b"next",
    ]


async def test_frames_sent_before_a_memory_pair_closes_still_arrive():
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


async def test_drain_returns_when_the_other_end_of_a_memory_pair_closes_before_its_start():
    left, right = memory_pair()
    left.start(Inbox())
    left.send(b"x" * 1_000_000)
    drain_task = asyncio.ensure_future(left.drain())
    await asyncio.wait([drain_task], timeout=0)
    assert not drain_task.done()
    await right.aclose()
    async with asyncio.timeout(PATIENCE):
        await drain_task
