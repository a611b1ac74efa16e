"""Connections from a sandbox to the network and to local sockets."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.policy.sandbox.sandbox_harness import SandboxHarness, refused

CONNECT = """
def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as it:
        it.settimeout(5); it.connect(address)
        if kind == socket.SOCK_DGRAM: it.send(b"leak")
"""


@pytest.fixture
def listeners() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listen(
    listeners: ExitStack, family: int, address: object, kind: int = socket.SOCK_STREAM
) -> socket.socket:
    listener = listeners.enter_context(socket.socket(family, kind))
    listener.bind(address)  # pyright: ignore[reportArgumentType]
    if kind == socket.SOCK_STREAM:
        listener.listen()
    listener.setblocking(False)
    return listener


def test_tcp_and_udp_on_this_machine_are_not_reached(harness: SandboxHarness, listeners: ExitStack):
    tcp = listen(listeners, socket.AF_INET, ("127.0.0.1", 0))
    udp = listen(listeners, socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)
    lines = harness.attempt(
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


def test_no_address_is_reached_and_no_name_is_resolved(harness: SandboxHarness):
    lines = harness.attempt(
        CONNECT + "attempt(connect, socket.AF_INET, ('192.0.2.1', 80))\n"
        "attempt(connect, socket.AF_INET6, ('2001:db8::1', 80))\n"
        "attempt(socket.getaddrinfo, 'example.com', 80)\n"
        "attempt(connect, socket.AF_INET, ('192.0.2.1', 53), socket.SOCK_DGRAM)"
    )
    assert refused(lines)


def test_socket_families_without_namespaces_are_refused(harness: SandboxHarness):
    """One of them connects a virtual machine to its host."""
    assert refused(
        harness.attempt(
            "attempt(socket.socket, 40, socket.SOCK_STREAM)\n"
            "attempt(socket.socket, 38, socket.SOCK_SEQPACKET)"
        )
    )


@pytest.mark.parametrize("network", [False, True])
def test_local_sockets_outside_cannot_be_reached(
    harness: SandboxHarness, listeners: ExitStack, network: bool
):
    harness.options["network"] = network
    stream = listen(listeners, socket.AF_UNIX, str(harness.outside_path / "bus"))
    datagram = listen(listeners, socket.AF_UNIX, str(harness.outside_path / "log"), socket.SOCK_DGRAM)
    abstract = listen(listeners, socket.AF_UNIX, b"\0accord-test-" + os.urandom(4).hex().encode())
    lines = harness.attempt(
        CONNECT + "attempt(connect, socket.AF_UNIX, sys.argv[1])\n"
        "attempt(connect, socket.AF_UNIX, '\\0' + sys.argv[2])\n"
        "attempt(connect, socket.AF_UNIX, sys.argv[3], socket.SOCK_DGRAM)\n"
        "def reconnect():\n"
        "    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "    with one, other: one.connect(sys.argv[3]); one.send(b'leak')\n"
        "attempt(reconnect)",
        harness.outside_path / "bus",
        abstract.getsockname()[1:].decode(),
        harness.outside_path / "log",
    )
    assert refused(lines)
    for listener in (stream, abstract):
        with pytest.raises(BlockingIOError):
            listener.accept()
    with pytest.raises(BlockingIOError):
        datagram.recv(16)
    (harness.outside_path / "bus").unlink()
    (harness.outside_path / "log").unlink()
    assert harness.untouched()


def test_a_socket_pair_works(harness: SandboxHarness):
    lines = harness.attempt(
        "def talk():\n"
        "    one, other = socket.socketpair()\n"
        "    with one, other: one.send(b'hello'); return other.recv(5)\n"
        "attempt(talk)"
    )
    assert lines == ["done: b'hello'"]


def test_the_network_is_reachable_when_allowed(harness: SandboxHarness, listeners: ExitStack):
    harness.options["network"] = True
    tcp = listen(listeners, socket.AF_INET, ("127.0.0.1", 0))
    lines = harness.attempt(
        CONNECT + "attempt(connect, socket.AF_INET, ('127.0.0.1', int(sys.argv[1])))", tcp.getsockname()[1]
    )
    assert lines == ["done: None"]
    assert not harness.sandbox.report.fact("network").enforced
    assert harness.sandbox.report.is_effective
    harness.sandbox.network = False
    assert refused(
        harness.attempt(
            CONNECT + "attempt(connect, socket.AF_INET, ('127.0.0.1', int(sys.argv[1])))",
            tcp.getsockname()[1],
        )
    )


def test_server_and_client_in_one_sandbox_connect(mounted: SandboxHarness):
    lines = mounted.attempt(
        "def meet(family, address):\n"
        "    with socket.socket(family) as server:\n"
        "        server.bind(address); server.listen()\n"
        "        with socket.socket(family) as client: client.connect(server.getsockname()); return True\n"
        "attempt(meet, socket.AF_INET, ('127.0.0.1', 0)); attempt(meet, socket.AF_UNIX, 'own.sock')"
    )
    assert lines == ["done: True", "done: True"]


def test_variables_that_name_local_sockets_are_removed(harness: SandboxHarness):
    names = (
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_HOST",
        "XDG_RUNTIME_DIR",
        "DISPLAY",
        "GPG_AGENT_INFO",
    )
    harness.env |= dict.fromkeys(names, "/run/somewhere")
    seen = {line.partition("=")[0] for line in harness.run("env").out.splitlines()}
    assert seen.isdisjoint(names)


def test_io_uring_is_refused(landlocked: SandboxHarness):
    lines = landlocked.attempt(
        "def ring():\n"
        "    ring = libc.syscall(425, 8, ctypes.create_string_buffer(120))\n"
        "    if ring < 0: raise OSError(ctypes.get_errno(), 'ring')\n"
        "attempt(ring)"
    )
    assert refused(lines)


def test_kernel_keyrings_are_refused(harness: SandboxHarness):
    lines = harness.attempt(
        "import platform; numbers = {'x86_64': 250, 'aarch64': 219, 'riscv64': 219}\n"
        "def keys():\n"
        "    keys = libc.syscall(numbers[platform.machine()], 0, -4, 0)\n"
        "    if keys < 0: raise OSError(ctypes.get_errno(), 'keyctl')\n"
        "attempt(keys)"
    )
    assert lines == ["refused: PermissionError [Errno 1] keyctl"]
