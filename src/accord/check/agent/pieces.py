"""Stands before an agent and hands on what it is sent byte by byte; what the agent says goes past it, untouched.

Run as a file, with nothing but the standard library: `python pieces.py COMMAND ...`. It ends with the agent, as the agent does.
"""

import os
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """Run the agent to its end; the result is its exit code."""
    try:
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0)
    except OSError as error:
        sys.exit(f"{command[0]} was not started: {error.strerror}")
    assert agent.stdin is not None
    threading.Thread(target=_hand_on, args=(agent.stdin.fileno(),), daemon=True).start()
    code = agent.wait()
    return code if code >= 0 else 128 - code


def _hand_on(descriptor: int) -> None:
    try:
        while data := os.read(0, 65536):
            for place in range(len(data)):
                os.write(descriptor, data[place : place + 1])
    except OSError:
        return  # the agent reads no more
    os.close(descriptor)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    os._exit(code)  # the thread may still wait for words to hand on
