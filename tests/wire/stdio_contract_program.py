"""Runs one check of the transport contract over this program's own stdin and stdout."""

import asyncio
import socket
import sys
import traceback

from links import stdio_link
from loops import LOOPS
from transport_contract import CHECKS


def main(check: str, loop: str, listener: int) -> None:
    with (
        socket.socket(fileno=listener) as control_listener,
        asyncio.Runner(loop_factory=LOOPS[loop]) as runner,
    ):
        control_listener.setblocking(False)
        runner.run(run(check, control_listener))


async def run(check: str, control_listener: socket.socket) -> None:
    await CHECKS[check](lambda: stdio_link(control_listener))


if __name__ == "__main__":
    # Failures are written to a file, because stderr may carry the frames under test.
    with open(sys.argv[4], "a") as report:
        try:
            main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
        except BaseException:
            traceback.print_exc(file=report)
            raise
