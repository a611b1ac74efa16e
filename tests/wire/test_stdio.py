"""The transport over stdin and stdout, with real programs and all kinds of descriptors."""

import os
import pty
import socket
import subprocess
import sys
import tty
from pathlib import Path

import pytest
from loops import LOOPS
from tests.patience import PATIENCE

ECHO = """
import asyncio, importlib, os, sys
from accord.wire.stdio import StdioTransport

class Echo:
    def __init__(self):
        self.transport = StdioTransport(limit=1 << 20, flush=0.5)
        self.over = asyncio.Event()
    def frames(self, frames):
        for frame in frames:
            self.seen(frame)
            self.transport.send(frame if isinstance(frame, bytes) else b'"%d bytes"' % frame.size)
    def seen(self, frame):
        pass
    def ended(self, end):
        if sys.stderr:
            sys.stderr.write(f"ended: {end.reason}\\n")
        self.over.set()

async def main(echo):
    echo.transport.start(echo)
    await echo.over.wait()
    await echo.transport.aclose()

def run(make=Echo):
    echo = make()
    with asyncio.Runner(loop_factory=importlib.import_module(LOOP).new_event_loop) as runner:
        runner.run(main(echo))
"""
GONE = "ended: the client closed stdin\n"


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return request.param


def command(loop: str, code: str = "run()") -> list[str]:
    return [sys.executable, "-W", "error", "-c", f"LOOP = {loop!r}\n{ECHO}\n{code}"]


def run_program(loop: str, code: str = "run()", **options: object) -> tuple[int, bytes, bytes]:
    """Run a program to its end; return its exit code, stdout and stderr."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    options = {
        "env": env,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "timeout": PATIENCE,
        "check": False,
        **options,
    }
    done = subprocess.run(command(loop, code), **options)  # type: ignore[call-overload]
    return done.returncode, done.stdout or b"", done.stderr or b""


def test_a_last_request_without_a_line_end_is_answered(loop: str):
    assert run_program(loop, input=b'{"a":1}\n{"b":2}') == (0, b'{"a":1}\n{"b":2}\n', GONE.encode())


def test_a_response_after_the_end_of_stdin_is_still_written(loop: str):
    code = """
class Slow(Echo):
    def ended(self, end):
        async def answer():
            await asyncio.sleep(0)
            self.transport.send(b'"late"')
            self.over.set()
        self.task = asyncio.ensure_future(answer())
run(Slow)
"""
    assert run_program(loop, code, input=b"{}") == (0, b'{}\n"late"\n', b"")


@pytest.mark.rule("framing.agent-only-messages")
def test_stray_output_from_any_source_goes_to_stderr(loop: str):
    code = """
print("before")
class Loud(Echo):
    def seen(self, frame):
        old.write("kept\\\\n")
        print("python")
        sys.stdout.buffer.write(b"bytes\\\\n")
        sys.stdout.flush()
        os.write(1, b"descriptor\\\\n")
        os.system("echo child")
        old.flush()
old = sys.stdout
run(Loud)
""".replace("\\\\n", "\\n")
    status, out, err = run_program(loop, code, input=b"{}\n")
    assert (status, out) == (0, b"{}\n")
    assert err == b"before\npython\nbytes\ndescriptor\nchild\nkept\n" + GONE.encode()


@pytest.mark.rule("framing.agent-only-messages")
def test_other_readers_of_stdin_get_nothing(loop: str):
    code = """
class Curious(Echo):
    def seen(self, frame):
        sys.stderr.write(repr(sys.stdin.read()) + repr(os.read(0, 9)) + "\\\\n")
        sys.stderr.flush()
        os.system("cat >&2")
