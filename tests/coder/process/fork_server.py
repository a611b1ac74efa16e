"""A server that forks `accord agent` processes, without the time that Python takes to start.

It has imported everything. For each pair of pipes it receives with command-line words, it forks. The child
runs the program on these pipes until it is killed. The parent sends the child's pid, and later that the child
is gone.
"""

import os
import socket
import sys
import traceback
from importlib import import_module

PRELOADED = (
    "accord.cli.agent_command",
    "accord.coder.coding_agent",
    "accord.coder.session.session_lifecycle",
    "accord.coder.turn.session_runtime",
    "accord.coder.session.session_options",
    "accord.coder.models.rehearsal_model",
    "accord.policy.sandbox",
    "accord.store.commit_transport",
    "accord.store.sqlite_store",
)


def run_agent(words: list[str], stdin: int, stdout: int) -> None:
    """Run `accord agent WORDS`."""
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


def serve(parent: socket.socket) -> None:
    """Fork agents one at a time until the socket closes."""
    from accord.coder.tools import built_in_tools

    for name in PRELOADED:
        import_module(name)
    built_in_tools()
    while True:
        message, pipes, _, _ = socket.recv_fds(parent, 4096, 2)
        if not message:
            return
        child = os.fork()
        if child == 0:
            parent.close()
            run_agent(message.decode().split("\0"), *pipes)
        for pipe in pipes:
            os.close(pipe)
        parent.sendall(b"%d\n" % child)
        os.waitpid(child, 0)
        parent.sendall(b"gone\n")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
