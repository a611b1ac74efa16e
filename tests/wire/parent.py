"""A program that starts a tree of children and then does as it is told by its argument, or waits to be killed."""

import asyncio
import os
import signal
import sys

from accord.wire.children import Patience
from accord.wire.process import spawn
from accord.wire.transport import End, Frame
from accord.wire.watchdog import WATCHDOG

# A wrapper, a grandchild that ignores SIGTERM, and one in a session of its own; all hold the lifeline.
TREE = """
exec 9>"$LIFELINE"
sh -c 'trap "" TERM; echo $$ >&9; while :; do sleep 1000; done' &
setsid sh -c 'trap "" TERM; echo $$ >&9; while :; do sleep 1000; done' &
echo $$ >&9
while :; do sleep 1000; done
"""


class Nobody:
    def frames(self, frames: list[Frame]) -> None:
        pass

    def ended(self, end: End) -> None:
        pass


async def main(deed: str, lifeline: str) -> None:
    transport = await spawn(["/bin/sh", "-c", TREE], env={"LIFELINE": lifeline}, patience=Patience(0.1, 0.1))
    transport.start(Nobody())
    shell = WATCHDOG._shell
    assert shell is not None
    fork = 0
    if deed == "fork":
        fork = os.fork()
        if fork == 0:
            os.close(1)
            signal.pause()
    if deed == "ignore":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.write(f"{transport.tree.pid} {shell.pid} {fork}\n")
    sys.stdout.flush()
    if deed == "close":
        sys.stdin.readline()
        await transport.aclose()
    elif deed == "leave":
        sys.stdin.readline()
    else:
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1], sys.argv[2]))
