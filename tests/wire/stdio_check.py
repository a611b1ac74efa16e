"""Runs one check of the transport contract over this program's own stdin and stdout."""

import asyncio
import socket
import sys

from links import stdio_link
from loops import LOOPS
from transport_contract import CHECKS


def main(check: str, loop: str, listener: int) -> None:
    with (
        socket.socket(fileno=listener) as listening,
        asyncio.Runner(loop_factory=LOOPS[loop]) as runner,
    ):
        listening.setblocking(False)
        runner.run(run(check, listening))


async def run(check: str, listening: socket.socket) -> None:
    await CHECKS[check](lambda: stdio_link(listening))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
