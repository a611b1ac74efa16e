"""The process behind `tests.accord_command`: it has imported all of Accord and forks for each command."""

import gc
import json
import os
import pkgutil
import socket
import sys
import threading
import time
import traceback
from importlib import import_module
from typing import Any, NoReturn

import accord
from accord import cli

NOT_LOADED = ("accord.testing", "accord.compat", "accord.policy.sandbox.self_test")
"""Programs of their own, and what tests import."""


def load_all() -> None:
    """Import every module of Accord."""
    for module in pkgutil.walk_packages(accord.__path__, "accord."):
        if not module.name.startswith(NOT_LOADED) and not module.name.endswith("__main__"):
            import_module(module.name)
    gc.freeze()  # a collection in a child would copy the memory that it shares
    assert threading.active_count() == 1, "a process with threads must not fork"


def serve(parent: socket.socket) -> None:
    """Fork a command for each request, until the socket closes."""
    while True:
        size, descriptors, _, _ = socket.recv_fds(parent, 4, 3)
        if not size:
            return
        request = json.loads(_receive(parent, int.from_bytes(size, "big")))
        child = os.fork()
        if child == 0:
            parent.close()
            run(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        parent.sendall(child.to_bytes(8, "big"))
        _, status = os.waitpid(child, 0)
        parent.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


def _receive(parent: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += parent.recv(size - len(found))
    return found


def run(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Run the command of this request, as `python -m accord.cli` does, and exit."""
    if request["new_session"]:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv[1:] = request["words"]
    code = 1
    try:
        code = cli.main()
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not thread.daemon:
                thread.join()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - the top of a program
        traceback.print_exc()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120  # as Python exits if its last output cannot be written
    os._exit(code)  # at once: to take all modules down would take longer than most commands


if __name__ == "__main__":
    load_all()
    sys.argv[0] = str(cli.__file__).replace("__init__", "__main__")
    serve(socket.socket(fileno=int(sys.argv[1])))
