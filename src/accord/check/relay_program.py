"""The agent that a client under test starts: it only passes bytes between its stdio and the checker, which plays the part.

Run as a file, with nothing but the standard library, so that it starts at once whatever the client left of its environment.
From the checker come small packets: a letter, a length of four bytes, the bytes. To it go one line that says who started us,
then everything that the client wrote.
"""

import json
import os
import socket
import sys
import threading


def main(port: int, token: str, words: list[str]) -> None:
    """Pass bytes on until either side is done."""
    try:
        line = socket.create_connection(("127.0.0.1", port))
    except OSError as error:
        sys.exit(f"the checker is not to be reached: {error}")
    hello = {"token": token, "words": words, "login": os.environ.get("ACCORD_CHECK_LOGIN", "")}
    line.sendall(json.dumps(hello).encode() + b"\n")
    hearing = threading.Event()
    hearing.set()
    threading.Thread(target=_listen, args=(line, hearing), daemon=True).start()
    packets = line.makefile("rb")
    while True:
        head = packets.read(5)
        if len(head) < 5:
            os._exit(0)
        data = packets.read(int.from_bytes(head[1:], "big"))
        _act(head[:1], data, hearing)


def _act(what: bytes, data: bytes, hearing: threading.Event) -> None:
    if what == b"O":
        _write(1, data)
    elif what == b"E":
        _write(2, data)
    elif what == b"H":  # hear the client, or do not
        hearing.set() if data else hearing.clear()
    elif what == b"C":  # say no more, but live on
        os.close(1)
    elif what == b"X":
        os._exit(data[0])
    elif what == b"K":
        os.kill(os.getpid(), 9) if os.name == "posix" else os._exit(9)


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        pass  # nobody listens any more; the end of our input tells the checker


def _listen(line: socket.socket, hearing: threading.Event) -> None:
    try:
        while True:
            hearing.wait()
            data = os.read(0, 65536)
            if not data:
                line.shutdown(socket.SHUT_WR)
                return
            line.sendall(data)
    except OSError:
        os._exit(0)  # the checker is gone


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
