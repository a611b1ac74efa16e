"""Ways to the network and to programs outside that listen."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.policy.sandbox.cage import Cage, refused

CONNECT = """
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as it:
        it.settimeout(5); it.connect(address)
        if kind == socket.SOCK_DGRAM: it.send(b"leak")
"""


@pytest.fixture
def doors() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listen(doors: ExitStack, family: int, address: object, kind: int = socket.SOCK_STREAM) -> socket.socket:
    listener = doors.enter_context(socket.socket(family, kind))
    listener.bind(address)  # pyright: ignore[reportArgumentType]
    if kind == socket.SOCK_STREAM:
        listener.listen()
    listener.setblocking(False)
    return listener


def test_no_tcp_and_no_udp_reach_this_machine(cage: Cage, doors: ExitStack):
    tcp = listen(doors, socket.AF_INET, ("127.0.0.1", 0))
    udp = listen(doors, socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)
    lines = cage.attempt(
        CONNECT + "attempt(connect, socket.AF_INET, ('127.0.0.1', int(sys.argv[1])))\n"
        "attempt(connect, socket.AF_INET, ('127.0.0.1', int(sys.argv[2])), socket.SOCK_DGRAM)",
        tcp.getsockname()[1],
        udp.getsockname()[1],
    )
    assert refused(lines[:1])
    with pytest.raises(BlockingIOError):
        tcp.accept()
    with pytest.raises(BlockingIOError):
        udp.recv(16)


def test_no_address_is_reached_nor_a_name_looked_up(cage: Cage):
    lines = cage.attempt(
        CONNECT
        + "attempt(connect, socket.AF_INET, ('192.0.2.1', 80)); attempt(connect, socket.AF_INET6, ('2001:db8::1', 80))\n"
        "attempt(socket.getaddrinfo, 'example.com', 80)\n"
        "attempt(connect, socket.AF_INET, ('192.0.2.1', 53), socket.SOCK_DGRAM)"
    )
    assert refused(lines)


def test_kinds_of_sockets_that_no_namespace_holds(cage: Cage):
    """A machine's line to its host is one of them."""
    assert refused(
        cage.attempt(
            "attempt(socket.socket, 40, socket.SOCK_STREAM); attempt(socket.socket, 38, socket.SOCK_SEQPACKET)"
        )
    )


@pytest.mark.parametrize("network", [False, True])
def test_local_sockets_outside_cannot_be_reached(cage: Cage, doors: ExitStack, network: bool):
    cage.options["network"] = network
    stream = listen(doors, socket.AF_UNIX, str(cage.outside / "bus"))
    datagram = listen(doors, socket.AF_UNIX, str(cage.outside / "log"), socket.SOCK_DGRAM)
    abstract = listen(doors, socket.AF_UNIX, b"\0accord-test-" + os.urandom(4).hex().encode())
    lines = cage.attempt(
        CONNECT
        + "attempt(connect, socket.AF_UNIX, sys.argv[1]); attempt(connect, socket.AF_UNIX, '\\0' + sys.argv[2])\n"
        "attempt(connect, socket.AF_UNIX, sys.argv[3], socket.SOCK_DGRAM)\n"
        "def reconnect():\n"
        "    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "    with one, other: one.connect(sys.argv[3]); one.send(b'leak')\n"
        "attempt(reconnect)",
        cage.outside / "bus",
        abstract.getsockname()[1:].decode(),
        cage.outside / "log",
    )
    assert refused(lines)
    for listener in (stream, abstract):
        with pytest.raises(BlockingIOError):
            listener.accept()
    with pytest.raises(BlockingIOError):
        datagram.recv(16)
    (cage.outside / "bus").unlink()
    (cage.outside / "log").unlink()
    assert cage.untouched()


def test_a_connected_pair_works(cage: Cage):
    lines = cage.attempt(
        "def talk():\n"
        "    one, other = socket.socketpair()\n"
        "    with one, other: one.send(b'hello'); return other.recv(5)\n"
        "attempt(talk)"
    )
    assert lines == ["done: b'hello'"]


def test_the_network_is_open_where_that_was_chosen(cage: Cage, doors: ExitStack):
    cage.options["network"] = True
    tcp = listen(doors, socket.AF_INET, ("127.0.0.1", 0))
    lines = cage.attempt(
        CONNECT + "attempt(connect, socket.AF_INET, ('127.0.0.1', int(sys.argv[1])))", tcp.getsockname()[1]
    )
    assert lines == ["done: None"]
    assert not cage.sandbox.boundary.fact("network").enforced
    assert cage.sandbox.boundary.holds
    cage.sandbox.network = False
    assert refused(
        cage.attempt(
            CONNECT + "attempt(connect, socket.AF_INET, ('127.0.0.1', int(sys.argv[1])))",
            tcp.getsockname()[1],
        )
    )


def test_a_server_and_its_client_inside_meet_on_a_loopback_of_their_own(mounted: Cage):
    lines = mounted.attempt(
        "def meet(family, address):\n"
        "    with socket.socket(family) as server:\n"
        "        server.bind(address); server.listen()\n"
        "        with socket.socket(family) as client: client.connect(server.getsockname()); return True\n"
        "attempt(meet, socket.AF_INET, ('127.0.0.1', 0)); attempt(meet, socket.AF_UNIX, 'own.sock')"
    )
    assert lines == ["done: True", "done: True"]


def test_the_variables_that_name_such_sockets_are_not_passed_on(cage: Cage):
    names = (
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_HOST",
        "XDG_RUNTIME_DIR",
        "DISPLAY",
        "GPG_AGENT_INFO",
    )
    cage.env |= dict.fromkeys(names, "/run/somewhere")
    seen = {line.partition("=")[0] for line in cage.run("env").out.splitlines()}
    assert seen.isdisjoint(names)


def test_io_rings_are_no_way_round(landlocked: Cage):
    lines = landlocked.attempt(
        "def ring():\n"
        "    if libc.syscall(425, 8, ctypes.create_string_buffer(120)) < 0: raise OSError(ctypes.get_errno(), 'ring')\n"
        "attempt(ring)"
    )
    assert refused(lines)


def test_the_kernels_key_rings_are_closed(cage: Cage):
    lines = cage.attempt(
        "import platform; numbers = {'x86_64': 250, 'aarch64': 219, 'riscv64': 219}\n"
        "def keys():\n"
        "    if libc.syscall(numbers[platform.machine()], 0, -4, 0) < 0: raise OSError(ctypes.get_errno(), 'keyctl')\n"
        "attempt(keys)"
    )
    assert lines == ["refused: PermissionError [Errno 1] keyctl"]
