"""The agent program that a client under test starts: it relays bytes between its stdio and the checker.

Uses only the standard library, so that it starts quickly in any environment. The checker sends packets: a
letter, a length of four bytes, and the data. The relay sends one JSON line with its arguments, then the
client's output.
"""

import json
import os
import socket
import sys
import threading


def main(port: int, token: str, arguments: list[str]) -> None:
    """Relay until either side closes."""
    try:
        connection = socket.create_connection(("127.0.0.1", port))
    except OSError as error:
        sys.exit(f"cannot connect to the checker: {error}")
    hello = {"token": token, "words": arguments, "login": os.environ.get("ACCORD_CHECK_LOGIN", "")}
    connection.sendall(json.dumps(hello).encode() + b"\n")
    reading = threading.Event()
    reading.set()
    threading.Thread(target=_forward_stdin, args=(connection, reading), daemon=True).start()
    packets = connection.makefile("rb")
    while True:
        head = packets.read(5)
        if len(head) < 5:
            os._exit(0)
        data = packets.read(int.from_bytes(head[1:], "big"))
        _handle(head[:1], data, reading)


def _handle(kind: bytes, data: bytes, reading: threading.Event) -> None:
    if kind == b"O":
        _write(1, data)
    elif kind == b"E":
        _write(2, data)
    elif kind == b"H":  # read from the client, or stop
        reading.set() if data else reading.clear()
    elif kind == b"X":
        os._exit(data[0])
    elif kind == b"K":
        os.kill(os.getpid(), 9) if os.name == "posix" else os._exit(9)


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        pass  # the client is gone; the end of stdin tells the checker


def _forward_stdin(connection: socket.socket, reading: threading.Event) -> None:
    try:
        while True:
            reading.wait()
            data = os.read(0, 65536)
            if not data:
                connection.shutdown(socket.SHUT_WR)
                return
            connection.sendall(data)
    except OSError:
        os._exit(0)  # the checker is gone


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
