"""Echoes stdin to stdout line by line and takes commands from a control socket. Standard library only."""

import os
import select
import socket
import sys


def main(path: str) -> None:
    control = socket.socket(socket.AF_UNIX)
    control.connect(path)
    reading, echoed, awaited, commands = True, 0, 0, b""
    while True:
        ready, _, _ = select.select([control, *([0] if reading else [])], [], [])
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
            echoed += data.count(b"\n")
        if control in ready:
            received = control.recv(4096)
            if not received:
                return
            commands += received
            *lines, commands = commands.split(b"\n")
            for line in lines:
                verb, _, number = line.decode().partition(" ")
                match verb:
                    case "stop":
                        reading = False
                        control.sendall(b"ok\n")
                    case "go":
                        reading = True
                        control.sendall(b"ok\n")
                    case "echoed":
                        awaited = int(number)
                    case _:
                        return
        if awaited and echoed >= awaited:
            awaited = 0
            control.sendall(b"ok\n")


main(sys.argv[1])
