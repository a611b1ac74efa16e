"""Starts a tree of processes, then does what its first argument says, or waits to be killed."""

import asyncio
import os
import signal
import sys

from accord.wire.process import spawn
from accord.wire.process_posix import WATCHDOG
from accord.wire.process_tree import StopTimeouts
from accord.wire.transport import Frame, TransportEnd

# A wrapper, a grandchild that ignores SIGTERM, and one in its own session. Each holds the named pipe open.
TREE = """
exec 9>"$HELD_PIPE"
sh -c 'trap "" TERM; echo $$ >&9; while :; do sleep 1000; done' &
setsid sh -c 'trap "" TERM; echo $$ >&9; while :; do sleep 1000; done' &
echo $$ >&9
while :; do sleep 1000; done
"""


class DiscardingReceiver:
    def frames(self, frames: list[Frame]) -> None:
        pass

    def ended(self, end: TransportEnd) -> None:
        pass


async def main(action: str, held_pipe: str) -> None:
    transport = await spawn(
        ["/bin/sh", "-c", TREE], env={"HELD_PIPE": held_pipe}, timeouts=StopTimeouts(0.1, 0.1)
    )
    transport.start(DiscardingReceiver())
    shell = WATCHDOG._shell
    assert shell is not None
    fork = 0
    if action == "fork":
        fork = os.fork()
        if fork == 0:
            os.close(1)
            signal.pause()
    if action == "ignore":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.write(f"{transport.tree.pid} {shell.pid} {fork}\n")
    sys.stdout.flush()
    if action == "close":
        sys.stdin.readline()
        await transport.aclose()
    elif action == "leave":
        sys.stdin.readline()
    else:
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1], sys.argv[2]))
