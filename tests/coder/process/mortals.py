"""A process that bears agents and buries them: `accord agent` without the time that Python takes to start.

It has imported everything. For every pair of pipes that it is sent with the words of a command line, it forks: the child speaks
on these pipes as the program would, until somebody kills it. The parent says its number, and later that it is gone.
"""

import os
import socket
import sys
import traceback
from importlib import import_module

NEEDED = (
    "accord.cli.agent",
    "accord.coder.app",
    "accord.coder.sessions",
    "accord.coder.workbench",
    "accord.coder.options",
    "accord.coder.models.rehearsal",
    "accord.policy.sandbox",
    "accord.store.gate",
    "accord.store.sqlite",
)


def live(words: list[str], stdin: int, stdout: int) -> None:
    """Be `accord agent WORDS`."""
    from accord.cli import main

    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.close(stdin)
    os.close(stdout)
    code = 1
    try:
        code = main(["agent", *words])
    except BaseException:  # noqa: BLE001 - the top of a program
        traceback.print_exc()
    os._exit(code)


def bear(parent: socket.socket) -> None:
    """Agents, one after the other, until nobody wants one any more."""
    from accord.coder.tools import built_in_tools

    for name in NEEDED:
        import_module(name)
    built_in_tools()
    while True:
        said, pipes, _, _ = socket.recv_fds(parent, 4096, 2)
        if not said:
            return
        child = os.fork()
        if child == 0:
            parent.close()
            live(said.decode().split("\0"), *pipes)
        for pipe in pipes:
            os.close(pipe)
        parent.sendall(b"%d\n" % child)
        os.waitpid(child, 0)
        parent.sendall(b"gone\n")


if __name__ == "__main__":
    bear(socket.socket(fileno=int(sys.argv[1])))