run(Curious)
""".replace("\\\\n", "\\n")
    status, out, err = run_program(loop, code, input=b"1\n2\n3\n")
    assert (status, out) == (0, b"1\n2\n3\n")
    assert err == b"''b''\n" * 3 + GONE.encode()


@pytest.mark.rule("framing.agent-one-line", "framing.agent-utf8")
def test_unicode_text_passes_unchanged(loop: str):
    text = '"' + "".join(map(chr, (0xE9, 0x4F60, 0x597D, 0xFF0C, 0xFEFF, 0x1F44B, 0x2028))) + '\\n"'
    assert run_program(loop, input=text.encode() + b"\r\n\n")[1] == text.encode() + b"\n"


def test_a_frame_over_the_limit_is_oversized_and_the_next_one_is_served(loop: str):
    assert run_program(loop, input=b"x" * (3 << 20) + b"\n{}\n")[1] == b'"3145728 bytes"\n{}\n'


def test_stdin_may_be_a_file(loop: str, tmp_path: Path):
    requests = tmp_path / "requests"
    requests.write_bytes(b"".join(b'{"n":%d}\n' % n for n in range(20_000)))
    with requests.open("rb") as stdin:
        assert run_program(loop, stdin=stdin) == (0, requests.read_bytes(), GONE.encode())


def test_stdin_may_be_dev_null(loop: str):
    assert run_program(loop, stdin=subprocess.DEVNULL) == (0, b"", GONE.encode())


def test_stdout_may_be_a_file(loop: str, tmp_path: Path):
    answers = tmp_path / "answers"
    with answers.open("wb") as stdout:
        assert run_program(loop, input=b"{}\n" * 5000, stdout=stdout)[0] == 0
    assert answers.read_bytes() == b"{}\n" * 5000


@pytest.mark.parametrize(
    ("closed", "reason"),
    [
        ("<&-", b"ended: stdin is closed; there is nothing to read\n"),
        (">&-", b"ended: stdout is closed; responses cannot be sent\n"),
        ("<&- >&-", b"ended: stdout is closed; responses cannot be sent\n"),
        ("2>&-", b""),
    ],
)
def test_a_closed_descriptor_ends_the_connection_with_a_reason(loop: str, closed: str, reason: bytes):
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command(loop)],
        input=b"{}\n",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, reason)
    assert done.stdout == (b"{}\n" if closed == "2>&-" else b"")


def test_all_three_descriptors_may_be_sockets(loop: str):
    pairs = [socket.socketpair() for _ in range(3)]
    child = subprocess.Popen(
        command(loop), stdin=pairs[0][1].fileno(), stdout=pairs[1][1].fileno(), stderr=pairs[2][1].fileno()
    )
    for _, theirs in pairs:
        theirs.close()
    (to_child, _), (from_child, _), (errors, _) = pairs
    to_child.sendall(b"{}\n")
    assert from_child.recv(100) == b"{}\n"
    to_child.shutdown(socket.SHUT_WR)
    assert child.wait(PATIENCE) == 0
    assert errors.recv(100) == GONE.encode()
    for ours, _ in pairs:
        ours.close()


@pytest.mark.parametrize("stderr", ["the same", "another"])
def test_one_socket_for_both_directions(loop: str, stderr: str):
    ours, theirs = socket.socketpair()
    their_end = theirs.fileno()
    errors = their_end if stderr == "the same" else subprocess.DEVNULL
    frame = b'"' + b"x" * 300_000 + b'"\n'
    with ours, subprocess.Popen(command(loop), stdin=their_end, stdout=their_end, stderr=errors) as child:
        theirs.close()
        ours.sendall(frame)
        ours.shutdown(socket.SHUT_WR)
        received = b""
        while data := ours.recv(65536):
            received += data
        assert child.wait(PATIENCE) == 0
    assert received.replace(GONE.encode(), b"") == frame


def test_stdout_and_stderr_may_be_the_same_pipe(loop: str):
    code = """
class Loud(Echo):
    def seen(self, frame):
        print("x" * 100_000)
run(Loud)
"""
    status, out, _ = run_program(loop, code, input=b"{}\n" * 20, stderr=subprocess.STDOUT)
    assert status == 0
    assert out.count(b"x" * 100_000) == 20
    assert out.count(b"{}\n") == 20


def test_a_terminal_works_and_stays_blocking(loop: str):
    master, slave = pty.openpty()
    tty.setraw(slave)
    with subprocess.Popen(command(loop), stdin=slave, stdout=slave, stderr=subprocess.PIPE) as child:
        os.write(master, b"{}\n")
        assert os.read(master, 100) == b"{}\n"
        assert os.get_blocking(slave)
        os.close(slave)
        os.close(master)
        assert child.communicate(timeout=PATIENCE) == (None, GONE.encode())
        assert child.returncode == 0


def test_a_shared_stdout_pipe_stays_blocking_for_other_processes(loop: str):
    readable, writable = os.pipe()
    with subprocess.Popen(
        command(loop), stdin=subprocess.PIPE, stdout=writable, stderr=subprocess.PIPE
    ) as child:
        _, err = child.communicate(b"{}\n", timeout=PATIENCE)
        assert (child.returncode, err) == (0, GONE.encode())
    assert os.get_blocking(writable)
    assert os.read(readable, 100) == b"{}\n"
    os.close(readable)
    os.close(writable)


def test_a_client_that_stopped_reading_ends_the_connection_without_a_traceback(loop: str):
    with subprocess.Popen(
        command(loop), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        child.stdin.write(b"{}\n")
        child.stdin.flush()
        assert child.stderr.read() == b"ended: the client no longer reads our stdout (Broken pipe)\n"
        assert child.wait(PATIENCE) == 0


@pytest.mark.rule("framing.exits-at-end-of-input")
def test_a_client_that_never_reads_does_not_prevent_the_exit(loop: str):
    with subprocess.Popen(
        command(loop), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        child.stdin.write(b"x" * 500_000 + b"\n")
        child.stdin.close()
        assert child.wait(PATIENCE) == 0
